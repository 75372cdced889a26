"""The independent judge of schedules: it shares no code with what builds them.

Tolerances. Instants that are equal are equal as floats, so GPUs given back at an instant are free for
who starts then, exactly. Where two different sums of floats meet (a stretch that goes on where the one
before it ended, a start at a submit) 1e-6 s is forgiven, and of the work done 1e-3 s + 1e-6 of the
duration. A stretch of no length takes no GPUs.

Checkpoints. An attempt that was sent back and is not lost is a stretch that is stopped (`domain.schedules`):
what it kept, rate times length, has to be what its job saves in such a time less what it takes to load that,
and only after such a stretch may there be a pause.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import accumulate, groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from domain.jobs import Job, submit_order
from domain.measures import is_slowed, lateness_s
from domain.schedules import Stretch

_TIME_S: Final = 1e-6
_WORK_S: Final = 1e-3
_WORK_SHARE: Final = 1e-6
_RATE: Final = 1e-9


class Rule(StrEnum):
    """What a schedule must keep to."""

    UNKNOWN_JOB = "unknown-job"
    MALFORMED_STRETCH = "malformed-stretch"
    NEVER_RAN = "never-ran"
    STARTS_BEFORE_SUBMIT = "starts-before-submit"
    RUNS_TWICE_AT_ONCE = "runs-twice-at-once"
    ENDS_BEFORE_WORK_IS_DONE = "ends-before-work-is-done"
    RUNS_ON_AFTER_WORK_IS_DONE = "runs-on-after-work-is-done"
    INTERRUPTED = "interrupted"
    LOST_BUT_NOT_REQUEUEABLE = "lost-but-not-requeueable"
    LOST_AFTER_FINAL_START = "lost-after-final-start"
    OWN_ATTEMPT_LOST = "own-attempt-lost"
    KEPT_WHAT_WAS_NOT_SAVED = "kept-what-was-not-saved"
    MORE_GPUS_THAN_CLUSTER = "more-gpus-than-cluster"
    OWN_GPUS_BEYOND_QUOTA = "own-gpus-beyond-quota"
    WIDER_THAN_QUOTA = "wider-than-quota"
    PROMISE_BROKEN = "promise-broken"


@dataclass(frozen=True, slots=True)
class ScheduleFault:
    """One broken rule.

    Attributes:
        rule: which one.
        job_id: the job that broke it; None where no single one did.
        at_s: the instant at which it was broken, seconds.
        message: job, instant and what was found, for people.
    """

    rule: Rule
    job_id: str | None
    at_s: float
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What a schedule is allowed to do.

    Attributes:
        is_preemption_allowed: whether a job may pause and go on without losing work.
        requeueable_share: share of jobs that may be sent back (`Job.is_requeueable`).
        has_own_lanes: whether `is_guest` and `own_from_s` mean something: then own widths fit their
            quota and no attempt that had become own is sent back. False for policies without own lanes.
        must_keep_promise: whether a slowed job is a fault.
        capacity_steps: (instant, GPUs of the cluster from then on), where it changes; up to the first
            one it is the sum of the quotas.
        reclaim_s: for how long nobody may have the GPUs of a guest that was sent back, seconds.
    """

    is_preemption_allowed: bool = False
    requeueable_share: float = 0.0
    has_own_lanes: bool = True
    must_keep_promise: bool = False
    capacity_steps: tuple[tuple[float, int], ...] = ()
    reclaim_s: float = 0.0


STRICT: Final = CheckOptions()
"""Nothing is preempted, nothing is requeued, lanes mean something, slowed jobs are only counted."""


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
    faults.extend(_gpu_faults(records, quotas, options))
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


_Finding = tuple[float, str] | None
"""The instant of a fault and what was found there, put after the name of the job."""


def _is_span(stretch: Stretch) -> bool:
    return math.isfinite(stretch.start_s) and stretch.start_s <= stretch.end_s < math.inf


