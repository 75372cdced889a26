"""Which GPUs are held and not used, and which are really free, by a window that ends with the telemetry.

A low utilisation alone says neither: a service that waits for requests has its memory full, a job may hold
GPUs without having a process on them, and what was not measured is not zero.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple, Self

import numpy as np

from data.telemetry.holding import Held, Holding, Holdings
from data.telemetry.sharing import shares_of, weights_of
from data.telemetry.tracks import NO_TRACK, Device, DeviceId, Metric, Numbers, Telemetry, Track

_NOT_KNOWN_WHICH: Final = "jobs hold some GPUs of the node, not known which"


class Verdict(StrEnum):
    """What a GPU does, a closed set; `meaning` says it in one line."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        """Make a member whose value is the name alone."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        return member

    WORKING = "working", "it was used in the window, whoever holds it"
    IDLE = "idle", "held and not used, with most of its memory left"
    MEMORY_HELD = (
        "memory-held",
        "not used, but its memory or a process stays: a resident service, or a zombie",
    )
    HELD_EMPTY = "held-empty", "held, and nothing runs on it: no use, no process, nothing in its memory"
    FREE = "free", "held by nobody: no use, little memory, no process"
    UNKNOWN = "unknown", "not enough was measured, or nothing says who holds it"


_UNUSED: Final = {
    Holding.NOBODY: (Verdict.FREE, ""),
    Holding.PERHAPS: (Verdict.UNKNOWN, _NOT_KNOWN_WHICH),
    Holding.UNKNOWN: (Verdict.UNKNOWN, "nothing says who holds it"),
}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What counts as used, and how much has to be seen to say so.

    Attributes:
        window_s: the trailing window, seconds; idle is what is idle over all of it.
        low_util_pct: a mean utilisation of the window below this is no use.
        low_memory_pct: memory below this share is little: of what nobody holds, more is a zombie's.
        held_memory_pct: from this share on what is held and not used is a resident service, not simply idle.
        empty_mib: memory up to this is nothing: a process of CUDA needs more.
        most_gap_s: samples further apart than this say nothing of the time between them.
        least_seen: share of the window that has to be covered by samples.
    """

    window_s: float = 1800.0
    low_util_pct: float = 5.0
    low_memory_pct: float = 5.0
    held_memory_pct: float = 50.0
    empty_mib: float = 100.0
    most_gap_s: float = 600.0
    least_seen: float = 0.5


class Judged(NamedTuple):
    """One GPU or slice.

    Attributes:
        device: which.
        profile: of a slice, its profile.
        verdict: what it does.
        why: in a few words, where the verdict alone does not say it.
        held: who holds it.
        util_pct: mean utilisation over the window; None where it was not measured.
        memory_pct: share of memory in use at last; None where it was not measured.
        since_s: from when on it has been so; None where it works or is not known.
        is_longer: whether it may have been so before `since_s`, where the telemetry begins.
    """

    device: DeviceId
    profile: str
    verdict: Verdict
    why: str
    held: Held
    util_pct: float | None
    memory_pct: float | None
    since_s: float | None
    is_longer: bool


@dataclass(frozen=True)
class Findings:
    """What a window shows.

    Attributes:
        gpus: all GPUs and slices.
        begin_s, end_s: the window, epoch seconds.
        gpu_hours: GPU-hours of the window by verdict; all verdicts are there.
        attributed: GPU-hours by job or pod.
        unattributed: GPU-hours that are nobody's, or of which it is not known whose.
        idle_at_least: by node of which only numbers of held GPUs are known, how many of those are not used.
    """

    gpus: tuple[Judged, ...]
    begin_s: float
    end_s: float
    gpu_hours: Mapping[Verdict, float]
    attributed: Mapping[str, float]
    unattributed: float
    idle_at_least: Mapping[str, int]


def judge(telemetry: Telemetry, held: Holdings, limits: Thresholds) -> Findings:
    """Say of each GPU what it does, and whose the time of the window was.

    Args:
        telemetry: of one device at least.
        held: who holds each GPU at the end of the telemetry.
        limits: what counts as used.
    """
    end_s = telemetry.end_s
    begin_s = end_s - limits.window_s
    gpus = [_judged(one, held.of[one.device], end_s, limits) for one in telemetry.devices]
    for device in held.missing:
        why = "there is no telemetry of it"
        gpus.append(
            Judged(device, "", Verdict.UNKNOWN, why, held.of[device], None, None, None, is_longer=False)
        )
    gpus.sort(key=lambda one: one.device.order)
    weights = weights_of({one.device: one.profile for one in gpus})
    hours = limits.window_s / 3600.0
    of_verdict = dict.fromkeys(Verdict, Fraction(0))
    for one in gpus:
        of_verdict[one.verdict] += weights[one.device]
    seen = {one.device: one for one in telemetry.devices}
    whose: dict[str | None, Fraction] = defaultdict(Fraction)
    for one in gpus:
        for name, share in shares_of(seen.get(one.device), one.held, begin_s, end_s).items():
            whose[name] += share * weights[one.device]
    nobodys = float(whose.pop(None, Fraction(0))) * hours
    return Findings(
        tuple(gpus),
        begin_s,
        end_s,
        {verdict: float(share) * hours for verdict, share in of_verdict.items()},
        {name: float(whose[name]) * hours for name in sorted(filter(None, whose))},
        nobodys,
        _idle_at_least(gpus, held.of_nodes),
    )


def _judged(device: Device, held: Held, end_s: float, limits: Thresholds) -> Judged:
    begin_s = end_s - limits.window_s
    since_s = held.since_s
    is_new = since_s is not None and since_s > begin_s
    util = _utilisation(device, max(begin_s, since_s) if is_new and since_s is not None else begin_s, end_s)
    used_mib, memory_pct = _memory(device, begin_s, end_s)
    fault = _unseen(device, begin_s, end_s, limits)
    util_pct = max((float(track.values.mean()) for track in util), default=None)
    has_process = bool(len(device.process_s)) and device.process_s[-1] > end_s - limits.most_gap_s
    if util_pct is None:
        verdict, why = Verdict.UNKNOWN, "its utilisation was not measured"
    elif util_pct >= limits.low_util_pct:
        verdict, why = Verdict.WORKING, "" if held.holding is not Holding.NOBODY else "nobody holds it"
    elif fault:
        verdict, why = Verdict.UNKNOWN, fault
    elif is_new:
        verdict, why = Verdict.UNKNOWN, "held for less than the window"
    elif memory_pct is None or used_mib is None:
        verdict, why = Verdict.UNKNOWN, "its memory was not measured"
    else:
        verdict, why = _quiet(held, used_mib, memory_pct, limits, has_process=has_process)
    since, is_longer = None, False
    if verdict not in {Verdict.WORKING, Verdict.UNKNOWN}:
        since, is_longer = _quiet_since(device, held, begin_s, limits)
    return Judged(device.device, device.profile, verdict, why, held, util_pct, memory_pct, since, is_longer)


def _quiet(
    held: Held, used_mib: float, memory_pct: float, limits: Thresholds, *, has_process: bool
) -> tuple[Verdict, str]:
    """The verdict of a GPU that was not used: by who holds it, its memory and its processes."""
    if held.holding is Holding.HELD:
        if memory_pct >= limits.held_memory_pct:
            return Verdict.MEMORY_HELD, ""
        is_empty = used_mib <= limits.empty_mib and not has_process
        return (Verdict.HELD_EMPTY if is_empty else Verdict.IDLE), ""
    if memory_pct >= limits.low_memory_pct or has_process:
        left = "memory" if memory_pct >= limits.low_memory_pct else "a process"
        whose = "nobody holds it" if held.holding is Holding.NOBODY else "whose is not known"
        return Verdict.MEMORY_HELD, f"{left} stays, {whose}"
    return _UNUSED[held.holding]


def _utilisation(device: Device, begin_s: float, end_s: float) -> list[Track]:
    """Utilisation in percent by each metric that measured any in this time."""
    whole = device.tracks.get(Metric.UTILISATION, NO_TRACK).after(begin_s, end_s)
    engine = device.tracks.get(Metric.ENGINE_ACTIVE, NO_TRACK).after(begin_s, end_s)
    both = (whole, Track(engine.times_s, engine.values * 100.0))
    return [track for track in both if len(track.times_s)]


def _memory(device: Device, begin_s: float, end_s: float) -> tuple[float | None, float | None]:
    """Memory in use at last (MiB), and its share (percent); None where it was not measured in the window."""
    used = device.tracks.get(Metric.MEMORY_USED, NO_TRACK).after(begin_s, end_s)
    free = device.tracks.get(Metric.MEMORY_FREE, NO_TRACK).after(begin_s, end_s)
    if not len(used.times_s) or not len(free.times_s):
        return None, None
    used_mib, free_mib = float(used.values[-1]), float(free.values[-1])
    total_mib = used_mib + free_mib
    return (used_mib, 100.0 * used_mib / total_mib) if total_mib > 0.0 else (None, None)


def _unseen(device: Device, begin_s: float, end_s: float, limits: Thresholds) -> str:
    """Why the window was not seen well enough to call the GPU quiet; empty where it was."""
    times_s = _measured_s(device)
    if not len(times_s) or end_s - times_s[-1] > limits.most_gap_s:
        return "not measured any more"
    gaps_s = np.diff(times_s, prepend=-math.inf)
    is_seen = (times_s > begin_s) & (gaps_s <= limits.most_gap_s)
    covered_s = np.minimum(gaps_s, times_s - begin_s)[is_seen].sum()
    return "" if covered_s >= limits.least_seen * limits.window_s else "measured in a part of the window only"


def _quiet_since(device: Device, held: Held, begin_s: float, limits: Thresholds) -> tuple[float, bool]:
    """From when on it was not used, and whether it may have been so before."""
    times_s = _measured_s(device)
    gaps = np.flatnonzero(np.diff(times_s) > limits.most_gap_s)
    first_s = float(times_s[gaps[-1] + 1] if len(gaps) else times_s[0])
    quiet_s, is_longer = first_s, True
    for track in _utilisation(device, first_s - 1.0, math.inf):
        busy = np.flatnonzero(track.values >= limits.low_util_pct)
        if len(busy) and track.times_s[busy[-1]] >= quiet_s:
            quiet_s, is_longer = float(track.times_s[busy[-1]]), False
    since_s = min(quiet_s, max(begin_s, first_s))
    if held.since_s is not None and held.since_s > since_s:
        return held.since_s, False
    return since_s, is_longer


def _measured_s(device: Device) -> Numbers:
    """Instants at which a utilisation was measured."""
    tracks = [device.tracks.get(one, NO_TRACK).times_s for one in (Metric.UTILISATION, Metric.ENGINE_ACTIVE)]
    return np.unique(np.concatenate(tracks))


def _idle_at_least(gpus: Iterable[Judged], of_nodes: Mapping[str, int]) -> dict[str, int]:
    """Of nodes where only numbers are known: held GPUs beyond those that may be the ones in use."""
    perhaps: dict[str, set[str]] = {node: set() for node in of_nodes}
    for one in gpus:
        if one.held.holding is Holding.PERHAPS and one.why != _NOT_KNOWN_WHICH:
            perhaps[one.device.node].add(one.device.gpu)
    is_open = {one.device.node for one in gpus if one.held.holding is Holding.PERHAPS}
    found = {node: of_nodes[node] - len(perhaps[node]) for node in sorted(is_open)}
    return {node: gpus for node, gpus in found.items() if gpus > 0}
