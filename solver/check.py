"""The independent judge of schedules: it shares no code with what builds them.

Tolerances. Instants that are equal are equal as floats, so GPUs given back at an instant are free for
who starts then, exactly. Where two different sums of floats meet (a stretch that goes on where the one
before it ended, a start at a submit) 1e-6 s is forgiven, and of the work done 1e-3 s + 1e-6 of the
duration. A stretch of no length takes no GPUs.

Checkpoints. An attempt that was sent back and is not lost is a stretch that is stopped (`domain.schedules`):
what it kept, rate times length, has to be what its job saves in such a time less what it takes to load that,
and only after such a stretch may there be a pause.

Packing. A job that shares GPUs has several stretches, each at one rate beside the same jobs; here their work
is added up, and `solver.check_packed` looks at the sharing itself. Late is who really ends late, whatever the
rates were: the reference counts work as done alone.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby
from operator import itemgetter
from types import MappingProxyType

from domain.jobs import Job, submit_order
from domain.measures import is_slowed, lateness_s
from domain.schedules import Stretch
from solver.check_capacity import gpu_faults
from solver.check_work import kept_beyond_saved, kept_unsaved, too_little_work, too_much_work
from solver.schedule_rules import (
    RATE,
    STRICT,
    TIME_S,
    CheckOptions,
    Finding,
    Rule,
    ScheduleFault,
    is_span,
    own_from_s,
)

__all__ = ["STRICT", "CheckOptions", "CheckReport", "Rule", "ScheduleFault", "check", "fcfs_starts"]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Verdict on a schedule.

    Attributes:
        faults: every broken rule; at most one per job and rule, one per episode for GPUs.
        slowed_job_ids: jobs that end more than 60 s after their reference end, in submit order.
        worst_lateness_s: of the latest job, never below 0.
        reference_starts: start of each job in the reference, seconds; jobs wider than their pool's
            quota have none, and no promise.
    """

    faults: tuple[ScheduleFault, ...]
    slowed_job_ids: tuple[str, ...]
    worst_lateness_s: float
    reference_starts: Mapping[str, float]

    @property
    def is_valid(self) -> bool:
        """Whether no rule is broken."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class _Record:
    """A job, what it needs and may use, and its stretches by (start, end)."""

    job: Job
    duration_s: float
    quota_gpus: int
    stretches: tuple[Stretch, ...]
    kept: tuple[Stretch, ...]
    lost: tuple[Stretch, ...]
    sent_back: tuple[Stretch, ...]


def check(
    jobs: Iterable[Job],
    durations: Mapping[str, float],
    quotas: Mapping[str, int],
    stretches: Iterable[Stretch],
    *,
    options: CheckOptions = STRICT,
) -> CheckReport:
    """Judge a schedule against every rule and against the reference.

    Args:
        jobs: exactly the jobs that should have run.
        durations: length of each job alone on its own GPUs, seconds.
        quotas: GPUs of each pool; a pool that is not named has none.
        stretches: the schedule, in any order.
        options: what it is allowed to do.

    Raises:
        ValueError: if a job is listed twice or has no duration.
    """
    by_id = _by_id(jobs, durations)
    known, unknown = _by_job(by_id, stretches)
    faults = [_never_submitted(stretch) for stretch in unknown]
    records = [_record(job, durations, quotas, known[job_id]) for job_id, job in by_id.items()]
    rules = _job_rules(options)
    for record in records:
        faults.extend(_job_faults(record, rules))
    faults.extend(gpu_faults(((one.job, one.stretches) for one in records), quotas, options))
    reference_starts = fcfs_starts(by_id.values(), durations, quotas)
    late = _latenesses(records, reference_starts)
    slowed = tuple(job_id for job_id, (lateness, _) in late.items() if is_slowed(lateness))
    if options.must_keep_promise:
        faults.extend(_broken_promise(job_id, *late[job_id]) for job_id in slowed)
    worst_s = max((lateness for lateness, _ in late.values()), default=0.0)
    return CheckReport(tuple(faults), slowed, max(0.0, worst_s), MappingProxyType(reference_starts))


def fcfs_starts(
    jobs: Iterable[Job], durations: Mapping[str, float], quotas: Mapping[str, int]
) -> dict[str, float]:
    """Start of each job when pools neither share nor backfill: the reference, O(n log n).

    The jobs of a pool start in the order of (submit, id), each as soon as the one before it has started
    and the pool's own quota has room for it. Jobs wider than that quota are left out and block nobody.

    Raises:
        KeyError: if a job has no duration.
    """
    starts: dict[str, float] = {}
    in_line = sorted(jobs, key=lambda job: (job.pool, *submit_order(job)))
    for pool, line in groupby(in_line, key=lambda job: job.pool):
        quota = free = quotas.get(pool, 0)
        running: list[tuple[float, int]] = []
        now_s = -math.inf
        for job in line:
            if job.num_gpus > quota:
                continue
            now_s = max(now_s, job.submit_s)
            while running and (running[0][0] <= now_s or free < job.num_gpus):
                end_s, width = heapq.heappop(running)
                now_s = max(now_s, end_s)
                free += width
            starts[job.job_id] = now_s
            free -= job.num_gpus
            heapq.heappush(running, (now_s + durations[job.job_id], job.num_gpus))
    return starts


def _by_id(jobs: Iterable[Job], durations: Mapping[str, float]) -> dict[str, Job]:
    by_id: dict[str, Job] = {}
    for job in sorted(jobs, key=submit_order):
        if job.job_id in by_id:
            raise ValueError(f"job {job.job_id} is listed twice")
        if job.job_id not in durations:
            raise ValueError(f"job {job.job_id} has no duration")
        by_id[job.job_id] = job
    return by_id


def _by_job(
    by_id: Mapping[str, Job], stretches: Iterable[Stretch]
) -> tuple[dict[str, list[Stretch]], list[Stretch]]:
    known: dict[str, list[Stretch]] = {job_id: [] for job_id in by_id}
    unknown: list[Stretch] = []
    for stretch in stretches:
        known.get(stretch.job_id, unknown).append(stretch)
    return known, unknown


def _record(
    job: Job, durations: Mapping[str, float], quotas: Mapping[str, int], stretches: list[Stretch]
) -> _Record:
    ordered = tuple(sorted(stretches, key=itemgetter(1, 2)))
    kept = tuple(s for s in ordered if not s.is_lost)
    lost = tuple(s for s in ordered if s.is_lost)
    back = tuple(s for s in ordered if s.is_lost or s.is_stopped)
    return _Record(job, durations[job.job_id], quotas.get(job.pool, 0), ordered, kept, lost, back)


def _latenesses(
    records: Iterable[_Record], reference_starts: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """Lateness and end of each job that ran and has a reference."""
    late: dict[str, tuple[float, float]] = {}
    for record in records:
        start_s = reference_starts.get(record.job.job_id)
        if record.kept and start_s is not None and _malformed(record) is None:
            end_s = max(stretch.end_s for stretch in record.kept)
            late[record.job.job_id] = (lateness_s(end_s, start_s + record.duration_s), end_s)
    return late


def _malformed(record: _Record) -> Finding:
    for stretch in record.stretches:
        start_s, end_s, rate = stretch.start_s, stretch.end_s, stretch.rate
        if not is_span(stretch):
            return start_s, f"runs from {start_s} s to {end_s} s, which is no stretch of time"
        if not 0.0 < rate <= 1.0 + RATE:
            return start_s, f"runs at rate {rate} from {start_s} s on, rates lie in (0, 1]"
        if stretch.is_lost and stretch.is_stopped:
            return start_s, f"both loses and keeps the work it does from {start_s} s on"
    return None


def _never_ran(record: _Record) -> Finding:
    if record.kept and not record.kept[-1].is_stopped:
        return None
    submit_s = record.job.submit_s
    return submit_s, f"was submitted at {submit_s} s and never ran to its end"


def _before_submit(record: _Record) -> Finding:
    submit_s = record.job.submit_s
    start_s = min((stretch.start_s for stretch in record.stretches), default=submit_s)
    if start_s >= submit_s - TIME_S:
        return None
    return start_s, f"starts at {start_s} s, before its submit at {submit_s} s"


def _later_starts(stretches: tuple[Stretch, ...]) -> Iterator[tuple[float, float]]:
    """Start of each stretch but the first, and the latest end of those before it."""
    busy_until_s = accumulate((stretch.end_s for stretch in stretches), max)
    return zip((stretch.start_s for stretch in stretches[1:]), busy_until_s, strict=False)


def _twice_at_once(record: _Record) -> Finding:
    for start_s, busy_until_s in _later_starts(record.stretches):
        if start_s < busy_until_s - TIME_S:
            return start_s, f"starts at {start_s} s and still runs until {busy_until_s} s"
    return None


def _interrupted(record: _Record) -> Finding:
    stopped_s = {stretch.end_s for stretch in record.kept if stretch.is_stopped}
    for start_s, busy_until_s in _later_starts(record.kept):
        if start_s > busy_until_s + TIME_S and busy_until_s not in stopped_s:
            return busy_until_s, f"is interrupted from {busy_until_s} s to {start_s} s"
    return None


def _lost_without_leave(record: _Record, share: float) -> Finding:
    if not record.sent_back or record.job.is_requeueable(share):
        return None
    end_s = record.sent_back[0].end_s
    return end_s, f"loses its work at {end_s} s and may not be requeued"


def _lost_after_final_start(record: _Record) -> Finding:
    if not record.kept or not record.lost or record.lost[-1].start_s <= record.kept[0].start_s:
        return None
    lost_s, kept_s = record.lost[-1].start_s, record.kept[0].start_s
    return lost_s, f"starts at {lost_s} s what is lost, its attempt that counted began at {kept_s} s"


def _own_lost(record: _Record) -> Finding:
    for stretch in record.sent_back:
        if own_from_s(stretch) < stretch.end_s:
            return stretch.end_s, f"is sent back at {stretch.end_s} s, its pool's own by then"
    return None


def _kept_unsaved(record: _Record, *, is_packed: bool) -> Finding:
    if is_packed:
        return kept_beyond_saved(record.job, record.stretches)
    return kept_unsaved(record.job, record.sent_back)


def _too_wide(record: _Record) -> Finding:
    width, quota = record.job.num_gpus, record.quota_gpus
    if width <= quota:
        return None
    submit_s = record.job.submit_s
    return submit_s, f"asks for {width} GPUs at {submit_s} s, its pool {record.job.pool} has {quota}"


def _job_rules(options: CheckOptions) -> dict[Rule, Callable[[_Record], Finding]]:
    """The rules each job has to keep on its own."""
    rules: dict[Rule, Callable[[_Record], Finding]] = {
        Rule.NEVER_RAN: _never_ran,
        Rule.STARTS_BEFORE_SUBMIT: _before_submit,
        Rule.RUNS_TWICE_AT_ONCE: _twice_at_once,
        Rule.ENDS_BEFORE_WORK_IS_DONE: lambda one: too_little_work(one.kept, one.duration_s),
        Rule.RUNS_ON_AFTER_WORK_IS_DONE: lambda one: too_much_work(one.kept, one.duration_s),
        Rule.LOST_BUT_NOT_REQUEUEABLE: partial(_lost_without_leave, share=options.requeueable_share),
        Rule.LOST_AFTER_FINAL_START: _lost_after_final_start,
        Rule.KEPT_WHAT_WAS_NOT_SAVED: partial(_kept_unsaved, is_packed=options.is_packed),
        Rule.WIDER_THAN_QUOTA: _too_wide,
    }
    if not options.is_preemption_allowed:
        rules[Rule.INTERRUPTED] = _interrupted
    if options.has_own_lanes:
        rules[Rule.OWN_ATTEMPT_LOST] = _own_lost
    return rules


def _job_faults(
    record: _Record, rules: Mapping[Rule, Callable[[_Record], Finding]]
) -> Iterator[ScheduleFault]:
    malformed = _malformed(record)
    # Sums and gaps of what is no time or no rate mean nothing: such a job is named once.
    findings = {Rule.MALFORMED_STRETCH: malformed} if malformed else {r: f(record) for r, f in rules.items()}
    for rule, finding in findings.items():
        if finding is not None:
            at_s, found = finding
            yield ScheduleFault(rule, record.job.job_id, at_s, f"job {record.job.job_id} {found}")


def _never_submitted(stretch: Stretch) -> ScheduleFault:
    message = f"job {stretch.job_id}, which runs from {stretch.start_s} s on, was never submitted"
    return ScheduleFault(Rule.UNKNOWN_JOB, stretch.job_id, stretch.start_s, message)


def _broken_promise(job_id: str, lateness: float, end_s: float) -> ScheduleFault:
    message = f"job {job_id} ends at {end_s} s, {lateness} s later than without sharing"
    return ScheduleFault(Rule.PROMISE_BROKEN, job_id, end_s, message)