def _malformed(record: _Record) -> _Finding:
    for stretch in record.stretches:
        start_s, end_s, rate = stretch.start_s, stretch.end_s, stretch.rate
        if not _is_span(stretch):
            return start_s, f"runs from {start_s} s to {end_s} s, which is no stretch of time"
        if not 0.0 < rate <= 1.0 + _RATE:
            return start_s, f"runs at rate {rate} from {start_s} s on, rates lie in (0, 1]"
        if stretch.is_lost and stretch.is_stopped:
            return start_s, f"both loses and keeps the work it does from {start_s} s on"
    return None


def _never_ran(record: _Record) -> _Finding:
    if record.kept and not record.kept[-1].is_stopped:
        return None
    submit_s = record.job.submit_s
    return submit_s, f"was submitted at {submit_s} s and never ran to its end"


def _before_submit(record: _Record) -> _Finding:
    submit_s = record.job.submit_s
    start_s = min((stretch.start_s for stretch in record.stretches), default=submit_s)
    if start_s >= submit_s - _TIME_S:
        return None
    return start_s, f"starts at {start_s} s, before its submit at {submit_s} s"


def _later_starts(stretches: tuple[Stretch, ...]) -> Iterator[tuple[float, float]]:
    """Start of each stretch but the first, and the latest end of those before it."""
    busy_until_s = accumulate((stretch.end_s for stretch in stretches), max)
    return zip((stretch.start_s for stretch in stretches[1:]), busy_until_s, strict=False)


def _twice_at_once(record: _Record) -> _Finding:
    for start_s, busy_until_s in _later_starts(record.stretches):
        if start_s < busy_until_s - _TIME_S:
            return start_s, f"starts at {start_s} s and still runs until {busy_until_s} s"
    return None


def _work_s(record: _Record) -> float:
    return math.fsum(stretch.rate * (stretch.end_s - stretch.start_s) for stretch in record.kept)


def _too_little_work(record: _Record) -> _Finding:
    done_s, duration_s = _work_s(record), record.duration_s
    if not record.kept or done_s >= duration_s - (duration_s * _WORK_SHARE + _WORK_S):
        return None
    end_s = record.kept[-1].end_s
    return end_s, f"ends at {end_s} s with {done_s} s of its {duration_s} s of work done"


def _too_much_work(record: _Record) -> _Finding:
    done_s, duration_s = _work_s(record), record.duration_s
    if done_s <= duration_s + (duration_s * _WORK_SHARE + _WORK_S):
        return None
    end_s = record.kept[-1].end_s
    return end_s, f"runs on until {end_s} s, {done_s - duration_s} s of work beyond its {duration_s} s"


def _interrupted(record: _Record) -> _Finding:
    stopped_s = {stretch.end_s for stretch in record.kept if stretch.is_stopped}
    for start_s, busy_until_s in _later_starts(record.kept):
        if start_s > busy_until_s + _TIME_S and busy_until_s not in stopped_s:
            return busy_until_s, f"is interrupted from {busy_until_s} s to {start_s} s"
    return None


def _lost_without_leave(record: _Record, share: float) -> _Finding:
    if not record.sent_back or record.job.is_requeueable(share):
        return None
    end_s = record.sent_back[0].end_s
    return end_s, f"loses its work at {end_s} s and may not be requeued"


def _lost_after_final_start(record: _Record) -> _Finding:
    if not record.kept or not record.lost or record.lost[-1].start_s <= record.kept[0].start_s:
        return None
    lost_s, kept_s = record.lost[-1].start_s, record.kept[0].start_s
    return lost_s, f"starts at {lost_s} s what is lost, its attempt that counted began at {kept_s} s"


def _own_from_s(stretch: Stretch) -> float:
    """Instant from which a stretch counts as its pool's own; infinite if never."""
    if not stretch.is_guest:
        return stretch.start_s
    return math.inf if stretch.own_from_s is None else max(stretch.start_s, stretch.own_from_s)


