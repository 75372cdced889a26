"""Whose the time of GPUs was: a device counts once, whoever shares it, and what is nobody's is told."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from data.telemetry.holding import Held, Holding
from data.telemetry.tracks import Device, DeviceId, Numbers

_SLICES: Final = re.compile(r"(?:\d+c\.)?(?P<slices>\d{1,2})g\.", re.ASCII)

_There = npt.NDArray[np.bool_]


def weights_of(profiles: Mapping[DeviceId, str]) -> dict[DeviceId, Fraction]:
    """What each counts in whole GPUs: slices divide theirs by their compute slices."""
    parts = {}
    for device, profile in profiles.items():
        found = _SLICES.match(profile)
        parts[device] = max(int(found["slices"]), 1) if found else 1
    wholes: Counter[tuple[str, str]] = Counter()
    for device, part in parts.items():
        wholes[device.node, device.gpu] += part
    return {device: Fraction(part, wholes[device.node, device.gpu]) for device, part in parts.items()}


def shares_of(device: Device | None, held: Held, begin_s: float, end_s: float) -> dict[str | None, Fraction]:
    """Whose the time of one GPU was, as shares that add up to 1; None is nobody, or nobody knows who.

    At each instant it is divided equally between those who share it: jobs where the scheduler names them,
    else pods.
    """
    jobs = held.holders if held.holding is Holding.HELD and held.is_certain else ()
    pods = {} if device is None else device.holders
    is_by_pods = {one.name for one in jobs} <= set(pods)
    times_s = np.empty(0) if device is None else device.seen_s
    times_s = times_s[(times_s > begin_s) & (times_s <= end_s)]
    if not len(times_s):
        names: Sequence[str | None] = sorted({one.name for one in jobs}) or [None]
        return {name: Fraction(1, len(names)) for name in names}
    of_instants: dict[str, _There] = {name: np.isin(times_s, told_s) for name, told_s in pods.items()}
    if not is_by_pods:
        of_instants = _by_jobs(held, times_s, of_instants)
    sets = Counter(
        tuple(name for name, is_there in zip(of_instants, at, strict=True) if is_there)
        for at in (zip(*of_instants.values(), strict=True) if of_instants else [()] * len(times_s))
    )
    shares: dict[str | None, Fraction] = defaultdict(Fraction)
    for there, count in sets.items():
        for name in there or (None,):
            shares[name] += Fraction(count, len(times_s) * max(len(there), 1))
    return shares


def _by_jobs(held: Held, times_s: Numbers, pods: Mapping[str, _There]) -> dict[str, _There]:
    """At which instants each job, and where there is none, each pod had it."""
    of_jobs: dict[str, _There] = {}
    for one in held.holders:
        begun = times_s >= (-math.inf if one.since_s is None else one.since_s)
        of_jobs[one.name] = of_jobs.get(one.name, np.zeros(len(times_s), bool)) | begun
    is_any = np.logical_or.reduce(list(of_jobs.values()))
    rest = {name: is_there & ~is_any for name, is_there in pods.items() if name not in of_jobs}
    return of_jobs | rest
