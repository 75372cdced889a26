"""The independent judge of packed schedules: it shares no code with what builds them.

It looks at the stretches that carry GPUs, sweeps through time and keeps who is on which GPU. Beside
`solver.check`, which adds up a job's work and counts GPUs, it asks of each gang that it is whole, on GPUs
there are and on the fewest nodes; of each GPU that at most two jobs have it, that they fit and that neither
is faster than was measured; and of each packed set that it is a small star.

A job's speed. Each of its workers runs at the rate of its model beside the other model there, or at 1 alone;
the job at that of its slowest worker, or at their mean where samples move between workers (Gimbal, LISS).
Rates under MPS shares were not measured: there only the sum of two jobs on a GPU is capped.

Tolerances. Stretches of which one ends within 1e-6 s of the start of the other do not overlap. One of no
length shares the GPUs of one that it lies inside of, but that one need not end for it. A rate may be 1e-6 too
high.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from domain.cluster import ANY_TYPE, Node
from domain.interference import PairRates
from domain.jobs import Job
from domain.packing import MAX_SET_JOBS, MAX_WORKERS
from domain.schedules import Stretch
from solver.check_work import too_little_work, too_much_work
from solver.packed_sets import (
    GpuKey,
    fewest_nodes,
    is_star,
    packed_set,
)
from solver.packing.consenting import CONTEXT_MIB
from solver.schedule_rules import TIME_S, PackedRule, Rule, ScheduleFault, is_span

MOST_MEMORY_SHARE: Final = 0.9
"""Share of a GPU's memory that two jobs on it may use together."""

_RATE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class PackedOptions:
    """What a packed schedule is allowed to do, and what is known beside the rates.

    Attributes:
        redistributes: whether samples move between the workers of a job: its rate is then capped by their
            mean and not by the slowest.
        share_gain: where rates are those under MPS shares, what shares may gain: two jobs on a GPU then do
            together no more than 1 + `share_gain` times what they do in free competition, or alone if that
            is more. None: rates are those of free competition.
        is_preemption_allowed: whether a job may move to other GPUs.
        memory_mib: most memory that a job uses on each of its GPUs, MiB, by id; who is not named is not
            asked about.
        gpu_memory_mib: memory of a GPU, MiB, by its type; types that are not named are not asked about.

    Raises:
        ValueError: if `share_gain` is negative or not finite.
    """

    redistributes: bool = False
    share_gain: float | None = None
    is_preemption_allowed: bool = False
    memory_mib: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    gpu_memory_mib: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if self.share_gain is not None and not 0.0 <= self.share_gain < math.inf:
            raise ValueError(f"share_gain is {self.share_gain}, must be >= 0 and finite")


MEASURED_ONLY: Final = PackedOptions()
"""Free competition, the slowest worker decides, nobody moves, memory is not asked about."""


def check_packed(
    jobs: Iterable[Job],
    stretches: Iterable[Stretch],
    nodes: Sequence[Node],
    rates: PairRates,
    options: PackedOptions = MEASURED_ONLY,
    *,
    durations: Mapping[str, float] | None = None,
) -> tuple[ScheduleFault, ...]:
    """Judge how jobs share GPUs, O(n log n) in the stretches and their GPUs.

    Args:
        jobs: those that ran; stretches of others are `solver.check`'s to name.
        stretches: the schedule, in any order; those without GPUs, and those that are no time, are not looked
            at.
        nodes: hosts that are there; where there are none, neither their GPUs nor their number are judged.
        rates: measured rates of pairs of models.
        options: what the schedule is allowed to do.
        durations: length of each job alone, seconds; where given, the work of each job in it is added up.

    Returns:
        Broken rules by instant, at most one per job and rule; empty if the schedule may be.

    Raises:
        ValueError: if a job is listed twice.
    """
    by_job: dict[str, list[Stretch]] = {}
    by_id: dict[str, Job] = {}
    for job in jobs:
        if job.job_id in by_id:
            raise ValueError(f"job {job.job_id} is listed twice")
        by_id[job.job_id] = job
    for stretch in stretches:
        if stretch.job_id in by_id and stretch.gpus and is_span(stretch):
            by_job.setdefault(stretch.job_id, []).append(stretch)
    judge = _Judge(nodes, rates, options)
    for job_id, life in by_job.items():
        life.sort(key=lambda one: (one.start_s, one.end_s))
        judge.look_at_life(by_id[job_id], life, durations)
    parts = [_Part(by_id[job_id], one) for job_id, life in by_job.items() for one in life]
    judge.sweep(parts)
    for part in parts:
        judge.look_at_part(part)
    return judge.faults()


