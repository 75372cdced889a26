"""Rates of pairs under MPS shares: what was measured holds, the share model says the rest.

Of a pair that was measured at some shares a grid is made, in steps of 10 % and at the measured shares. On it

1. a measured setting has its measured rates (the middle, where two contradict that more share is more speed);
2. any other has the model's, times the mean of measured over modelled rates weighted by 1 / distance^2;
3. which is kept between what slower and faster measured settings allow, and made monotone (running maximum);

and between the points of the grid rates are linear in each share. So rates are continuous, never fall when
the own share grows or the other's falls, and are the measured ones where there are any.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from solver.packing.share_model import SETTINGS_PCT, WHOLE_PCT, Rates, ShareModel, Shares

LEAST_SHARE_PCT: Final = 1.0
"""Smallest share there is; a smaller one counts as this."""

_NEAR: Final = 1e-9

FreeRates = Callable[[str, str], Rates | None]
"""Rates of two models under free competition; None: they do not fit on one GPU."""

Measured = Mapping[tuple[str, str], Mapping[Shares, Rates]]
"""By two models in the order of their names: rates at shares other than (100, 100)."""


class SharedRates:
    """Rates of two models at any shares, from free rates, measurements under shares, and the model."""

    def __init__(
        self, free: FreeRates, measured: Measured | None = None, model: ShareModel | None = None
    ) -> None:
        """Args: who says free rates; what was measured under shares; the share model."""
        self._free: Final = free
        self._measured: Final[Measured] = measured or {}
        self._model: Final = model or ShareModel()
        self._surfaces: Final[dict[tuple[tuple[str, str], Rates], _Surface]] = {}

    def rates(self, model_a: str, model_b: str, shares_pct: Shares) -> Rates | None:
        """Rates of a job of `model_a` and one of `model_b` at these shares; None if they do not fit.

        Raises:
            ValueError: if a share is not in (0, 100] or a free rate is not positive.
        """
        free = self._free(model_a, model_b)
        return None if free is None else self.rates_from(free, model_a, model_b, shares_pct)

    def rates_from(self, free: Rates, model_a: str, model_b: str, shares_pct: Shares) -> Rates:
        """The same where the rates under free competition are told.

        Raises:
            ValueError: if a share is not in (0, 100] or a free rate is not positive.
        """
        pair = (model_a, model_b) if model_a <= model_b else (model_b, model_a)
        if pair not in self._measured or shares_pct == (WHOLE_PCT, WHOLE_PCT):
            return self._model.rates(free, shares_pct)
        is_swapped = pair != (model_a, model_b)
        found = self._surface(pair, _swap(free) if is_swapped else free).at(
            _swap(shares_pct) if is_swapped else shares_pct
        )
        return _swap(found) if is_swapped else found

    def is_measured(self, model_a: str, model_b: str, shares_pct: Shares) -> bool:
        """Whether the pair was measured at these very shares (both at 100 never counts)."""
        if model_a > model_b:
            model_a, model_b, shares_pct = model_b, model_a, _swap(shares_pct)
        points = self._measured.get((model_a, model_b), {})
        return shares_pct in points or (model_a == model_b and _swap(shares_pct) in points)

    def _surface(self, pair: tuple[str, str], free: Rates) -> "_Surface":
        key = (pair, free)
        if key not in self._surfaces:
            points = dict(self._measured[pair])
            if pair[0] == pair[1]:
                points |= {_swap(at): _swap(rates) for at, rates in points.items() if _swap(at) not in points}
            self._surfaces[key] = _surface(free, points, self._model)
        return self._surfaces[key]


@dataclass(frozen=True, slots=True)
class _Surface:
    """Rates on a grid of shares.

    Attributes:
        axes: shares of the first and of the second job, each ascending.
        rates: of both jobs, by place on the first and on the second axis.
    """

    axes: tuple[list[float], list[float]]
    rates: tuple[list[list[float]], list[list[float]]]

    def at(self, shares_pct: Shares) -> Rates:
        """Rates at any shares, linear between the points of the grid."""
        if not all(0.0 < share <= WHOLE_PCT for share in shares_pct):
            raise ValueError("a share lies above 0 and at most at 100 %")
        i, u = _place(self.axes[0], shares_pct[0])
        j, v = _place(self.axes[1], shares_pct[1])
        rate_a, rate_b = (
            (1 - u) * ((1 - v) * grid[i][j] + v * grid[i][j + 1])
            + u * ((1 - v) * grid[i + 1][j] + v * grid[i + 1][j + 1])
            for grid in self.rates
        )
        return rate_a, rate_b


def _place(axis: list[float], share: float) -> tuple[int, float]:
    """The cell of the axis that holds the share, and how far into it that lies, 0 to 1."""
    share = max(share, axis[0])
    k = min(bisect_right(axis, share) - 1, len(axis) - 2)
    return k, (share - axis[k]) / (axis[k + 1] - axis[k])


def _surface(free: Rates, points: Mapping[Shares, Rates], model: ShareModel) -> _Surface:
    known = {**points, (WHOLE_PCT, WHOLE_PCT): free}
    axes = (
        sorted({LEAST_SHARE_PCT, *SETTINGS_PCT, *(at[0] for at in known)}),
        sorted({LEAST_SHARE_PCT, *SETTINGS_PCT, *(at[1] for at in known)}),
    )
    modelled = {(a, b): model.rates(free, (a, b)) for a in axes[0] for b in axes[1]}
    of_a = _monotone(
        axes, {at: both[0] for at, both in known.items()}, {k: r[0] for k, r in modelled.items()}
    )
    of_b = _monotone(
        (axes[1], axes[0]),
        {_swap(at): both[1] for at, both in known.items()},
        {_swap(k): r[1] for k, r in modelled.items()},
    )
    return _Surface(axes, (of_a, [list(column) for column in zip(*of_b, strict=True)]))


def _monotone(
    axes: tuple[list[float], list[float]], known: Mapping[Shares, float], modelled: Mapping[Shares, float]
) -> list[list[float]]:
    """Rates of one job by its own share and the other's, rising in the first and falling in the second."""
    settled = {at: sum(_bounds(at, known, rate, rate)) / 2.0 for at, rate in known.items()}
    ratios = {at: rate / modelled[at] for at, rate in settled.items()}
    most = max(1.0, *settled.values())
    grid: list[list[float]] = []
    for i, own in enumerate(axes[0]):
        row = [0.0] * len(axes[1])
        for j in reversed(range(len(row))):
            at = (own, axes[1][j])
            low, high = _bounds(at, settled, 0.0, most)
            rate = min(max(modelled[at] * _weighted(at, ratios), low), high)
            before = max(grid[i - 1][j] if i else 0.0, row[j + 1] if j + 1 < len(row) else 0.0)
            row[j] = max(rate, before)
        grid.append(row)
    return grid


def _bounds(at: Shares, known: Mapping[Shares, float], low: float, high: float) -> tuple[float, float]:
    """What settings that are no better and no worse for the job leave possible."""
    worse = (rate for one, rate in known.items() if one[0] <= at[0] and one[1] >= at[1])
    better = (rate for one, rate in known.items() if one[0] >= at[0] and one[1] <= at[1])
    return max((low, *worse)), min((high, *better))


def _weighted(at: Shares, ratios: Mapping[Shares, float]) -> float:
    weights = {one: 1.0 / (_NEAR + (one[0] - at[0]) ** 2 + (one[1] - at[1]) ** 2) for one in ratios}
    return sum(weights[one] * ratio for one, ratio in ratios.items()) / sum(weights.values())


def _swap(both: tuple[float, float]) -> tuple[float, float]:
    return both[1], both[0]
