"""What a replay needs where two jobs may share a GPU: measured pairs, forecasts made of them, the pace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from data.pairs import PairTable
from domain.cluster import Node
from domain.errors import SettingError
from domain.interference import InterferenceForecaster
from models.interference.measured import MeasuredRates
from simulator.colocation import Colocation
from simulator.pace import Pace
from simulator.workload import Workload
from solver.packing.share_model import ShareModel
from solver.policies.base import PolicySpec


class PairRates:
    """True rates of a replay: as measured under free competition, by a model under MPS shares.

    Args:
        table: of measured pairs.
        model: of rates under shares.

    Attributes:
        model: the same.
    """

    def __init__(self, table: PairTable, model: ShareModel) -> None:
        self._table = table
        self.model: Final = model
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
        both = self.rates(model, beside)
        return None if both is None else both[0]

    def _work_out(
        self, model_a: str, model_b: str, shares_pct: tuple[int, int]
    ) -> tuple[float, float] | None:
        rate_a, rate_b = self._table.rate(model_a, model_b), self._table.rate(model_b, model_a)
        if rate_a is None or rate_b is None:
            return None
        free = (min(rate_a, 1.0), min(rate_b, 1.0))
        return free if shares_pct == (100, 100) else self.model.rates(free, shares_pct)


@dataclass(frozen=True)
class SharedGpus:
    """How fast two jobs run on one GPU: the truth of a replay, and what a policy is told beforehand."""

    truth: PairRates
    forecaster: InterferenceForecaster


def pairs_for(
    policy: str, spec: PolicySpec, settings: Any, workload: Workload, pairs: PairTable | None
) -> SharedGpus | None:
    """What a policy that packs is given; None where nobody shares.

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
    return SharedGpus(PairRates(pairs, ShareModel()), MeasuredRates(pairs))


def pace_of(nodes: Sequence[Node], shared: SharedGpus, settings: Any) -> Pace:
    """The pace of a replay, as the settings of its policy say."""
    floor = Colocation(nodes, shared.truth, redistributes=getattr(settings, "liss", False))
    return Pace(floor)
