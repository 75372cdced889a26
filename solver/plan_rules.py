"""The words of the plan checker: what it looks at, which rules there are, what it finds."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from domain.cluster import Gpu, Node
from domain.interference import PairRates
from domain.jobs import Job
from solver.packed_sets import GpuKey


class PlanRule(StrEnum):
    """What a plan must keep to; `docs/plan-checks.md` says what each of them means."""

    UNKNOWN_JOB = "unknown-job"
    NAMED_TWICE = "named-twice"
    STARTS_WHAT_DOES_NOT_WAIT = "starts-what-does-not-wait"
    MORE_GPUS_THAN_IDLE = "more-gpus-than-idle"

    OWN_BEYOND_QUOTA = "own-beyond-quota"
    OWN_START_BEYOND_LANE = "own-start-beyond-lane"
    OWN_START_OVERTAKES = "own-start-overtakes"

    SENDS_BACK_WHAT_DOES_NOT_RUN = "sends-back-what-does-not-run"
    OWN_JOB_SENT_BACK = "own-job-sent-back"
    SENT_BACK_BUT_NOT_REQUEUEABLE = "sent-back-but-not-requeueable"
    SENT_BACK_FOR_NOBODY = "sent-back-for-nobody"
    SUSPENDS_WHAT_DOES_NOT_RUN = "suspends-what-does-not-run"
    SUSPENDED_BUT_MAY_NOT_BE = "suspended-but-may-not-be"
    CONVERTED_BUT_NO_GUEST = "converted-but-no-guest"
    CONVERTED_BEYOND_LANE = "converted-beyond-lane"
    GUEST_INSIDE_ITS_LANE = "guest-inside-its-lane"
    LENT_WHILE_DUE_JOB_WAITS = "lent-while-due-job-waits"
    PASSED_OVER_BUT_NOT_LATE = "passed-over-but-not-late"
    PASSED_OVER_BUT_WOULD_FIT = "passed-over-but-would-fit"

    HOLD_FOR_UNKNOWN_POOL = "hold-for-unknown-pool"
    HOLD_BEYOND_QUOTA = "hold-beyond-quota"
    HOLD_OF_GPUS_IN_USE = "hold-of-gpus-in-use"
    HOLD_IS_OVER = "hold-is-over"

    PLACED_BUT_NOT_STARTED = "placed-but-not-started"
    STARTED_BUT_NOT_PLACED = "started-but-not-placed"
    GANG_NOT_WHOLE = "gang-not-whole"
    UNKNOWN_GPU = "unknown-gpu"
    GPU_IN_USE = "gpu-in-use"
    GPU_OF_WRONG_TYPE = "gpu-of-wrong-type"
    MORE_NODES_THAN_NEEDED = "more-nodes-than-needed"

    MORE_THAN_TWO_WORKERS = "more-than-two-workers"
    STAR_RULE = "star-rule"
    PACKED_SET_TOO_LARGE = "packed-set-too-large"
    PAIR_DOES_NOT_FIT = "pair-does-not-fit"
    PROTECTED_JOB_SHARES = "protected-job-shares"
    SHARES_OF_WHAT_DOES_NOT_RUN = "shares-of-what-does-not-run"
    NOT_ONE_SHARE_PER_GPU = "not-one-share-per-gpu"


@dataclass(frozen=True, slots=True)
class PlanFault:
    """One broken rule.

    Attributes:
        rule: which one.
        job_id: the job by which it is broken; None where no single one does.
        pool: the pool it is about; None where it is about none in particular.
        message: what was found, for people.
    """

    rule: PlanRule
    job_id: str | None
    pool: str | None
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


class Standing(StrEnum):
    """What an unfinished job does at the instant of the plan."""

    WAITING = "waiting"
    OWN = "own"
    GUEST = "guest"


@dataclass(frozen=True, slots=True)
class Known:
    """An unfinished job at the instant of the plan.

    Attributes:
        job: the job.
        standing: whether it waits, runs as its pool's own, or runs as a guest.
        gpus: the GPUs it runs on, where they are known.
        may_share: it has consented to share its GPUs.
    """

    job: Job
    standing: Standing = Standing.WAITING
    gpus: tuple[Gpu, ...] = ()
    may_share: bool = False


class Places:
    """Who is on which GPU; kept as jobs come and go, O(their GPUs) each.

    Args:
        nodes: hosts that are there; empty where they are not known.

    Attributes:
        types: type of each GPU there is.
        free: GPUs of each node that nobody has.
        workers: ids of the jobs on each GPU that somebody has, in the order in which they came.
    """

    __slots__ = ("free", "types", "workers")

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.types: dict[GpuKey, str] = {}
        self.free: dict[str, int] = {}
        self.workers: dict[GpuKey, tuple[str, ...]] = {}
        for node in nodes:
            self.free[node.name] = node.num_gpus
            self.types.update(((node.name, index), node.gpu_type) for index in range(node.num_gpus))

    def enter(self, job_id: str, gpus: Iterable[Gpu]) -> None:
        """A job takes GPUs, alone or beside others."""
        for gpu in gpus:
            key = (gpu.node, gpu.index)
            here = self.workers.get(key, ())
            if not here and key in self.types:
                self.free[gpu.node] -= 1
            self.workers[key] = (*here, job_id)

    def leave(self, job_id: str, gpus: Iterable[Gpu]) -> None:
        """A job leaves the GPUs that it had."""
        for gpu in gpus:
            key = (gpu.node, gpu.index)
            here = tuple(one for one in self.workers.pop(key) if one != job_id)
            if here:
                self.workers[key] = here
            elif key in self.types:
                self.free[gpu.node] += 1


@dataclass(frozen=True, slots=True)
class PlanState:
    """The cluster at the instant before a plan leaves the planner.

    Attributes:
        now_s: the instant.
        idle_gpus: GPUs that nobody has.
        quotas: GPUs of each pool.
        known: the unfinished jobs by id.
        lines: of each pool, its jobs that wait or run as guests, by id, in the order of its line.
        own_gpus: of each pool, the GPUs of its own jobs that run.
        nodes: hosts that are there; empty where only counts are planned.
        places: who is on which of their GPUs.
        allowed_loss: share of its speed that a job may lose to others on its GPUs and still be in time, by
            id, in [0, 1): its own slack; none where it is not named.
    """

    now_s: float
    idle_gpus: int
    quotas: Mapping[str, int]
    known: Mapping[str, Known]
    lines: Mapping[str, Mapping[str, Known]]
    own_gpus: Mapping[str, int]
    nodes: tuple[Node, ...] = ()
    places: Places = field(default_factory=Places)
    allowed_loss: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


def state_of(
    now_s: float,
    idle_gpus: int,
    quotas: Mapping[str, int],
    line: Iterable[Known],
    nodes: tuple[Node, ...] = (),
) -> PlanState:
    """The state made of a list of unfinished jobs, those of one pool in the order of its line."""
    known: dict[str, Known] = {}
    lines: dict[str, dict[str, Known]] = {}
    own_gpus: Counter[str] = Counter()
    places = Places(nodes)
    for one in line:
        known[one.job.job_id] = one
        if one.standing is not Standing.WAITING:
            places.enter(one.job.job_id, one.gpus)
        if one.standing is Standing.OWN:
            own_gpus[one.job.pool] += one.job.num_gpus
        else:
            lines.setdefault(one.job.pool, {})[one.job.job_id] = one
    return PlanState(now_s, idle_gpus, quotas, known, lines, own_gpus, nodes, places)


class Hosts(StrEnum):
    """Who may be made to share GPUs by a policy that packs, host or rider."""

    EVERYONE = "everyone"
    CONSENTING = "consenting"
    """Guests on lent GPUs, jobs that have consented, and own jobs that lose no more than they may."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the rule behind the plan owes.

    Attributes:
        requeueable_share: share of jobs that may be sent back (`Job.is_requeueable`).
        may_send_back: whether the policy stops guests at all.
        has_own_lanes: whether it tells own jobs from guests; else only what no policy may do is judged.
        converts: whether a guest that its lane reaches becomes own and counts for the lane; where not,
            the lane is made of jobs that wait, and guests stay guests (SIA).
        serves_by_reference: whether, where GPUs are too few for all who are due, jobs beyond the lanes that
            the reference starts now take their turn among them.
        frees_at_once: whether who starts by a plan may have the GPUs of jobs that it stops.
        packs: whether the policy decides who shares GPUs. Where not, only jobs share that have all
            consented (`Known.may_share`).
        hosts: whom it may make share.
        rates: rate of a model beside another, None where they do not fit onto one GPU; to judge whether pairs
            fit and what own jobs lose. Where it is not given, neither is judged, and own jobs may lose
            nothing.
        redistributes: whether samples move between the workers of a job, so that its rate is their mean and
            not that of the slowest.
        may_suspend: whether the policy stops jobs whose work is all kept; never own jobs in a lane.
    """

    requeueable_share: float = 0.0
    may_send_back: bool = True
    has_own_lanes: bool = True
    converts: bool = True
    serves_by_reference: bool = False
    frees_at_once: bool = True
    packs: bool = False
    hosts: Hosts = Hosts.CONSENTING
    rates: PairRates | None = None
    redistributes: bool = False
    may_suspend: bool = False


STRICT: Final = PlanOptions()
"""Own lanes with conversion, and nobody may be sent back."""
