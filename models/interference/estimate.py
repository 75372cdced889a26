"""Rates of pairs that nobody measured, from what models use of a GPU alone: a coarse estimate.

    rate = 1 / (1 + u_a u_b) for both, u: share of the time in which a job's kernels run

Two jobs whose kernels come independently of each other meet in u_a u_b of the time, and then each runs at
half its speed. This is an assumption, and the interval is wide for it.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from data.profiles import ModelProfile
from domain.interference import RateForecast
from models.interference.profiles import Profile, family_and_batch

_MIB_PER_GB: Final = 1e9 / 2**20

HALF_WIDTH: Final = 1.5
"""Half the 80 % interval, logit scale. Rules of utilisation miss by 0.2 of rate on families left out of a
measured table (docs/models/interference.md), and an estimated utilisation is no better than a fitted one."""

UNKNOWN_USE: Final = 0.6
UNKNOWN_HALF_WIDTH: Final = 2.2
"""Of a model of which nothing is known: an ordinary one, and nearly every rate is possible."""

ESTIMATE_SD: Final = 0.35
"""Standard deviation of the logarithm of a memory that is estimated, not told: an assumption."""


class Need(NamedTuple):
    """GPU memory of one job, and whether somebody told it or it is an estimate."""

    mib: float
    is_told: bool


class ProfileEstimate:
    """Rates and memory from profiles alone. It is a forecaster of interference that measured nothing."""

    def __init__(self, profiles: Mapping[str, ModelProfile], gpu_memory_mib: float | None = None) -> None:
        """Args: profiles by model; memory of one GPU, None if not known."""
        self._profiles: Final = dict(profiles)
        self._gpu_memory_mib: Final = gpu_memory_mib
        self._families: Final = _by_family(self._profiles)

    def rates(self, model_a: str, model_b: str) -> tuple[RateForecast, RateForecast] | None:
        """The same for both; None if known not to fit."""
        if self.fit_chance(model_a, model_b) <= 0.0:
            return None
        uses = [self.use(model) for model in (model_a, model_b)]
        width = HALF_WIDTH if None not in uses else UNKNOWN_HALF_WIDTH
        one, other = (UNKNOWN_USE if use is None else use for use in uses)
        slowdown = max(one * other, 0.01)  # logit of 1 is infinite: nobody is left quite alone
        lower, median, upper = (1.0 / (1.0 + slowdown * math.exp(-k * width)) for k in (-1.0, 0.0, 1.0))
        both = RateForecast(lower, median, upper)
        return both, both

    def fit_chance(self, model_a: str, model_b: str) -> float:
        """Chance, in [0, 1], that both fit; 1 where no memory is known."""
        needs = [self.need(model) for model in (model_a, model_b)]
        known = [need for need in needs if need is not None]
        if self._gpu_memory_mib is None or len(known) < len(needs):
            return 1.0
        return fit_chance(known, self._gpu_memory_mib)

    def use(self, model: str) -> float | None:
        """Share of the time in which its kernels run, 0 to 1; None if not known."""
        found = self.profile(model)
        return None if found is None else found.sm_utilisation

    def need(self, model: str) -> Need | None:
        """Memory by its profile, an estimate; None if not known."""
        found = self.profile(model)
        return None if found is None or found.memory_mib is None else Need(found.memory_mib, is_told=False)

    def profile(self, model: str) -> ModelProfile | None:
        """Of the model, or of the nearest batch of its family, without a batch the largest; None: unknown."""
        if model in self._profiles:
            return self._profiles[model]
        family, batch = family_and_batch(model)
        kin = self._families.get(family.casefold())
        if not kin:
            return None
        wanted = batch or kin[-1][0]
        return min(kin, key=lambda one: (abs(math.log2(one[0] / wanted)), one[0]))[1]


def fit_chance(needs: Iterable[Need], usable_mib: float) -> float:
    """Chance that the memories fit: 0 or 1 where all were told, log-normal for what is estimated."""
    needs = tuple(needs)
    left = usable_mib - sum(need.mib for need in needs if need.is_told)
    estimated = sum(need.mib for need in needs if not need.is_told)
    if left < 0.0 or estimated == 0.0:
        return 1.0 if left >= 0.0 else 0.0
    if left == 0.0:
        return 0.0
    return 0.5 * (1.0 + math.erf(math.log(left / estimated) / (ESTIMATE_SD * math.sqrt(2.0))))


def features(profiles: Mapping[str, ModelProfile]) -> dict[str, Profile]:
    """Profiles as models of interference take them: memory in GB."""
    return {
        name: Profile(
            one.sm_utilisation,
            None if one.memory_mib is None else one.memory_mib / _MIB_PER_GB,
            one.solo_step_s,
        )
        for name, one in profiles.items()
    }


def _by_family(profiles: Mapping[str, ModelProfile]) -> dict[str, list[tuple[int, ModelProfile]]]:
    found: dict[str, list[tuple[int, ModelProfile]]] = {}
    for name, one in profiles.items():
        family, batch = family_and_batch(name)
        found.setdefault(family.casefold(), []).append((batch or 1, one))
    return {family: sorted(kin, key=lambda one: one[0]) for family, kin in found.items()}
