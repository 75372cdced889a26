"""How wide intervals have to be for models that were not measured: from models left out on purpose.

Conformal prediction over left-out groups, in the manner of the jackknife+ and CV+ (Barber, Candes, Ramdas and
Tibshirani, Annals of Statistics 49:1, 2021). Other than there the interval is centred on the forecast of the
whole table, and scaled by its standard deviation. A group is what is new together: a pair, a model, a family.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeVar

import numpy as np

from data.pairs import PairTable, pair_of
from models.interference.field import Pairs, Places, RateField, to_rate
from models.interference.profiles import Floats, Likeness, Profile, Shape, family_of

Key = TypeVar("Key", str, tuple[str, str], tuple[str, bool])

SHAPES: Final = tuple(Shape(reach, power) for reach in (4.0, 8.0) for power in (1.0, 1.5))
"""What the pairs may choose from; the choice matters little, see docs/models/interference.md."""

GAUSSIAN: Final = 1.2815515655446004
"""Standard deviations from the middle of a Gaussian to either end of its central 80 %."""

_COVERAGE: Final = 0.8
_WIDEST: Final = 4.0
_LEAST_BLOCKS: Final = 5
_FEW_BLOCKS: Final = 20


class Novelty(IntEnum):
    """How new a pair is, by the newer of its two models."""

    MEASURED = 0
    UNMEASURED = 1
    NEW_BATCH = 2
    NEW_FAMILY = 3


def ordered_pairs(table: PairTable) -> tuple[Pairs, Floats]:
    """Every (model, beside) that was measured, and its rate: two of each pair, also of one with itself."""
    pairs: list[tuple[str, str]] = []
    rates: list[float] = []
    for (a, b), (rate_a, rate_b) in sorted(table.rates.items()):
        pairs += [(a, b), (b, a)]
        rates += [rate_a, rate_b]
    return pairs, np.array(rates)


def best_field(table: PairTable, profiles: Mapping[str, Profile]) -> RateField:
    """The field whose shape forecasts models left out best, by the mean error of the rate."""
    pairs, rates = ordered_pairs(table)
    blocks = _blocks([set(pair) for pair in pairs])
    best: tuple[float, RateField] | None = None
    for shape in SHAPES:
        field = RateField(pairs, rates, Likeness(shape, profiles))
        error = _mean_error(field, rates, blocks)
        if best is None or error < best[0]:
            best = error, field
    assert best is not None  # noqa: S101 - there is at least one shape
    return best[1]


def widths(field: RateField) -> dict[Novelty, float]:
    """Standard deviations from the median to either end of the 80 % interval, by how new a pair is."""
    names = {name for pair in field.pairs for name in pair}
    sizes = Counter(map(family_of, names))
    with_kin = {name for name in names if sizes[family_of(name)] > 1}
    by_pair = _blocks([{pair_of(*pair)} for pair in field.pairs])
    by_model = _blocks([with_kin.intersection(pair) for pair in field.pairs])
    by_family = _blocks([set(map(family_of, pair)) for pair in field.pairs])
    pair_width = _width(field, by_pair, GAUSSIAN)
    model_width = _width(field, by_model, pair_width)
    return {
        Novelty.MEASURED: GAUSSIAN,
        Novelty.UNMEASURED: pair_width,
        Novelty.NEW_BATCH: model_width,
        Novelty.NEW_FAMILY: _width(field, by_family, model_width),
    }


def _blocks(keys: Sequence[set[Key]]) -> list[Places]:
    """For each key in order, the places that have it: what is unknown while the key is."""
    found: dict[Key, list[int]] = {}
    for place, have in enumerate(keys):
        for key in have:
            found.setdefault(key, []).append(place)
    return [np.array(found[key], np.intp) for key in sorted(found)]


def _mean_error(field: RateField, rates: Floats, blocks: Sequence[Places]) -> float:
    errors = [
        np.abs(to_rate(field.left_out(block).mean) - rates[block])
        for block in blocks
        if len(block) < len(rates)
    ]
    return float(np.concatenate(errors).mean()) if errors else 0.0


def _width(field: RateField, blocks: Sequence[Places], otherwise: float) -> float:
    """The level that covers 80 % of the blocks, each counting as one however many pairs it has.

    Of few blocks one more is added, that nothing would cover: what holds for them need not for the next. Of
    fewer than five nothing can be told: `otherwise`, or what a Gaussian would have where that is more.
    """
    left = [block for block in blocks if len(block) < len(field.pairs)]
    if len(left) < _LEAST_BLOCKS:
        return max(otherwise, GAUSSIAN)
    scores, weights = [], []
    for block in left:
        mean, sd = field.left_out(block)
        scores.append(np.abs(field.logits[block] - mean) / sd)
        weights.append(np.full(len(block), 1.0 / len(block)))
    found, counted = np.concatenate(scores), np.concatenate(weights)
    order = np.argsort(found, kind="stable")
    reached = np.cumsum(counted[order]) / (len(left) + (len(left) < _FEW_BLOCKS))
    k = min(int(np.searchsorted(reached, _COVERAGE)), len(found) - 1)
    return min(float(found[order[k]]), _WIDEST)
