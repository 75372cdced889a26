"""Time shares of jobs and of pairs of jobs that let the last job end soonest (Gavel, OSDI 2020, section 4).

A share x of a job or a pair means: of the time to come it runs for so much, and has its GPUs alone then. The
linear program of the makespan policy with space sharing, for GPUs of one type:

    maximise z, that is minimise the latest end 1 / z, so that for every job m
        sum over its shares of rate x share >= z x (work left of m),
        sum over its shares of share <= 1,
    and sum over all shares of width x share <= number of GPUs.

Among the shares that reach the best z, those of most work per second in sum are taken. A pair whose rates add
up to no more than 1 brings nothing over taking turns and is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt
from scipy import sparse

from domain.jobs import Job
from solver.packing.candidates import PairRule

FloatArray = NDArray[np.float64]

LEAST_SHARE: Final = 1e-6
"""Smaller shares are rounding errors of the solver."""

_SLACK: Final = 1e-7
_TIE: Final = 1e-9


class Combination(NamedTuple):
    """A job by itself, or two of equal width on the same GPUs; the one that came first is named first."""

    first: str
    second: str | None = None

    def jobs(self) -> tuple[str, ...]:
        """Its jobs."""
        return (self.first,) if self.second is None else (self.first, self.second)


@dataclass(frozen=True, slots=True)
class Offer:
    """A combination that may be given time.

    Attributes:
        combination: whose.
        num_gpus: it needs.
        rates: of its jobs while it runs.
    """

    combination: Combination
    num_gpus: int
    rates: tuple[float, ...]


def offers(jobs: Sequence[Job], rule: PairRule, most_pairs: int) -> list[Offer]:
    """Every job by itself, and for every job the best pairs with jobs of its width.

    Args:
        jobs: all that have not ended, by (submit, id).
        rule: rates of pairs.
        most_pairs: that each job names, those whose rates add up to most; it may be named by more. Where
            equals are more than that, jobs name different ones.
    """
    found = [Offer(Combination(job.job_id), job.num_gpus, (1.0,)) for job in jobs]
    for width in sorted({job.num_gpus for job in jobs}):
        group = [job for job in jobs if job.num_gpus == width]
        for i, j in _best_pairs(group, rule, most_pairs):
            both = rule.pair(group[i].model, group[j].model)
            if both is not None:
                found.append(Offer(Combination(group[i].job_id, group[j].job_id), width, both))
    return found


def _best_pairs(group: Sequence[Job], rule: PairRule, most_pairs: int) -> list[tuple[int, int]]:
    count = len(group)
    names = list(dict.fromkeys(job.model for job in group))
    sums = np.zeros((len(names), len(names)))
    for a, one in enumerate(names):
        for b, other in enumerate(names):
            both = rule.pair(one, other)
            sums[a, b] = 0.0 if both is None else both[0] + both[1]
    kind = np.array([names.index(job.model) for job in group])
    places = np.arange(count)
    gain = sums[np.ix_(kind, kind)] - _TIE * ((places[None, :] - places[:, None]) % count)
    np.fill_diagonal(gain, 0.0)
    best = np.argsort(-gain, axis=1, kind="stable")[:, :most_pairs]
    named = {(min(i, int(j)), max(i, int(j))) for i in range(count) for j in best[i] if gain[i, j] > 1.0}
    return sorted(named)


def time_shares(
    found: Sequence[Offer], left_s: Mapping[str, float], capacity_gpus: int
) -> dict[Combination, float]:
    """Shares that let the last job end soonest; combinations without one are left out.

    Args:
        found: what may be given time, every job among it.
        left_s: work left of every job, seconds of running alone, above 0.
        capacity_gpus: GPUs there are.

    Raises:
        RuntimeError: if the solver fails; the program has a solution whatever is asked.
    """
    if not found:
        return {}
    names = list(dict.fromkeys(name for offer in found for name in offer.combination.jobs()))
    longest_s = max(left_s[name] for name in names)
    left = np.array([left_s[name] / longest_s for name in names])
    program = _Program(found, names, left, capacity_gpus)
    best = program.solve(least=0.0)
    shares = program.solve(least=float(best[-1]) * (1.0 - _SLACK))[:-1]
    return {
        offer.combination: float(min(share, 1.0))
        for offer, share in zip(found, shares, strict=True)
        if share > LEAST_SHARE
    }


class _Program:
    """The linear program: one column for each offer, the last one z."""

    def __init__(
        self, found: Sequence[Offer], names: Sequence[str], left: FloatArray, capacity_gpus: int
    ) -> None:
        place = {name: k for k, name in enumerate(names)}
        rows, columns, rates = [], [], []
        for k, offer in enumerate(found):
            for name, rate in zip(offer.combination.jobs(), offer.rates, strict=True):
                rows.append(place[name])
                columns.append(k)
                rates.append(rate)
        jobs, size = len(names), len(found)
        self._work = sparse.csr_array((rates, (rows, columns)), shape=(jobs, size))
        belongs = sparse.csr_array((np.ones(len(rates)), (rows, columns)), shape=(jobs, size))
        self._widths = np.array([float(offer.num_gpus) for offer in found])
        progress = sparse.hstack([self._work, sparse.csr_array(-left[:, None])])
        shares = sparse.hstack([belongs, sparse.csr_array((jobs, 1))])
        room = sparse.csr_array(np.append(self._widths, 0.0)[None, :])
        self._matrix = sparse.csr_array(sparse.vstack([progress, shares, room]))
        self._lower = np.concatenate([np.zeros(jobs), np.full(jobs + 1, -np.inf)])
        self._upper = np.concatenate([np.full(jobs, np.inf), np.ones(jobs), [float(capacity_gpus)]])

    def solve(self, *, least: float) -> FloatArray:
        """Best point; with `least` above 0 the one of most work of those whose z is at least that."""
        size = self._matrix.shape[1]
        aim = np.zeros(size)
        if least > 0.0:
            aim[:-1] = self._widths * self._work.sum(axis=0)
        else:
            aim[-1] = 1.0
        lowest = np.zeros(size)
        lowest[-1] = least
        result = mathopt.solve(self._message(aim, lowest), mathopt.SolverType.GLOP)
        if result.termination.reason != mathopt.TerminationReason.OPTIMAL:
            raise RuntimeError(f"time shares: the solver says {result.termination}")
        values = result.variable_values()
        point = np.zeros(size)
        for variable, value in values.items():
            point[variable.id] = value
        return point

    def _message(self, aim: FloatArray, lowest: FloatArray) -> mathopt.Model:
        matrix, size = self._matrix, self._matrix.shape[1]
        proto = model_pb2.ModelProto()
        proto.variables.ids.extend(range(size))
        proto.variables.lower_bounds.extend(lowest.tolist())
        proto.variables.upper_bounds.extend([*[1.0] * (size - 1), np.inf])
        proto.variables.integers.extend([False] * size)
        proto.objective.maximize = True
        used = np.flatnonzero(aim)
        proto.objective.linear_coefficients.ids.extend(used.tolist())
        proto.objective.linear_coefficients.values.extend(aim[used].tolist())
        proto.linear_constraints.ids.extend(range(matrix.shape[0]))
        proto.linear_constraints.lower_bounds.extend(self._lower.tolist())
        proto.linear_constraints.upper_bounds.extend(self._upper.tolist())
        entries = matrix.tocoo()
        order = np.lexsort((entries.col, entries.row))
        proto.linear_constraint_matrix.row_ids.extend(entries.row[order].tolist())
        proto.linear_constraint_matrix.column_ids.extend(entries.col[order].tolist())
        proto.linear_constraint_matrix.coefficients.extend(entries.data[order].tolist())
        return mathopt.Model.from_model_proto(proto)
