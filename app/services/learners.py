"""What can be trained: for each kind of model, how it is made, tried on a stretch of a record, and stored."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from domain.errors import SettingError
from models import LIFETIME_MODELS, Training
from models.artifacts.store import Store
from models.backtest import Progress, Record, forecasts_at_submit, life_losses, life_scores, lived_of
from models.lifetime.empirical import EmpiricalLifetimes
from models.lifetime.empirical_state import STORE as EMPIRICAL
from models.lifetime.state import STORE as HAZARD
from models.scores import NINE_LEVELS

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LIFETIME_STORES: Final[Mapping[str, Store]] = {"learned": EMPIRICAL, "hazard": HAZARD}
"""Lifetime models that can be stored, by their names in `models.LIFETIME_MODELS`."""

_NINTH: Final = NINE_LEVELS.index(0.9)


@dataclass(frozen=True, eq=False)
class Run:
    """What a model did on a stretch.

    Attributes:
        at_s: instant of each forecast, shape (rows,).
        losses: what each cost, shape (rows,).
        is_missed: whether the outcome lay beyond the level that is relied on, shape (rows,).
        scores: by name, for people.
    """

    at_s: Floats
    losses: Floats
    is_missed: Bools
    scores: Mapping[str, float]


class Learner(Protocol):
    """One model that can be trained: its kind, its name and its settings.

    Attributes:
        kind: one of `models.artifacts.manifest.KINDS`.
        name: of the model.
        seed: of its training.
        recipe: all that it is made with besides the record; models of one recipe can go on from each other.
        baseline: what the first model must beat, in words.
        store: how it is stored.
    """

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102
    @property
    def recipe(self) -> dict[str, Any]: ...  # noqa: D102
    @property
    def baseline(self) -> str: ...  # noqa: D102
    @property
    def store(self) -> Store: ...  # noqa: D102

    def make(self, from_s: float) -> Any:
        """A model that has been told nothing; the record begins at `from_s`."""
        ...

    def make_baseline(self, from_s: float) -> Any:
        """What the first model must beat."""
        ...

    def run(
        self,
        model: Any,
        record: Record,
        span: tuple[float, float],
        *,
        most_asked: int,
        progress: Progress | None = None,
    ) -> Run:
        """Tell a model the facts of a span and ask it on the way, at most `most_asked` times."""
        ...

    def renamed(self, name: str, seed: int) -> "Learner":
        """The same for another model, such as the one in use."""
        ...

    def can_face(self, recipe: Mapping[str, Any]) -> bool:
        """Whether a model of that recipe can be asked the same; else the new one faces the baseline."""
        ...


@dataclass(frozen=True)
class LifetimeLearner:
    """A lifetime model: asked of jobs at their submit; missed where a life outlasts its .9 quantile."""

    name: str
    quotas: Mapping[str, int]
    seed: int = 0

    kind: Final = "lifetime"
    baseline: Final = "the baseline (quantiles per user, name and pool)"

    def __post_init__(self) -> None:
        if self.name not in LIFETIME_STORES:
            known = ", ".join(LIFETIME_STORES)
            raise SettingError(f"no lifetime model {self.name!r} can be stored; there are: {known}")

    @property
    def recipe(self) -> dict[str, Any]:
        """Nothing but the name and the seed: what a model remembers does not depend on quotas."""
        return {}

    @property
    def store(self) -> Store:
        """How it is stored."""
        return LIFETIME_STORES[self.name]

    def make(self, from_s: float) -> Any:
        """A model that keeps what it would be trained anew on, and is trained only when told to."""
        training = Training(self.quotas, (), (), from_s, retrain_every_s=math.inf, seed=self.seed)
        return LIFETIME_MODELS[self.name](training)

    def make_baseline(self, from_s: float) -> Any:  # noqa: ARG002 - it needs no beginning
        """Empirical quantiles per key."""
        return EmpiricalLifetimes()

    def run(
        self,
        model: Any,
        record: Record,
        span: tuple[float, float],
        *,
        most_asked: int,
        progress: Progress | None = None,
    ) -> Run:
        """Ask of evenly spaced jobs, each at its submit."""
        first, last = np.searchsorted(record.submit_s(), span)
        every = max(1, math.ceil((last - first) / most_asked))
        made = forecasts_at_submit(model, record, *span, every=every, progress=progress)
        lived_s, has_ended = lived_of(record, made)
        return Run(
            at_s=record.submit_s()[made.places],
            losses=life_losses(lived_s, has_ended, made.quantiles_s),
            is_missed=lived_s > made.quantiles_s[:, _NINTH],
            scores=life_scores(record, made),
        )

    def renamed(self, name: str, seed: int) -> "LifetimeLearner":
        """The same for another model, such as the one in use."""
        return replace(self, name=name, seed=seed)

    def can_face(self, recipe: Mapping[str, Any]) -> bool:  # noqa: ARG002 - there is but one
        """Whoever forecasts lives can be asked of any job."""
        return True
