"""What a place is worth: the rates of all whom it concerns, before and after."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from domain.cluster import Gpu
from domain.interference import InterferenceForecaster
from domain.jobs import Job
from solver.packing.floor import Floor, Place, Tenant
from solver.packing.share_model import ShareModel
from solver.packing.shared_rates import Measured, SharedRates

Joined = Mapping[Gpu, tuple[Job, tuple[int, int]]]
"""Who would join a job on which of its GPUs, and the shares there: the job's own, and the newcomer's."""

_LEAST_RATE: Final = 1e-3


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
        setting: MPS shares where it shares, its own and that of the others, per cent.
    """

    job: Job
    place: Place
    rate: float
    losses: tuple[Loss, ...] = ()
    setting: tuple[int, int] = (100, 100)

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
        shares: says rates under MPS shares; None: nobody is capped.
        under_shares: such rates that were measured, which stand before what `shares` says.
    """

    def __init__(
        self,
        forecaster: InterferenceForecaster,
        *,
        redistributes: bool,
        least_fit_chance: float = 0.95,
        level: str = "median",
        shares: ShareModel | None = None,
        under_shares: Measured | None = None,
    ) -> None:
        self._forecaster = forecaster
        self._least_fit_chance = least_fit_chance
        self._level = level
        self._shared = SharedRates(self.pair, under_shares, shares)
        self._most_gain = None if shares is None else shares.most_gain
        self._known: dict[tuple[str, str, tuple[int, int]], tuple[float, float] | None] = {}
        self.combine: Callable[[list[float]], float] = _mean if redistributes else min

    def pair(
        self, model: str | None, beside: str | None, shares_pct: tuple[int, int] = (100, 100)
    ) -> tuple[float, float] | None:
        """Rates of both at these shares; None if they must not share."""
        if model is None or beside is None:
            return None
        key = (model, beside, shares_pct)
        if key not in self._known:
            self._known[key] = self._ask(*key)
        return self._known[key]

    def rate_of(self, tenant: Tenant, floor: Floor, joined: Joined | None = None) -> float:
        """Rate of a running job, with others beside it on some more of its GPUs."""
        rates = []
        for gpu, mate in tenant.mates.items():
            if mate is not None:
                other, shares = floor.tenants[mate].job, tenant.shares.get(gpu, (100, 100))
            elif joined is not None and gpu in joined:
                other, shares = joined[gpu]
            else:
                rates.append(1.0)
                continue
            both = self.pair(tenant.job.model, other.model, shares)
            rates.append(1.0 if both is None else both[0])
        return self.combine(rates)

    def look_at(
        self, job: Job, place: Place, floor: Floor, setting: tuple[int, int] = (100, 100)
    ) -> Candidate | None:
        """A job in a place, at its own and its mates' share there; None if some pair must not share."""
        rates, bounds = [], []
        joined: dict[str, dict[Gpu, tuple[Job, tuple[int, int]]]] = {}
        for gpu, name in zip(place.gpus, place.beside, strict=True):
            if name is None:
                rates.append(1.0)
                continue
            other = floor.tenants[name].job
            both = self.pair(job.model, other.model, setting)
            if both is None:
                return None
            rates.append(both[0])
            bounds.append((name, max(self._bound(job, other), sum(both))))
            joined.setdefault(name, {})[gpu] = (job, (setting[1], setting[0]))
        losses = []
        for name, gpus in joined.items():
            tenant = floor.tenants[name]
            losses.append(Loss(tenant.job, self.rate_of(tenant, floor), self.rate_of(tenant, floor, gpus)))
        rate = self.combine(rates)
        if self._most_gain is not None:
            after = {loss.job.job_id: loss.after for loss in losses}
            rate = max(_LEAST_RATE, min([rate, *(bound - after[name] for name, bound in bounds)]))
        return Candidate(job, place, rate, tuple(losses), setting)

    def _bound(self, job: Job, other: Job) -> float:
        """What two jobs on a GPU are believed to do together at most, where that was not measured."""
        free = self.pair(job.model, other.model)
        return (1.0 + (self._most_gain or 0.0)) * max(1.0, sum(free or (1.0,)))

    def _ask(self, model: str, beside: str, shares_pct: tuple[int, int]) -> tuple[float, float] | None:
        if shares_pct != (100, 100):
            return self._shared.rates(model, beside, shares_pct)
        said = self._forecaster.rates(model, beside)
        if said is None or self._forecaster.fit_chance(model, beside) < self._least_fit_chance:
            return None
        return (min(1.0, getattr(said[0], self._level)), min(1.0, getattr(said[1], self._level)))


def _mean(rates: list[float]) -> float:
    return sum(rates) / len(rates)
