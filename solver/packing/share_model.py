"""Rates of two jobs on one GPU whose MPS shares are limited, from their rates under free competition.

No table has them measured for every share, so this is a model: docs/models/share-model.md says where its
numbers are from and which are assumptions. A share is a cap, not a partition: shares may sum up to 200 %.

    alone(s)  = s / (s + p (1 - s))             p: part of a step that shrinks with more of the GPU (Amdahl)
    p_a       = min(1, max(least_parallel, 1 - free_a, use_per_loss (1 - free_b)))
    overlap_a = max(0, 1 - (1 - s_b) / s_a)     part of a's share that b may use as well
    rate_a    = alone(s_a) (1 - (1 - free_a) (lasting s_b + (1 - lasting) overlap_a))

and both are scaled down where their sum would exceed (1 + most_gain) max(1, free_a + free_b).
"""

from dataclasses import dataclass, fields, replace
from typing import Final

WHOLE_PCT: Final = 100.0
"""No limit: both shares at this value are free competition."""

SETTINGS_PCT: Final = tuple(10.0 * step for step in range(1, 11))
"""Shares that are set: steps of 10 %, as in LGRR of Gimbal (ACM TACO 2025)."""

Rates = tuple[float, float]
"""Of the first and of the second job, relative to alone on the whole GPU."""

Shares = tuple[float, float]
"""Of the first and of the second job, percent of the GPU's threads, above 0 and at most 100."""


@dataclass(frozen=True, slots=True)
class ShareModel:
    """What a limit of MPS shares does to two jobs on one GPU. Pure, about two microseconds a call.

    Neither rate falls when the own share grows or the other's falls; in either share alone, each rate and
    their sum are concave, but for the scaling of the sum where that is in force.

    Attributes:
        least_parallel: part of its step in which even a light job gains from more of the GPU, 0 to 1.
        use_per_loss: how much of a step a job spends on the GPU, per loss it causes to the other.
        lasting: part of a loss that disjoint shares do not cure (memory bandwidth, caches, host), 0 to 1.
        most_gain: by how much two rates may sum to more than one after the other, or under free competition.

    Raises:
        ValueError: if a parameter lies outside its range.
    """

    least_parallel: float = 0.3
    use_per_loss: float = 1.0
    lasting: float = 0.5
    most_gain: float = 0.15

    def __post_init__(self) -> None:
        for name in ("least_parallel", "lasting"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is a share from 0 to 1")
        for name in ("use_per_loss", "most_gain"):
            if not 0.0 <= getattr(self, name) <= 10.0:
                raise ValueError(f"{name} lies in [0, 10]")

    def rates(self, free: Rates, shares_pct: Shares) -> Rates:
        """Rates under `shares_pct` of two jobs whose rates without limits are `free`.

        Without limits it is `free` itself. Rates lie in (0, 1], and where a free one is above 1, at most
        at that.

        Raises:
            ValueError: if a free rate is not positive or a share is not in (0, 100].
        """
        free_a, free_b = free
        share_a, share_b = shares_pct
        if not (0.0 < share_a <= WHOLE_PCT and 0.0 < share_b <= WHOLE_PCT):
            raise ValueError("a share lies above 0 and at most at 100 %")
        if not (free_a > 0.0 and free_b > 0.0):
            raise ValueError("a rate under free competition is positive")
        if share_a == share_b == WHOLE_PCT:
            return free
        rate_a = self._rate(free_a, free_b, share_a / WHOLE_PCT, share_b / WHOLE_PCT)
        rate_b = self._rate(free_b, free_a, share_b / WHOLE_PCT, share_a / WHOLE_PCT)
        limit, total = (1.0 + self.most_gain) * max(1.0, free_a + free_b), rate_a + rate_b
        return (rate_a, rate_b) if total <= limit else (rate_a * limit / total, rate_b * limit / total)

    def scaled(self, name: str, factor: float) -> "ShareModel":
        """The model with one parameter times `factor` (a share at most at 1), to see how much it matters.

        Raises:
            ValueError: if there is no such parameter or the value leaves its range.
        """
        if name not in PARAMETERS:
            raise ValueError(f"{name!r} is none of {', '.join(PARAMETERS)}")
        value = getattr(self, name) * factor
        is_share = name in ("least_parallel", "lasting")
        return replace(self, **{name: min(1.0, value) if is_share else value})

    def _rate(self, free: float, others_free: float, share: float, others_share: float) -> float:
        """Rate of one job; shares from 0 to 1.

        Since the parallel part is at least the own loss, the rate grows with the own share and is concave.
        """
        loss = 1.0 - min(1.0, free)
        parallel = min(1.0, max(self.least_parallel, loss, self.use_per_loss * (1.0 - others_free)))
        alone = share / (share + parallel * (1.0 - share))
        overlap = max(0.0, 1.0 - (1.0 - others_share) / share)
        left = 1.0 - loss * (self.lasting * others_share + (1.0 - self.lasting) * overlap)
        return alone * left * max(1.0, free)


PARAMETERS: Final = tuple(field.name for field in fields(ShareModel))
"""Names of the parameters, in order."""