def _own_lost(record: _Record) -> _Finding:
    for stretch in record.sent_back:
        if _own_from_s(stretch) < stretch.end_s:
            return stretch.end_s, f"is sent back at {stretch.end_s} s, its pool's own by then"
    return None


def _kept_unsaved(record: _Record) -> _Finding:
    """Kept work is what was saved, whole intervals between checkpoints, less what it takes to load it.

    Loading is paid for once by the first attempt that keeps something. Each attempt after it begins by
    loading, so its intervals begin later. One that has saved no more than loading takes keeps nothing.
    """
    load_s, had_kept = record.job.restart_s or 0.0, False
    for stretch in record.sent_back:
        ran_s, end_s = stretch.end_s - stretch.start_s, stretch.end_s
        kept_s = 0.0 if stretch.is_lost else stretch.rate * ran_s
        if record.job.checkpoint_s is None and stretch.is_stopped:
            return end_s, f"is sent back at {end_s} s and goes on from there, but it saves nothing"
        slack_s = _TIME_S + _RATE * ran_s
        loading_s, paid_s = (load_s, 0.0) if had_kept else (0.0, load_s)
        saved_s = _saved_s(record.job, ran_s - loading_s, slack_s)
        if all(abs(kept_s - max(0.0, one_s - paid_s)) > slack_s for one_s in saved_s):
            found = f"keeps {kept_s} s of {ran_s} s when sent back at {end_s} s, it had saved {saved_s[1]} s"
            return end_s, f"{found}, and takes {load_s} s to load that" if load_s else found
        had_kept |= kept_s > slack_s
    return None


def _saved_s(job: Job, worked_s: float, slack_s: float) -> tuple[float, float]:
    """What an attempt may have saved: two numbers where it ends within rounding of a checkpoint."""
    if job.checkpoint_s is None:
        return 0.0, 0.0
    least = math.floor(max(0.0, worked_s - slack_s) / job.checkpoint_s)
    most = math.floor(max(0.0, worked_s + slack_s) / job.checkpoint_s)
    return least * job.checkpoint_s, most * job.checkpoint_s


def _too_wide(record: _Record) -> _Finding:
    width, quota = record.job.num_gpus, record.quota_gpus
    if width <= quota:
        return None
    submit_s = record.job.submit_s
    return submit_s, f"asks for {width} GPUs at {submit_s} s, its pool {record.job.pool} has {quota}"


def _job_rules(options: CheckOptions) -> dict[Rule, Callable[[_Record], _Finding]]:
    """The rules each job has to keep on its own."""
    rules: dict[Rule, Callable[[_Record], _Finding]] = {
        Rule.NEVER_RAN: _never_ran,
        Rule.STARTS_BEFORE_SUBMIT: _before_submit,
        Rule.RUNS_TWICE_AT_ONCE: _twice_at_once,
        Rule.ENDS_BEFORE_WORK_IS_DONE: _too_little_work,
        Rule.RUNS_ON_AFTER_WORK_IS_DONE: _too_much_work,
        Rule.LOST_BUT_NOT_REQUEUEABLE: partial(_lost_without_leave, share=options.requeueable_share),
        Rule.LOST_AFTER_FINAL_START: _lost_after_final_start,
        Rule.KEPT_WHAT_WAS_NOT_SAVED: _kept_unsaved,
        Rule.WIDER_THAN_QUOTA: _too_wide,
    }
    if not options.is_preemption_allowed:
        rules[Rule.INTERRUPTED] = _interrupted
    if options.has_own_lanes:
        rules[Rule.OWN_ATTEMPT_LOST] = _own_lost
    return rules


