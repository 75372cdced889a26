"""The one place that knows how a hazard model puts its logits together.

A trained model's logits are a weighted sum, bin by bin, of the logits of life tables, a constant and the sum
of the trees. The life tables of a job are chains of ever more special keys, so each key's step away from the
one before is a part; the trees' scores split into contributions of columns (Lundberg et al., Nature Machine
Intelligence 2:1, 2020; LightGBM's `pred_contrib`), which sum to the score.

The base is a job of which nothing is known: the tables of all jobs, and every feature unknown. What a column
contributes is counted from what it contributes there: what the trees correct in all jobs is the base's.
"""

# ruff: noqa: SLF001 - reads what the model is made of; nobody else does

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from domain.jobs import Job
from models.explain.attribution import Component, Floats
from models.explain.words import TABLES, Facts, group_of, group_of_table
from models.lifetime import boosted
from models.lifetime.boosted import Columns, HazardModel
from models.lifetime.features import PLAIN, RELATIVE, JobFeatures
from models.lifetime.hazard import HazardLifetimes
from models.lifetime.keys import Key
from models.lifetime.tables import MEMORIES, MIDDLE, NUM_BINS, DecayingTables, logit

Parts = dict[str, Floats]
"""What each group adds, shape (..., bins)."""


@dataclass(frozen=True)
class LifeParts:
    """What a forecast is made of.

    Attributes:
        groups: of the parts, each once.
        components: the curves that are mixed.
        facts: the job's features by column.
    """

    groups: tuple[str, ...]
    components: list[Component]
    facts: Facts


@dataclass(frozen=True)
class _Curve:
    """A curve as weights of the tables' logits, shape (logits, bins or 1), a constant and further parts."""

    share: float
    weights: Floats
    constant: Floats
    further: Parts


def parts_of(model: HazardLifetimes, job: Job) -> LifeParts:
    """What the forecast of a job that has not ended is made of."""
    known = model._history.submitted(job, job.submit_s)
    base, tables = _table_parts(model._history.tables, known.keys.chains, known.features)
    curves = _curves(model._model, known.features, base)
    groups = sorted({*tables, *(group for curve in curves for group in curve.further)})
    components = []
    for curve in curves:
        rows = np.zeros((len(groups), NUM_BINS))
        for place, group in enumerate(groups):
            if group in tables:
                rows[place] += (curve.weights * tables[group]).sum(axis=0)
            rows[place] += curve.further.get(group, 0.0)
        usual = (curve.weights * base).sum(axis=0) + curve.constant
        components.append(Component(curve.share, usual, rows))
    return LifeParts(tuple(groups), components, facts_of(known.features))


def facts_of(features: JobFeatures) -> Facts:
    """A job's features by column, NaN where unknown."""
    values = (*features.relative.tolist(), *features.plain.tolist())
    return dict(zip((*RELATIVE, *PLAIN), values, strict=True))


def column_names(used: Columns) -> list[str]:
    """Of what the trees see, in their order."""
    return [
        "table offset",
        "table exposures",
        *(f"table memory {one}" for one in used.logits.tolist()),
        *(RELATIVE[one] for one in used.relative.tolist()),
        *(PLAIN[one] for one in used.plain.tolist()),
    ]


def _curves(model: HazardModel | None, features: JobFeatures, base: Floats) -> list[_Curve]:
    """What `HazardModel.survival` mixes; without a model, what `untrained_survival` says."""
    number, nothing = len(features.logits), np.zeros(NUM_BINS)
    if model is None:
        return [_Curve(1.0, _only(MIDDLE, number), nothing, {})]
    usual, trees = _tree_parts(model, features, base)
    stack = np.zeros((number, 1))
    stack[model.columns.logits, 0] = model.stack[:-1]
    weights = model.trust * stack + (1.0 - model.trust) * _only(MIDDLE, number)
    constant = model.trust * (model.stack[-1] + usual)
    further = {group: model.trust * part for group, part in trees.items()}
    latest = _Curve(1.0 - boosted._LONG_RUN_SHARE, weights, constant, further)
    return [latest, _Curve(boosted._LONG_RUN_SHARE, _only(len(MEMORIES) - 1, number), nothing, {})]


def _table_parts(
    tables: DecayingTables, chains: Sequence[Sequence[Key]], features: JobFeatures
) -> tuple[Floats, Parts]:
    """Logits of all jobs, and what each key adds to the one before; (logits, bins) each.

    The forecast is of the submit, the tables are of now; what they have learned since goes to the last key.
    """
    base, parts = np.zeros((len(features.logits), NUM_BINS)), Parts()
    for at, chain in enumerate(chains):
        place = slice(at * len(MEMORIES), (at + 1) * len(MEMORIES))
        stops = [chain[:stop] for stop in range(1, len(chain) + 1)]
        said = logit(tables.hazards(stops)[0]).astype(np.float64)
        base[place] = said[0]
        final = features.logits[place].astype(np.float64)
        steps = [*np.diff(said, axis=0), final - said[-1]]
        last = TABLES if len(chain) == 1 else group_of_table(str(chain[-1][0]))
        for step, group in zip(
            steps, (*(group_of_table(str(key[0])) for key in chain[1:]), last), strict=True
        ):
            parts.setdefault(group, np.zeros_like(base))[place] += step
    return base, parts


def _tree_parts(model: HazardModel, features: JobFeatures, base: Floats) -> tuple[Floats, Parts]:
    """The trees' score of an unknown job, and what each group's columns add to it; (bins,) each."""
    unknown = JobFeatures(
        base.astype(np.float16),
        np.zeros_like(features.exposures),
        np.full_like(features.relative, np.nan),
        np.full_like(features.plain, np.nan),
        features.atoms,
    )
    given, usual = _contributions(model, features), _contributions(model, unknown)
    parts = Parts()
    for column, name in enumerate(column_names(model.columns)):
        parts.setdefault(group_of(name), np.zeros(NUM_BINS))
        parts[group_of(name)] += given[:, column] - usual[:, column]
    return usual.sum(axis=1), parts


def _contributions(model: HazardModel, features: JobFeatures) -> Floats:
    """Contributions of columns to the score of each bin, and the expected score; (bins, columns + 1)."""
    used = model.columns
    logits = features.logits[used.logits].astype(np.float32)
    relative = boosted._LN_EDGES[:, None] - features.relative[used.relative].astype(np.float32)
    offsets = boosted._offsets(logits, model.stack)
    table = boosted._table(used, logits, offsets, features.exposures, relative, features.plain[used.plain])
    given = model.booster.predict(table, pred_contrib=True, num_threads=1, predict_disable_shape_check=True)
    return np.asarray(given, np.float64)


def _only(place: int, number: int) -> Floats:
    """Weights that take one of the logits, shape (logits, 1)."""
    weights = np.zeros((number, 1))
    weights[place] = 1.0
    return weights
