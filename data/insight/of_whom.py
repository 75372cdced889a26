"""Findings about whose jobs a history knows: users, names, pools, and for how long it knows them."""

from itertools import pairwise
from typing import Final

import pandas as pd

from data.insight.evidence import DAY_S, Evidence
from data.insight.finding import Finding, FindingId
from data.intake.format import Clock
from data.intake.report import day_text
from domain.attempts import EndCause

HARDLY: Final = 0.05
MOST: Final = 0.5
LEAST_ROWS: Final = 20
"""Rows of a day, or of a kind, below which their shares say nothing."""

_JUMP: Final = 0.5
_LITTLE: Final = 0.1
_LEAST_USERS_JOBS: Final = 50


def users_and_names(evidence: Evidence) -> Finding | None:
    """Whether anything tells which jobs are alike."""
    jobs = evidence.jobs
    user, name = evidence.share(jobs["user"].notna()), evidence.share(jobs["name"].notna())
    numbers = {"with_user": user, "with_name": name}
    if user < HARDLY and name < HARDLY:
        text = f"{user:.0%} of the jobs have a user, {name:.0%} a name"
        return Finding(FindingId.NO_USER_NO_NAME, text, numbers)
    if name < HARDLY:
        return Finding(FindingId.NO_NAMES, f"{user:.0%} of the jobs have a user, {name:.0%} a name", numbers)
    return None


def unknown_users(evidence: Evidence) -> Finding | None:
    """Whether most jobs, but not nearly all, lack a user."""
    share = evidence.share(evidence.jobs["user"].isna())
    if not MOST <= share <= 1.0 - HARDLY:
        return None
    told = " (the source writes 0 for an unknown user)" if evidence.says("user_0_is_unknown") else ""
    return Finding(
        FindingId.USER_MOSTLY_UNKNOWN, f"{share:.0%} of the jobs have no user{told}", {"share": share}
    )


def one_user(evidence: Evidence) -> Finding | None:
    """Whether one user holds most of the jobs that have one."""
    known = evidence.jobs["user"].dropna()
    counts = known.value_counts()
    if len(known) < _LEAST_USERS_JOBS or len(counts) < 2 or counts.iloc[0] / len(known) < MOST:
        return None
    share, user = counts.iloc[0] / len(known), str(counts.index[0])
    text = f"user {user!r} holds {share:.0%} of {len(known):,} jobs with a user, of {len(counts):,} users"
    return Finding(FindingId.ONE_USER, text, {"user": user, "share": float(share), "users": len(counts)})


def no_pools(evidence: Evidence) -> Finding | None:
    """Whether hardly any job has a pool."""
    share = evidence.share(evidence.jobs["pool"].notna())
    if share >= HARDLY:
        return None
    return Finding(FindingId.NO_POOLS, f"{share:.1%} of the jobs have a pool", {"with_pool": share})


def pool_of_passed(evidence: Evidence) -> Finding | None:
    """Whether pools are told of jobs that ended well, and of no others.

    Where causes are known for a part only, whatever has no pool counts as not having ended well.
    """
    attempts = evidence.attempts
    has_pool = attempts["pool"].notna()
    causes = attempts["cause"]
    known = attempts[causes.ne(EndCause.UNKNOWN.value)]
    passed = known["cause"].eq(EndCause.COMPLETED.value)
    of_passed = evidence.share(known.loc[passed, "pool"].notna())
    of_others = evidence.share(known.loc[~passed, "pool"].notna())
    is_enough = min(int(passed.sum()), int((~passed).sum())) >= LEAST_ROWS
    is_seen = is_enough and of_passed >= 1.0 - 2 * HARDLY and of_others <= 2 * HARDLY
    if not is_seen and not evidence.says("pool_of_passed_jobs_only"):
        return None
    text = (
        f"{of_passed:.0%} of the attempts that completed have a pool, {of_others:.0%} of those that failed "
        f"or were killed; {evidence.share(has_pool):.0%} of all"
    )
    return Finding(FindingId.POOL_OF_PASSED, text, {"of_completed": of_passed, "of_others": of_others})


def part_only(evidence: Evidence) -> Finding | None:
    """Whether users, names, states, pools or counts are known on some days and not on others."""
    attempts = evidence.attempts
    days = (attempts["submit_s"] // DAY_S).astype("int64")
    known = pd.DataFrame(
        {
            "user": attempts["user"].notna(),
            "name": attempts["name"].notna(),
            "pool": attempts["pool"].notna(),
            "state": attempts["cause"].ne(EndCause.UNKNOWN.value),
            "GPUs": attempts["gpus_milli"].notna(),
        }
    )
    groups = known.groupby(days)
    shares = groups.mean()[groups.size() >= LEAST_ROWS]
    jumps = {name: jump for name in known.columns if (jump := _jump(shares[name])) is not None}
    if not jumps:
        return None
    words = [
        f"{name} from {was:.0%} to {now:.0%} on {_day(day, evidence)}"
        for name, (day, was, now) in jumps.items()
    ]
    numbers = {name: {"day": day, "from": was, "to": now} for name, (day, was, now) in jumps.items()}
    return Finding(FindingId.PART_ONLY, f"the share that is known jumps: {', '.join(words)}", numbers)


def paths_in_text(evidence: Evidence) -> Finding | None:
    """Whether names are paths or command lines."""
    names = evidence.jobs["name"].dropna()
    share = evidence.share(names.str.contains("/", regex=False)) if len(names) else 0.0
    if share < HARDLY:
        return None
    return Finding(FindingId.PATHS_IN_TEXT, f"{share:.0%} of the names hold a path", {"share": share})


def recurrence(evidence: Evidence) -> Finding | None:
    """Whether jobs come again under the same user and name."""
    keyed = evidence.jobs[["user", "name"]].dropna()
    if len(keyed) < 10 * LEAST_ROWS:
        return None
    again = evidence.share(keyed.duplicated())
    if again >= _LITTLE:
        return None
    text = f"{again:.1%} of {len(keyed):,} jobs have the user and name of an earlier one"
    return Finding(FindingId.LITTLE_RECURRENCE, text, {"share": again})


def _jump(shares: pd.Series) -> tuple[int, float, float] | None:
    """The first day on which a share changes a lot, and both shares."""
    values = [(int(str(day)), float(share)) for day, share in shares.items()]
    found = ((day, was, now) for (_, was), (day, now) in pairwise(values) if abs(now - was) >= _JUMP)
    return next(found, None)


def _day(day: int, evidence: Evidence) -> str:
    return f"day {day}" if evidence.clock is Clock.RELATIVE else day_text(day)
