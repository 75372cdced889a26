"""Findings about when: what clocks, waits and gaps of a history can be trusted for."""

from typing import Final

import numpy as np
import numpy.typing as npt

from data.insight.evidence import DAY_S, Evidence
from data.insight.finding import Finding, FindingId
from data.intake.format import Clock
from data.intake.rules import ImportRule

_LEAST_WAITS: Final = 100
_ALL: Final = 0.99
_FEW: Final = 0.9
_STEP_S: Final = 900.0
_SHORT_DAYS: Final = 14.0

Floats = npt.NDArray[np.float64]


def pending_at_one_time(evidence: Evidence) -> Finding | None:
    """Whether every job waited at the same time of some day: then those that did not are missing.

    Where times of day differ much in the share of waits that hold them, and one is held by all, jobs were
    collected by looking at the queue then.
    """
    jobs = evidence.jobs[evidence.jobs["wait_s"].notna()]
    if len(jobs) < _LEAST_WAITS and not evidence.says("pending_at_noon_only"):
        return None
    submit_s, start_s = jobs["submit_s"].to_numpy(np.float64), jobs["start_s"].to_numpy(np.float64)
    times_s = np.arange(0.0, DAY_S, _STEP_S)
    shares = np.array([_share_waiting_at(submit_s, start_s, at_s) for at_s in times_s])
    best = int(shares.argmax()) if len(jobs) else 0
    is_seen = bool(len(jobs)) and bool(shares[best] >= _ALL) and bool(np.median(shares) < _FEW)
    if not is_seen and not evidence.says("pending_at_noon_only"):
        return None
    hours, minutes = divmod(int(times_s[best]) // 60, 60)
    text = (
        f"{shares[best]:.1%} of {len(jobs):,} waits hold {hours:02d}:{minutes:02d} UTC of some day, "
        f"{np.median(shares):.0%} the usual time of day"
    )
    numbers = {"at_s": float(times_s[best]), "share": float(shares[best]), "usual": float(np.median(shares))}
    return Finding(FindingId.PENDING_AT_ONE_TIME, text, numbers)


def no_waits(evidence: Evidence) -> Finding | None:
    """Whether nothing ever waits, or nobody knows when jobs started."""
    ran, jobs = evidence.ran, evidence.jobs
    ended = jobs["end_s"].notna()
    zero = evidence.share(ran["wait_s"].le(0.0))
    without = evidence.share(jobs["start_s"].isna()) if len(jobs) else 0.0
    is_told = evidence.says("no_waits") or evidence.says("gaps_not_times")
    if not is_told and (len(ran) < _LEAST_WAITS or zero < _ALL) and not (len(jobs) and without >= _ALL):
        return None
    text = f"{zero:.0%} of {len(ran):,} jobs that ran started the moment they were submitted"
    if without >= _ALL:
        text = f"{without:.0%} of {len(jobs):,} jobs have no start, {int(ended.sum()):,} an end"
    return Finding(FindingId.NO_WAITS, text, {"zero_share": zero, "without_start": without})


def waits_doubtful(evidence: Evidence) -> Finding | None:
    """Whether the source is known for waits that are not right."""
    if not evidence.says("waits_not_trustworthy"):
        return None
    waits = evidence.attempts["wait_s"].dropna()
    zero = evidence.share(waits.le(0.0))
    text = f"the source is known for waits that are not right; {zero:.0%} of {len(waits):,} are 0"
    return Finding(FindingId.WAITS_DOUBTFUL, text, {"zero_share": zero, "waits": len(waits)})


def clock(evidence: Evidence) -> Finding | None:
    """Whether dates are true."""
    if evidence.says("gaps_not_times"):
        jobs = len(evidence.jobs)
        return Finding(
            FindingId.GAPS_NOT_TIMES,
            f"times of {jobs:,} jobs are sums of gaps since the first",
            {"jobs": jobs},
        )
    if evidence.clock is not Clock.RELATIVE:
        return None
    first = float(evidence.jobs["submit_s"].min()) if len(evidence.jobs) else 0.0
    text = f"seconds {first:.0f} to {evidence.view.edge_s:.0f} of an unknown origin"
    which = FindingId.RELATIVE_CLOCK
    if zones := sorted({str(zone) for zone in evidence.facts.get("hour_and_weekday_true_in", ())}):
        which, text = FindingId.RELATIVE_DATES, f"{text}; hours and weekdays are those of {', '.join(zones)}"
    return Finding(which, text, {"first_s": first, "last_s": evidence.view.edge_s})


def zone_assumed(evidence: Evidence) -> Finding | None:
    """Whether stamps without an offset were read with a format's usual zone."""
    zones = sorted({str(zone) for zone in evidence.facts.get("zone_assumed", ())})
    if not zones:
        return None
    text = f"stamps without an offset were read as {', '.join(zones)}; --tz says otherwise"
    return Finding(FindingId.ZONE_ASSUMED, text, {"zones": zones})


def clocks_changed(evidence: Evidence) -> Finding | None:
    """Whether stamps fell into hours that clocks show twice or not at all."""
    twice = evidence.rules.get(ImportRule.REPEATED_HOUR.value, 0)
    never = evidence.rules.get(ImportRule.MISSING_HOUR.value, 0)
    if not twice + never:
        return None
    text = f"{twice:,} stamps in an hour that a clock showed twice, {never:,} in one that none showed"
    return Finding(FindingId.CLOCK_CHANGED, text, {"repeated": twice, "missing": never})


def days_without_rows(evidence: Evidence) -> Finding | None:
    """Whether there are whole days without a submission."""
    days = np.unique((evidence.attempts["submit_s"].to_numpy(np.float64) // DAY_S).astype(np.int64))
    if len(days) < 2:
        return None
    gaps = np.diff(days) - 1
    missing, longest = int(gaps.sum()), int(gaps.max())
    if not missing:
        return None
    text = f"{missing:,} of {int(days[-1] - days[0]) + 1:,} days have no submission, {longest:,} in a row"
    return Finding(FindingId.DAYS_WITHOUT_ROWS, text, {"days": missing, "longest": longest})


def short_record(evidence: Evidence) -> Finding | None:
    """Whether the record is too short for weekdays."""
    submits = evidence.attempts["submit_s"]
    if submits.empty:
        return None
    days = float(submits.max() - submits.min()) / DAY_S
    if days >= _SHORT_DAYS:
        return None
    return Finding(FindingId.SHORT_RECORD, f"submissions of {days:.1f} days", {"days": days})


def _share_waiting_at(submit_s: Floats, start_s: Floats, at_s: float) -> float:
    """Share of the waits that hold a time of day."""
    held = np.floor((start_s - at_s) / DAY_S) > np.floor((submit_s - at_s) / DAY_S)
    return float(held.mean()) if len(held) else 0.0
