"""The GPU half of the judge of schedules: the cluster's GPUs, and each pool's quota for its own.

Where jobs may share GPUs, those in use are counted one by one, from the names that the stretches carry; a
stretch that carries none takes as many as its job is wide. What is own counts by width all the same.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from domain.jobs import Job
from domain.schedules import Stretch
from solver.schedule_rules import CheckOptions, Rule, ScheduleFault, is_span, own_from_s


def gpu_faults(
    lives: Iterable[tuple[Job, Sequence[Stretch]]], quotas: Mapping[str, int], options: CheckOptions
) -> Iterator[ScheduleFault]:
    """The rules jobs have to keep together.

    Args:
        lives: each job and its stretches.
        quotas: GPUs of each pool.
        options: what the schedule is allowed to do.
    """
    used: list[_Span] = []
    own: dict[str, list[_Span]] = {}
    on_gpu: dict[tuple[str, int], list[_Span]] = defaultdict(list)
    for job, stretches in lives:
        for stretch in filter(is_span, stretches):
            free_s = stretch.end_s + (options.reclaim_s if stretch.was_sent_back else 0.0)
            if options.is_packed and stretch.gpus:
                for gpu in stretch.gpus:
                    on_gpu[gpu.node, gpu.index].append(_Span(stretch.start_s, free_s, 1, job.job_id))
            else:
                used.append(_Span(stretch.start_s, free_s, job.num_gpus, job.job_id))
            span = _Span(own_from_s(stretch), stretch.end_s, job.num_gpus, job.job_id)
            own.setdefault(job.pool, []).append(span)
    for spans in on_gpu.values():
        used += _in_use(spans)
    for at_s, excess, job_id in _excesses(used, sum(quotas.values()), options.capacity_steps):
        found = f"more in use at {at_s} s than the cluster has"
        yield _fault(Rule.MORE_GPUS_THAN_CLUSTER, at_s, excess, job_id, found)
    for pool, spans in own.items() if options.has_own_lanes else ():
        for at_s, excess, job_id in _excesses(spans, quotas.get(pool, 0)):
            found = f"more in use at {at_s} s as pool {pool}'s own than its quota"
            yield _fault(Rule.OWN_GPUS_BEYOND_QUOTA, at_s, excess, job_id, found)


class _Span(NamedTuple):
    start_s: float
    end_s: float
    gpus: int
    job_id: str


def _in_use(spans: Iterable[_Span]) -> Iterator[_Span]:
    """When one GPU is in use, whoever has it; named after the job that took it."""
    whole: _Span | None = None
    for span in sorted(one for one in spans if one.start_s < one.end_s):
        if whole is None or span.start_s >= whole.end_s:
            if whole is not None:
                yield whole
            whole = span
        elif span.end_s > whole.end_s:
            whole = whole._replace(end_s=span.end_s)
    if whole is not None:
        yield whole


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


def _fault(rule: Rule, at_s: float, excess: int, job_id: str | None, found: str) -> ScheduleFault:
    starter = "" if job_id is None else f"; job {job_id} started then"
    return ScheduleFault(rule, job_id, at_s, f"{excess} GPUs {found}{starter}")
