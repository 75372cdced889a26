"""What a place is worth: the rates of all whom it concerns, before and after."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from domain.cluster import Gpu
from domain.interference import InterferenceForecaster
from domain.jobs import Job
from solver.packing.floor import Floor, Place, Tenant


class Loss(NamedTuple):
    """What sharing does to a job that runs already: its rate before and after."""

    job: Job
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job in a place.

    Attributes:
        job: that would start.
        place: where.
        rate: its rate there.
        losses: of those it would share with.
    """

    job: Job
    place: Place
    rate: float
    losses: tuple[Loss, ...] = ()

    @property
    def added_gpus(self) -> float:
        """Work done per second more than without it, in GPUs: its own, less what the others lose."""
        lost = sum(loss.job.num_gpus * (loss.before - loss.after) for loss in self.losses)
        return self.job.num_gpus * self.rate - lost


class PairRule:
    """Forecast rates of pairs, by the names of their models.

    Args:
        forecaster: of rates.
        redistributes: whether jobs move samples between their workers: then a job runs at the mean rate of
            its workers, else at that of the slowest.
        least_fit_chance: pairs that are less likely to fit on one GPU do not share.
        level: which of the forecast rates counts: `median` or `lower`.
    """

    def __init__(
        self,
        forecaster: InterferenceForecaster,
        *,
        redistributes: bool,
        least_fit_chance: float = 0.95,
        level: str = "median",
    ) -> None:
        self._forecaster = forecaster
        self._least_fit_chance = least_fit_chance
        self._level = level
        self._known: dict[tuple[str, str], tuple[float, float] | None] = {}
        self.combine: Callable[[list[float]], float] = _mean if redistributes else min

    def pair(self, model: str | None, beside: str | None) -> tuple[float, float] | None:
        """Rates of both; None if they must not share."""
        if model is None or beside is None:
            return None
        key = (model, beside)
        if key not in self._known:
            self._known[key] = self._ask(*key)
        return self._known[key]

    def rate_of(self, tenant: Tenant, floor: Floor, joined: dict[Gpu, Job] | None = None) -> float:
        """Rate of a running job, with others beside it on some more of its GPUs."""
        rates = []
        for gpu, mate in tenant.mates.items():
            other = floor.tenants[mate].job if mate is not None else (joined or {}).get(gpu)
            both = None if other is None else self.pair(tenant.job.model, other.model)
            rates.append(1.0 if both is None else both[0])
        return self.combine(rates)

    def look_at(self, job: Job, place: Place, floor: Floor) -> Candidate | None:
        """A job in a place; None if some pair must not share."""
        rates = []
        joined: dict[str, dict[Gpu, Job]] = {}
        for gpu, name in zip(place.gpus, place.beside, strict=True):
            if name is None:
                rates.append(1.0)
                continue
            both = self.pair(job.model, floor.tenants[name].job.model)
            if both is None:
                return None
            rates.append(both[0])
            joined.setdefault(name, {})[gpu] = job
        losses = []
        for name, gpus in joined.items():
            tenant = floor.tenants[name]
            losses.append(Loss(tenant.job, self.rate_of(tenant, floor), self.rate_of(tenant, floor, gpus)))
        return Candidate(job, place, self.combine(rates), tuple(losses))

    def _ask(self, model: str, beside: str) -> tuple[float, float] | None:
        said = self._forecaster.rates(model, beside)
        if said is None or self._forecaster.fit_chance(model, beside) < self._least_fit_chance:
            return None
        return (min(1.0, getattr(said[0], self._level)), min(1.0, getattr(said[1], self._level)))


def _mean(rates: list[float]) -> float:
    return sum(rates) / len(rates)
