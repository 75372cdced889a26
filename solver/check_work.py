"""The work half of the judge of schedules: what is done adds up, and what is kept had been saved."""

import math
from collections.abc import Iterator, Sequence

from domain.jobs import Job
from domain.schedules import Stretch
from solver.schedule_rules import RATE, TIME_S, WORK_S, WORK_SHARE, Finding


def too_little_work(kept: Sequence[Stretch], duration_s: float) -> Finding:
    """A job that ends with less work done than its length; `kept` are its stretches that count, in order."""
    done_s = _work_s(kept)
    if not kept or done_s >= duration_s - (duration_s * WORK_SHARE + WORK_S):
        return None
    end_s = kept[-1].end_s
    return end_s, f"ends at {end_s} s with {done_s} s of its {duration_s} s of work done"


def too_much_work(kept: Sequence[Stretch], duration_s: float) -> Finding:
    """A job that runs on when its work is done."""
    done_s = _work_s(kept)
    if done_s <= duration_s + (duration_s * WORK_SHARE + WORK_S):
        return None
    end_s = kept[-1].end_s
    return end_s, f"runs on until {end_s} s, {done_s - duration_s} s of work beyond its {duration_s} s"


def kept_unsaved(job: Job, sent_back: Sequence[Stretch]) -> Finding:
    """Kept work is what was saved, whole intervals between checkpoints, less what it takes to load it.

    Loading is paid for once by the first attempt that keeps something. Each attempt after it begins by
    loading, so its intervals begin later. One that has saved no more than loading takes keeps nothing.
    """
    load_s, had_kept = job.restart_s or 0.0, False
    for stretch in sent_back:
        ran_s, end_s = stretch.end_s - stretch.start_s, stretch.end_s
        kept_s = 0.0 if stretch.is_lost else stretch.rate * ran_s
        if job.checkpoint_s is None and stretch.is_stopped:
            return end_s, f"is sent back at {end_s} s and goes on from there, but it saves nothing"
        slack_s = TIME_S + RATE * ran_s
        loading_s, paid_s = (load_s, 0.0) if had_kept else (0.0, load_s)
        saved_s = _saved_s(job, ran_s - loading_s, slack_s)
        if all(abs(kept_s - max(0.0, one_s - paid_s)) > slack_s for one_s in saved_s):
            found = f"keeps {kept_s} s of {ran_s} s when sent back at {end_s} s, it had saved {saved_s[1]} s"
            return end_s, f"{found}, and takes {load_s} s to load that" if load_s else found
        had_kept |= kept_s > slack_s
    return None


def kept_beyond_saved(job: Job, stretches: Sequence[Stretch]) -> Finding:
    """The same of attempts that may have shared GPUs: they keep no more than they would have saved alone.

    How much less it is depends on the rate before each checkpoint; a rate that is too high is found by
    itself.
    """
    load_s, had_kept = job.restart_s or 0.0, False
    for attempt in _sent_back(stretches):
        ran_s = math.fsum(one.end_s - one.start_s for one in attempt)
        end_s, kept_s = attempt[-1].end_s, _work_s([one for one in attempt if not one.is_lost])
        if job.checkpoint_s is None and any(one.is_stopped for one in attempt):
            return end_s, f"is sent back at {end_s} s and goes on from there, but it saves nothing"
        slack_s = TIME_S + RATE * ran_s
        loading_s, paid_s = (load_s, 0.0) if had_kept else (0.0, load_s)
        most_s = max(0.0, _saved_s(job, ran_s - loading_s, slack_s)[1] - paid_s)
        if kept_s > most_s + slack_s:
            found = f"keeps {kept_s} s of {ran_s} s when sent back at {end_s} s"
            return end_s, f"{found}, alone it would have kept {most_s} s"
        had_kept |= kept_s > slack_s
    return None


def _sent_back(stretches: Sequence[Stretch]) -> Iterator[list[Stretch]]:
    """The attempts that were sent back, each as the stretches that follow each other without a pause."""
    attempt: list[Stretch] = []
    for stretch in stretches:
        if attempt and stretch.start_s > attempt[-1].end_s + TIME_S:
            yield from _up_to_send_back(attempt)
            attempt = []
        attempt.append(stretch)
    yield from _up_to_send_back(attempt)


def _up_to_send_back(attempt: list[Stretch]) -> Iterator[list[Stretch]]:
    last = max((k for k, one in enumerate(attempt) if one.was_sent_back), default=None)
    if last is not None:
        yield attempt[: last + 1]


def _saved_s(job: Job, worked_s: float, slack_s: float) -> tuple[float, float]:
    """What an attempt may have saved: two numbers where it ends within rounding of a checkpoint."""
    if job.checkpoint_s is None:
        return 0.0, 0.0
    least = math.floor(max(0.0, worked_s - slack_s) / job.checkpoint_s)
    most = math.floor(max(0.0, worked_s + slack_s) / job.checkpoint_s)
    return least * job.checkpoint_s, most * job.checkpoint_s


def _work_s(kept: Sequence[Stretch]) -> float:
    return math.fsum(stretch.rate * (stretch.end_s - stretch.start_s) for stretch in kept)
