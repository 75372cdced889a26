"""What a replay needs where two jobs may share a GPU: measured pairs, the forecasts made of them, the pace.

Settings of a policy that are read here: `liss` (samples move between workers), `lgrr` (shares are
calibrated as jobs run, `simulator.calibrated`), and for the latter `objective` and `sigma`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from data.pairs import PairTable
from domain.cluster import Node
from domain.errors import SettingError
from domain.forecasts import LifetimeForecaster
from domain.interference import InterferenceForecaster
from models.interference.measured import MeasuredRates
from simulator.calibrated import CalibratedPace, Coordination
from simulator.colocation import Colocation
from simulator.pace import Pace
from simulator.workload import Workload
from solver.packing.share_model import ShareModel
from solver.packing.shared_rates import Measured, SharedRates
from solver.policies.base import PolicySpec


class PairRates:
    """True rates of a replay: as measured; under MPS shares that were not measured, as modelled.

    Args:
        table: of measured pairs.
        model: of rates under shares.

    Attributes:
        model: the same.
    """

    def __init__(self, table: PairTable, model: ShareModel) -> None:
        self._table = table
        self.model: Final = model
        self._shared = SharedRates(self._free, table.under_shares, model)
        self._known: dict[tuple[str, str, tuple[int, int]], tuple[float, float] | None] = {}

    def rates(
        self, model_a: str, model_b: str, shares_pct: tuple[int, int] = (100, 100)
    ) -> tuple[float, float] | None:
        """Rates of both, at most 1; None if the two do not fit on one GPU."""
        key = (model_a, model_b, shares_pct)
        if key not in self._known:
            self._known[key] = self._work_out(*key)
        return self._known[key]

    def rate(self, model: str, beside: str) -> float | None:
        """Rate of a model beside another under free competition, at most 1; None if the two do not fit."""
        both = self._free(model, beside)
        return None if both is None else both[0]

    def utilisation(self, model: str | None) -> float | None:
        """How much a model uses a GPU: the mean share of its speed that it costs others beside it.

        A stand-in for what monitors measure and tables of pairs do not have; None for a model in no pair.
        """
        lost = [] if model is None else [1.0 - min(1.0, rate) for rate in self._beside(model)]
        return sum(lost) / len(lost) if lost else None

    def _beside(self, model: str) -> list[float]:
        rates = (self._table.rate(other, model) for other in self._table.models)
        return [rate for rate in rates if rate is not None]

    def _work_out(
        self, model_a: str, model_b: str, shares_pct: tuple[int, int]
    ) -> tuple[float, float] | None:
        both = self._shared.rates(model_a, model_b, shares_pct)
        return both and (min(both[0], 1.0), min(both[1], 1.0))

    def _free(self, model_a: str, model_b: str) -> tuple[float, float] | None:
        rate_a, rate_b = self._table.rate(model_a, model_b), self._table.rate(model_b, model_a)
        return None if rate_a is None or rate_b is None else (min(rate_a, 1.0), min(rate_b, 1.0))


@dataclass(frozen=True)
class SharedGpus:
    """How fast two jobs run on one GPU.

    Attributes:
        truth: of a replay.
        forecaster: what a policy is told beforehand.
        under_shares: what it is told was measured under MPS shares.
    """

    truth: PairRates
    forecaster: InterferenceForecaster
    under_shares: Measured = field(default_factory=dict)


def pairs_for(
    policy: str,
    spec: PolicySpec,
    settings: Any,
    workload: Workload,
    pairs: PairTable | None,
    share_model: ShareModel | None = None,
) -> SharedGpus | None:
    """What a policy that packs is given; None where nobody shares.

    `share_model` is that of rates under MPS shares that were not measured; None: with its defaults.

    Raises:
        SettingError: if it needs pairs or nodes that are not there, or a job's model is in no pair.
    """
    packs = spec.packs or getattr(settings, "packing", False)
    if not packs:
        return None
    if pairs is None or not workload.cluster.nodes:
        lacking = (
            "measured pairs (--pairs)" if workload.cluster.nodes else "nodes (--nodes) and pairs (--pairs)"
        )
        raise SettingError(f"policy {policy} lets jobs share GPUs: give it {lacking}")
    known = set(pairs.models)
    for job in workload.jobs:
        if job.model not in known:
            found = "no model" if job.model is None else f"model {job.model!r}, of which no pair was measured"
            raise SettingError(
                f"policy {policy} lets jobs share GPUs, and job {job.job_id} has {found}: jobs need a column "
                "model with names of the pairs"
            )
    return SharedGpus(PairRates(pairs, share_model or ShareModel()), MeasuredRates(pairs), pairs.under_shares)


def pace_of(nodes: Sequence[Node], shared: SharedGpus, settings: Any, lives: LifetimeForecaster) -> Pace:
    """The pace of a replay, as the settings of its policy say.

    Args:
        nodes: of the cluster.
        shared: what is known of pairs.
        settings: of the policy.
        lives: what the policy is told of lives.
    """
    truth, redistributes = shared.truth, getattr(settings, "liss", False)
    if not getattr(settings, "lgrr", False):
        return Pace(Colocation(nodes, truth, redistributes=redistributes))
    floor = Colocation(nodes, truth, redistributes=redistributes, most_gain=truth.model.most_gain)
    how = Coordination(
        lives,
        objective=str(getattr(settings, "objective", "jct")),
        sigma=getattr(settings, "sigma", 0.1),
        utilisation=truth.utilisation,
        searches=getattr(settings, "search", True),
    )
    return CalibratedPace(floor, how)
