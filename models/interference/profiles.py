"""What is known of a model before it has shared a GPU: its name, and what was measured of it alone."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_WITH_BATCH: Final = re.compile(r"(?P<family>.*\S)\s*\(batch size (?P<batch>[0-9]{1,9})\)")

_REACH: Final = (0.25, 1.0, 2.0)
"""Distances at which profiles stop being alike: share of the GPU, doublings of memory and of step time."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What was measured of a model alone on a GPU; None where it was not.

    Attributes:
        sm_utilisation: share of the time in which the GPU computes, 0 to 1.
        memory_gb: most memory it takes, GB.
        solo_step_s: seconds per step.

    Raises:
        ValueError: if a value lies outside its range.
    """

    sm_utilisation: float | None = None
    memory_gb: float | None = None
    solo_step_s: float | None = None

    def __post_init__(self) -> None:
        if self.sm_utilisation is not None and not 0.0 <= self.sm_utilisation <= 1.0:
            raise ValueError("sm_utilisation is a share from 0 to 1")
        for name, value in (("memory_gb", self.memory_gb), ("solo_step_s", self.solo_step_s)):
            if value is not None and not 0.0 < value < math.inf:
                raise ValueError(f"{name} is positive and finite")

    @property
    def features(self) -> tuple[float, float, float]:
        """Share of the GPU, log2 of the memory in GB, log2 of the step in seconds; NaN if not known."""
        used = math.nan if self.sm_utilisation is None else self.sm_utilisation
        logs = [math.nan if x is None else math.log2(x) for x in (self.memory_gb, self.solo_step_s)]
        return used, logs[0], logs[1]


NOTHING_KNOWN: Final = Profile()


@lru_cache(maxsize=10_000)
def family_and_batch(model: str) -> tuple[str, int | None]:
    """The parts of a name: "ResNet-50 (batch size 64)" is ("ResNet-50", 64).

    Of a name without a batch size it is the whole name, and None.
    """
    match = _WITH_BATCH.fullmatch(model)
    if match is None or not int(match["batch"]):
        return model, None
    return match["family"], int(match["batch"])


def family_of(model: str) -> tuple[str, bool]:
    """What it shares with its kin: the name without the batch size, and whether there is one."""
    family, batch = family_and_batch(model)
    return family, batch is not None


class Shape(NamedTuple):
    """How likeness falls with the batch; chosen by the measured pairs themselves.

    Attributes:
        reach_doublings: doublings of the batch over which a family stays alike.
        power: 1 to 2, how smooth the fall is.
    """

    reach_doublings: float
    power: float


class Likeness:
    """How alike models are, as a kernel (symmetric, positive semi-definite).

    Within a family exp(-(doublings of the batch apart / reach) ** power), across families 0. Profiles add,
    for each feature that any model has, a Gaussian of its difference: this is all that joins families.
    """

    def __init__(self, shape: Shape, profiles: Mapping[str, Profile]) -> None:
        self._shape: Final = shape
        self._profiles: Final = profiles

    def between(self, ones: Sequence[str], others: Sequence[str]) -> Floats:
        """Likeness of each of `ones` to each of `others`, shape (ones, others)."""
        is_kin = np.array([[family_of(a) == family_of(b) for b in others] for a in ones], dtype=np.float64)
        apart = np.abs(_log2_batch(ones)[:, None] - _log2_batch(others)[None])
        by_name = is_kin * np.exp(-((apart / self._shape.reach_doublings) ** self._shape.power))
        return by_name + self._by_profile(ones, others, by_name) if self._profiles else by_name

    def _by_profile(self, ones: Sequence[str], others: Sequence[str], by_name: Floats) -> Floats:
        """One term per feature that any model has; between two that both lack it, likeness by name."""
        left, right = (
            np.array([self._profiles.get(name, NOTHING_KNOWN).features for name in names])
            for names in (ones, others)
        )
        found = np.zeros_like(by_name)
        for k, reach in enumerate(_REACH):
            if all(math.isnan(profile.features[k]) for profile in self._profiles.values()):
                continue
            apart = (left[:, None, k] - right[None, :, k]) / reach
            both_lack = np.isnan(left[:, None, k]) & np.isnan(right[None, :, k])
            found += np.where(both_lack, by_name, np.nan_to_num(np.exp(-0.5 * apart**2), nan=0.0))
        return found


def _log2_batch(models: Sequence[str]) -> Floats:
    return np.log2([family_and_batch(name)[1] or 1 for name in models])