def _job_faults(
    record: _Record, rules: Mapping[Rule, Callable[[_Record], _Finding]]
) -> Iterator[ScheduleFault]:
    malformed = _malformed(record)
    # Sums and gaps of what is no time or no rate mean nothing: such a job is named once.
    findings = {Rule.MALFORMED_STRETCH: malformed} if malformed else {r: f(record) for r, f in rules.items()}
    for rule, finding in findings.items():
        if finding is not None:
            at_s, found = finding
            yield ScheduleFault(rule, record.job.job_id, at_s, f"job {record.job.job_id} {found}")


def _gpu_faults(
    records: Iterable[_Record], quotas: Mapping[str, int], options: CheckOptions
) -> Iterator[ScheduleFault]:
    """The rules jobs have to keep together: the cluster's GPUs, and each pool's quota for its own."""
    used: list[_Span] = []
    own: dict[str, list[_Span]] = {}
    for record in records:
        job = record.job
        for stretch in filter(_is_span, record.stretches):
            free_s = stretch.end_s + (options.reclaim_s if stretch.was_sent_back else 0.0)
            used.append(_Span(stretch.start_s, free_s, job.num_gpus, job.job_id))
            span = _Span(_own_from_s(stretch), stretch.end_s, job.num_gpus, job.job_id)
            own.setdefault(job.pool, []).append(span)
    for at_s, excess, job_id in _excesses(used, sum(quotas.values()), options.capacity_steps):
        found = f"more in use at {at_s} s than the cluster has"
        yield _gpu_fault(Rule.MORE_GPUS_THAN_CLUSTER, at_s, excess, job_id, found)
    for pool, spans in own.items() if options.has_own_lanes else ():
        for at_s, excess, job_id in _excesses(spans, quotas.get(pool, 0)):
            found = f"more in use at {at_s} s as pool {pool}'s own than its quota"
            yield _gpu_fault(Rule.OWN_GPUS_BEYOND_QUOTA, at_s, excess, job_id, found)


class _Span(NamedTuple):
    start_s: float
    end_s: float
    gpus: int
    job_id: str


def _excesses(
    spans: Iterable[_Span], limit: int, steps: Sequence[tuple[float, int]] = ()
) -> Iterator[tuple[float, int, str | None]]:
    """Where more is in use than the limit: instant, GPUs too many, a job that started then if one did."""
    changes: list[tuple[float, int, str | None]] = []
    for span in spans:
        if span.start_s < span.end_s:
            changes.append((span.start_s, -span.gpus, span.job_id))
            changes.append((span.end_s, span.gpus, None))
    ordered_steps = sorted(steps)
    levels = [limit, *(gpus for _, gpus in ordered_steps)]
    for (at_s, gpus), before in zip(ordered_steps, levels, strict=False):
        changes.append((at_s, gpus - before, None))
    room, is_over = limit, False
    for at_s, group in groupby(sorted(changes, key=itemgetter(0)), key=itemgetter(0)):
        starter = None
        # All changes of an instant count before it is judged: what ends then is free for what starts then.
        for _, gpus, job_id in group:
            room += gpus
            starter = job_id or starter
        if room < 0 and not is_over:
            yield at_s, -room, starter
        is_over = room < 0


def _gpu_fault(rule: Rule, at_s: float, excess: int, job_id: str | None, found: str) -> ScheduleFault:
    starter = "" if job_id is None else f"; job {job_id} started then"
    return ScheduleFault(rule, job_id, at_s, f"{excess} GPUs {found}{starter}")


def _never_submitted(stretch: Stretch) -> ScheduleFault:
    message = f"job {stretch.job_id}, which runs from {stretch.start_s} s on, was never submitted"
    return ScheduleFault(Rule.UNKNOWN_JOB, stretch.job_id, stretch.start_s, message)


def _broken_promise(job_id: str, lateness: float, end_s: float) -> ScheduleFault:
    message = f"job {job_id} ends at {end_s} s, {lateness} s later than without sharing"
    return ScheduleFault(Rule.PROMISE_BROKEN, job_id, end_s, message)