@dataclass(slots=True, eq=False)
class _Part:
    """A stretch, and what became of its workers.

    Attributes:
        job: whose.
        stretch: it.
        caps: of each GPU that it shares, the least rate of the job's model beside those that were there.
        beside_s: of each GPU that it shares and each other job there, the seconds of each time together.
    """

    job: Job
    stretch: Stretch
    caps: dict[GpuKey, float] = field(default_factory=dict)
    beside_s: dict[tuple[GpuKey, str], list[float]] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[GpuKey, ...]:
        """Its GPUs, each once."""
        return tuple(dict.fromkeys((gpu.node, gpu.index) for gpu in self.stretch.gpus))


class _Judge:
    """Collects what is found; each method looks at one kind of thing."""

    def __init__(self, nodes: Sequence[Node], rates: PairRates, options: PackedOptions) -> None:
        self._nodes = nodes
        self._types = {(node.name, k): node.gpu_type for node in nodes for k in range(node.num_gpus)}
        self._rates = rates
        self._options = options
        self._found: dict[tuple[Rule | PackedRule, str], ScheduleFault] = {}

    def faults(self) -> tuple[ScheduleFault, ...]:
        """By instant, then by job and rule."""
        return tuple(sorted(self._found.values(), key=lambda one: (one.at_s, one.job_id or "", one.rule)))

    def _fault(self, rule: Rule | PackedRule, job: Job, at_s: float, found: str) -> None:
        known = self._found.get((rule, job.job_id))
        if known is None or at_s < known.at_s:
            message = f"job {job.job_id} {found}"
            self._found[rule, job.job_id] = ScheduleFault(rule, job.job_id, at_s, message)

    def look_at_life(self, job: Job, life: Sequence[Stretch], durations: Mapping[str, float] | None) -> None:
        """The stretches of one job: its work adds up, it stays where it is, each gang is whole."""
        kept = [one for one in life if not one.is_lost]
        if durations is not None and job.job_id in durations:
            for rule, finding in (
                (Rule.ENDS_BEFORE_WORK_IS_DONE, too_little_work(kept, durations[job.job_id])),
                (Rule.RUNS_ON_AFTER_WORK_IS_DONE, too_much_work(kept, durations[job.job_id])),
            ):
                if finding is not None:
                    self._fault(rule, job, *finding)
        for before, after in pairwise(kept):
            if after.gpus != before.gpus and not (before.is_stopped or self._options.is_preemption_allowed):
                at_s = after.start_s
                self._fault(PackedRule.MOVED, job, at_s, f"goes on at {at_s} s on other GPUs than before")
        for stretch in life:
            self._look_at_gang(job, stretch)

    def _look_at_gang(self, job: Job, stretch: Stretch) -> None:
        keys, at_s = {(gpu.node, gpu.index) for gpu in stretch.gpus}, stretch.start_s
        if len(keys) != job.num_gpus or len(stretch.gpus) != job.num_gpus:
            found = f"is on {len(keys)} GPUs from {at_s} s on, its gang is {job.num_gpus}"
            self._fault(PackedRule.GANG_NOT_WHOLE, job, at_s, found)
        if not self._nodes:
            return
        unknown = sorted(keys - self._types.keys())
        if unknown:
            found = f"is on {_name(unknown[0])} from {at_s} s on, which there is not"
            self._fault(PackedRule.UNKNOWN_GPU, job, at_s, found)
        spread, fewest = len({node for node, _ in keys}), fewest_nodes(job, self._nodes)
        if 0 < fewest < spread:
            found = f"is on {spread} nodes from {at_s} s on, {fewest} would do"
            self._fault(PackedRule.MORE_NODES_THAN_NEEDED, job, at_s, found)

    def sweep(self, parts: Iterable[_Part]) -> None:
        """Go through time, start by start, and look at who is beside whom then."""
        on: dict[GpuKey, list[_Part]] = defaultdict(list)
        runs: dict[str, _Part] = {}
        ends: list[tuple[float, int, _Part]] = []
        in_order = sorted(parts, key=lambda one: (one.stretch.start_s, one.stretch.end_s, one.job.job_id))
        for serial, part in enumerate(in_order):
            while ends and ends[0][0] <= part.stretch.start_s + TIME_S:
                gone = heapq.heappop(ends)[2]
                for key in gone.keys:
                    on[key].remove(gone)
            heapq.heappush(ends, (part.stretch.end_s, serial, part))
            runs[part.job.job_id] = part
            for key in part.keys:
                self._join(key, part, on[key])
            if part.caps:
                self._look_at_set(part, runs, on)

    def _join(self, key: GpuKey, part: _Part, here: list[_Part]) -> None:
        """A stretch begins on a GPU that others may have."""
        for other in here:
            if other.job.job_id != part.job.job_id:
                self._meet(key, part, other)
        here.append(part)
        if len(here) > MAX_WORKERS:
            at_s = part.stretch.start_s
            found = f"is worker {len(here)} on {_name(key)} at {at_s} s, two may share one"
            self._fault(PackedRule.MORE_THAN_TWO_WORKERS, part.job, at_s, found)

    def _meet(self, key: GpuKey, part: _Part, other: _Part) -> None:
        at_s = part.stretch.start_s
        together_s = min(part.stretch.end_s, other.stretch.end_s) - at_s
        where = f"{_name(key)} with job {other.job.job_id} from {at_s} s on"
        sum_free = 0.0
        for one, mate in ((part, other), (other, part)):
            rate = self._rate(one.job, mate.job)
            sum_free += rate or 0.0
            one.caps[key] = min(one.caps.get(key, 1.0), rate or 0.0)
            one.beside_s.setdefault((key, mate.job.job_id), []).append(together_s)
            if not rate:
                self._fault(PackedRule.PAIR_DOES_NOT_FIT, part.job, at_s, f"shares {where}, they do not fit")
        gain, done = self._options.share_gain, part.stretch.rate + other.stretch.rate
        if gain is not None and done > (1.0 + gain) * max(1.0, sum_free) + _RATE:
            found = (
                f"shares {where}, together they run at {done}, {(1.0 + gain) * max(1.0, sum_free)} is most"
            )
            self._fault(PackedRule.RATE_ABOVE_MEASURED, part.job, at_s, found)
        self._look_at_memory(key, part, other, where)

    def _rate(self, job: Job, beside: Job) -> float | None:
        if job.model is None or beside.model is None:
            return None
        return self._rates(job.model, beside.model)

    def _look_at_memory(self, key: GpuKey, part: _Part, other: _Part, where: str) -> None:
        needs = [self._options.memory_mib.get(one.job.job_id) for one in (part, other)]
        there = self._options.gpu_memory_mib.get(self._types.get(key, ANY_TYPE))
        if there is None or needs[0] is None or needs[1] is None:
            return
        used = needs[0] + needs[1] + CONTEXT_MIB
        if used > MOST_MEMORY_SHARE * there:
            found = f"shares {where}, together they use {used} of {there} MiB"
            self._fault(PackedRule.MORE_MEMORY_THAN_GPU, part.job, part.stretch.start_s, found)

    def _look_at_set(
        self, part: _Part, runs: Mapping[str, _Part], on: Mapping[GpuKey, Sequence[_Part]]
    ) -> None:
        """The packed set that a stretch joins is a small star around its widest job."""
        workers = _Workers(on)
        partners = packed_set(part.job.job_id, lambda one: runs[one].keys, workers)
        at_s, others = part.stretch.start_s, " and ".join(sorted(partners.keys() - {part.job.job_id}))
        if len(partners) > MAX_SET_JOBS:
            found = f"is in a packed set of {len(partners)} jobs at {at_s} s, {MAX_SET_JOBS} is the most"
            self._fault(PackedRule.PACKED_SET_TOO_LARGE, part.job, at_s, found)
        widths = {one: runs[one].job.num_gpus for one in partners}
        if not is_star(partners, widths, lambda one: runs[one].keys, workers):
            found = f"is packed with {others} at {at_s} s: no star around the widest of the set"
            self._fault(PackedRule.STAR_RULE, part.job, at_s, found)

    def look_at_part(self, part: _Part) -> None:
        """One stretch: beside the same jobs all the time, and no faster than was measured."""
        stretch, at_s = part.stretch, part.stretch.start_s
        length_s = stretch.end_s - at_s
        for (key, mate), times_s in part.beside_s.items():
            together_s, forgiven_s = math.fsum(times_s), TIME_S * (1 + len(times_s))
            if together_s > TIME_S and together_s < length_s - forgiven_s:
                found = f"runs from {at_s} s on in one stretch of {length_s} s"
                found += f", but shares {_name(key)} with job {mate} for {together_s} s of it"
                self._fault(PackedRule.SPANS_A_CHANGE, part.job, at_s, found)
        workers = [*part.caps.values(), *([1.0] * (part.job.num_gpus - len(part.caps)))]
        if self._options.share_gain is not None or min(workers) <= 0.0:
            return  # sums are capped, or the pair does not fit
        cap = math.fsum(workers) / len(workers) if self._options.redistributes else min(workers)
        if stretch.rate > cap + _RATE:
            found = f"runs at rate {stretch.rate} from {at_s} s on, {cap} is what was measured"
            self._fault(PackedRule.RATE_ABOVE_MEASURED, part.job, at_s, found)


class _Workers(Mapping[GpuKey, Sequence[str]]):
    """Ids of the jobs on each GPU, looked up where they are asked for."""

    def __init__(self, on: Mapping[GpuKey, Sequence[_Part]]) -> None:
        self._on = on

    def __getitem__(self, key: GpuKey) -> Sequence[str]:
        return [one.job.job_id for one in self._on[key]]

    def __iter__(self) -> Iterator[GpuKey]:
        return iter(self._on)

    def __len__(self) -> int:
        return len(self._on)


def _name(key: GpuKey) -> str:
    return f"GPU {key[1]} of node {key[0]}"
