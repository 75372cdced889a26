"""Findings: what a history cannot support, as a closed set of stable ids with the numbers that say so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self


class Use(StrEnum):
    """What a history is wanted for."""

    LIVES = "lives"
    """Forecasts of how long jobs run."""
    DEMAND = "demand"
    """Forecasts of what will be submitted, and when."""
    WAITS = "waits"
    """What queues cost."""
    POOLS = "pools"
    """Anything by pool."""
    CALENDAR = "calendar"
    """Hours of the day, weekdays, dates."""
    WIDTHS = "widths"
    """How many GPUs jobs hold; replays."""


class Verdict(StrEnum):
    """Whether it can be used so."""

    YES = "yes"
    WEAK = "weak"
    NO = "no"


class FindingId(StrEnum):
    """Ids of all findings; `weakens` and `forbids` say what of."""

    meaning: str
    weakens: tuple[Use, ...]
    forbids: tuple[Use, ...]

    def __new__(
        cls, finding_id: str, meaning: str, weakens: tuple[Use, ...] = (), forbids: tuple[Use, ...] = ()
    ) -> Self:
        """Make a member whose value is the id alone."""
        member = str.__new__(cls, finding_id)
        member._value_ = finding_id
        member.meaning, member.weakens, member.forbids = meaning, weakens, forbids
        return member

    # Whose jobs
    NO_USER_NO_NAME = (
        "no-user-no-name",
        "neither users nor names: no job is known to be like another, lifetimes will be weak",
        (Use.LIVES,),
    )
    NO_NAMES = "no-names", "users without names: a user's jobs cannot be told apart", (Use.LIVES,)
    USER_MOSTLY_UNKNOWN = (
        "user-mostly-unknown",
        "most jobs have no user: what is learned by user holds for the others only",
        (Use.LIVES,),
    )
    ONE_USER = (
        "one-user-holds-most",
        "one user holds most jobs: a service or a placeholder, not a person",
        (Use.LIVES,),
    )
    NO_POOLS = "no-pools", "no pool is told: everything is one pool", (), (Use.POOLS,)
    POOL_OF_PASSED = (
        "pool-of-passed-jobs-only",
        "the pool is told of jobs that ended well only: by pool nothing ever fails",
        (),
        (Use.POOLS,),
    )
    PART_ONLY = (
        "known-for-a-part-only",
        "something is known for a part of the time only: train on that part",
        (Use.LIVES, Use.POOLS),
    )
    PATHS_IN_TEXT = (
        "paths-in-text",
        "names hold paths or whole command lines: take care whom they are shown to, and few repeat",
    )
    LITTLE_RECURRENCE = (
        "little-recurs",
        "few jobs are like an earlier one of the same user and name",
        (Use.LIVES,),
    )

    # When
    PENDING_AT_ONE_TIME = (
        "only-jobs-pending-at-one-time",
        "only jobs that were waiting at one time of day: who started at once is missing, no demand forecast",
        (Use.LIVES,),
        (Use.DEMAND, Use.WAITS),
    )
    NO_WAITS = "no-waits", "no starts, or starts that are the submissions: nothing waits", (), (Use.WAITS,)
    WAITS_DOUBTFUL = "waits-not-trustworthy", "the source says that its waits are not right", (), (Use.WAITS,)
    GAPS_NOT_TIMES = (
        "gaps-in-place-of-times",
        "the source has gaps between jobs in place of times: no hour of it is true",
        (Use.DEMAND,),
        (Use.CALENDAR, Use.WAITS),
    )
    RELATIVE_CLOCK = (
        "relative-clock",
        "instants count from an unknown origin: no dates, holidays or weekdays",
        (Use.DEMAND,),
        (Use.CALENDAR,),
    )
    RELATIVE_DATES = (
        "relative-dates",
        "instants count from an unknown origin, and their hours and weekdays are true: no dates or holidays",
        (Use.CALENDAR,),
    )
    ZONE_ASSUMED = (
        "zone-assumed",
        "stamps have no offset and were read with a zone that the format is known for",
    )
    CLOCK_CHANGED = (
        "clocks-changed",
        "naive stamps fell into hours that a clock showed twice or not at all",
    )
    DAYS_WITHOUT_ROWS = (
        "days-without-rows",
        "days without any submission: a gap of the collection, or of the cluster",
        (Use.DEMAND,),
    )
    SHORT_RECORD = (
        "short-record",
        "less than two weeks: no weekday has been seen twice",
        (Use.DEMAND, Use.CALENDAR),
    )

    # How long
    CENSORED_AT_EDGE = (
        "censored-at-the-edge",
        "jobs still ran where the record ends: their lives are longer than seen",
    )
    TRUNCATED_AT_START = (
        "truncated-at-the-start",
        "jobs ran before the record begins: their true start is not known, and short ones are missing",
    )
    MOSTLY_CUT_OFF = (
        "lives-mostly-cut-off",
        "most lives were cut off before their own end",
        (Use.LIVES,),
    )
    STATES_UNKNOWN = "states-unknown", "nobody says how most jobs ended: each end counts as one", (Use.LIVES,)
    LIVES_WITH_WAITS = (
        "lives-include-waiting",
        "nothing says when jobs started: their lives hold their waiting",
        (Use.LIVES,),
        (Use.WAITS,),
    )
    LENGTHS_DISAGREE = (
        "lengths-disagree",
        "lengths given are not end minus start; start and end were taken",
    )
    NO_LIMITS = "no-limits", "hardly any job has a time limit"
    LIMITS_SAY_LITTLE = (
        "limits-say-little",
        "nearly all limits are the same: they say nothing of a job",
    )
    ATTEMPTS_NOT_JOBS = (
        "one-row-per-attempt",
        "each row is an attempt and nothing joins them: a job that was retried counts several times",
        (Use.DEMAND, Use.LIVES),
    )
    PODS_NOT_JOBS = (
        "pods-not-jobs",
        "each row is a pod: gangs of several are not known to be one job",
        (Use.WIDTHS,),
    )

    # How wide
    NO_WIDTHS = "no-widths", "no row says how wide a job is", (), (Use.WIDTHS,)
    NO_GPU_COUNTS = "no-gpu-counts", "hardly any row says how many GPUs", (), (Use.WIDTHS,)
    HARDLY_ANY_GPUS = "hardly-any-gpus", "hardly any job uses a GPU", (), (Use.WIDTHS,)
    PROCESSORS = "processors-not-gpus", "the source counts processors, not GPUs", (Use.WIDTHS,)
    WITHOUT_GPUS = (
        "jobs-without-gpus",
        "jobs that need no GPU are among them: exports leave them out",
    )
    SHARES_OF_GPUS = "shares-of-gpus", "jobs that hold a share of a GPU: exports round up to whole ones"
    FIELDS_TRIMMED = (
        "fields-with-spaces",
        "values had spaces around them or a unit glued to them: other programs may read them otherwise",
    )
    POOLS_COME_AND_GO = (
        "pools-come-and-go",
        "pools are born, grow, shrink or die: a quota is true for a time only",
        (Use.POOLS,),
    )


@dataclass(frozen=True)
class Finding:
    """Something that a history cannot support, or that whoever uses it should know.

    Attributes:
        finding: which.
        message: one line with the numbers, for people.
        numbers: the same for programs.
    """

    finding: FindingId
    message: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The finding as one JSON object."""
        return {
            "finding": self.finding.value,
            "meaning": self.finding.meaning,
            "message": self.message,
            "numbers": dict(self.numbers),
            "weakens": [use.value for use in self.finding.weakens],
            "forbids": [use.value for use in self.finding.forbids],
        }


USES: Final = tuple(Use)


def supports(findings: Sequence[Finding]) -> dict[str, dict[str, Any]]:
    """Of each use whether the history supports it, and the ids of the findings that say otherwise."""
    found = {}
    for use in USES:
        against = [one.finding.value for one in findings if use in one.finding.forbids]
        weak = [one.finding.value for one in findings if use in one.finding.weakens]
        verdict = Verdict.NO if against else Verdict.WEAK if weak else Verdict.YES
        found[use.value] = {"verdict": verdict.value, "because": against + weak}
    return found
