"""Who shares which GPU in a replay, and how fast each job therefore goes.

A worker runs at the rate that was measured of its job's model beside its neighbour's on that GPU, and at 1
where it has the GPU alone. A job runs at the rate of its slowest worker, because its workers wait for each
other after every step; where samples move between them (LISS), at the mean rate of its workers (Gimbal, TACO
2025, sections 3 and 5; docs/packing.md).

Where shares are modelled, no GPU may be said to do more than was assumed: the rates of the two jobs on it
sum up to at most (1 + most_gain) max(1, sum of their free rates). The model keeps to that worker by worker;
but a host of which only some workers share runs at the mean of all, so that its rate is above that of
those. Then the rider is held back, which costs less work than to hold back the host, and breaks no promise
to it. It is on the safe side: what the host gains on GPUs of its own is taken from its riders.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from domain.cluster import Gpu, Node
from domain.errors import PlanError
from domain.jobs import Job, submit_order
from domain.packing import MAX_SET_JOBS, MAX_WORKERS

Shares = tuple[int, int]


class TrueRates(Protocol):
    """How fast two jobs really run beside each other."""

    def rates(
        self, model_a: str, model_b: str, shares_pct: tuple[int, int] = (100, 100)
    ) -> tuple[float, float] | None:
        """Rates of both under these MPS shares, in (0, 1]; None if the two do not fit on one GPU."""
        ...


class Colocation:
    """The GPUs of a replay that may be shared. Every change is checked against the rules of packing.

    At most two workers on a GPU; in every packed set one widest job, the host, with which all others share
    and they with nobody else; at most five jobs in a set; no pair that does not fit (Gimbal, section 4.1).

    Args:
        nodes: the cluster's nodes.
        rates: of pairs.
        redistributes: whether jobs move samples between their workers.
        most_gain: by how much the rates of two jobs on a GPU may sum to more than one after the other, or
            than under free competition; None: there is no such bound.

    Attributes:
        idle_gpus: GPUs that nobody has.
        redistributes: as it was told.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        rates: TrueRates,
        *,
        redistributes: bool,
        most_gain: float | None = None,
    ) -> None:
        self._rates = rates
        self.redistributes = redistributes
        self._most_gain = most_gain
        self._workers: dict[Gpu, tuple[str, ...]] = {gpu: () for node in nodes for gpu in node.gpus()}
        self.idle_gpus = len(self._workers)
        self._jobs: dict[str, Job] = {}
        self._gpus: dict[str, tuple[Gpu, ...]] = {}
        self._shares: dict[str, dict[Gpu, int]] = {}

    def enter(self, job: Job, gpus: Sequence[Gpu]) -> int:
        """A job takes its GPUs, some of them beside others.

        Returns:
            How many of them were idle.

        Raises:
            PlanError: if a rule is broken.
        """
        if len(gpus) != job.num_gpus:
            raise PlanError(f"job {job.job_id} asks for {job.num_gpus} GPUs and is placed on {len(gpus)}")
        taken = 0
        for gpu in gpus:
            here = self._workers.get(gpu)
            if here is None:
                raise PlanError(f"job {job.job_id} is placed on {gpu.node}/{gpu.index}, which is not there")
            if len(here) >= MAX_WORKERS:
                raise PlanError(f"job {job.job_id} would be the third on {gpu.node}/{gpu.index}")
            taken += not here
            self._workers[gpu] = (*here, job.job_id)
        self.idle_gpus -= taken
        self._jobs[job.job_id] = job
        self._gpus[job.job_id] = tuple(gpus)
        self._require_star(job)
        return taken

    def leave(self, job_id: str) -> int:
        """A job leaves; those beside it have their GPUs alone, uncapped.

        Returns:
            How many of its GPUs are idle now.
        """
        freed = 0
        for gpu in self._gpus.pop(job_id):
            here = tuple(one for one in self._workers[gpu] if one != job_id)
            self._workers[gpu] = here
            freed += not here
            for one in here:
                self._shares.get(one, {}).pop(gpu, None)
        self.idle_gpus += freed
        del self._jobs[job_id]
        self._shares.pop(job_id, None)
        return freed

    def neighbours(self, job_id: str) -> list[str]:
        """Jobs that share a GPU with a job, in the order of its GPUs."""
        here = (one for gpu in self._gpus[job_id] for one in self._workers[gpu] if one != job_id)
        return list(dict.fromkeys(here))

    def runs(self, job_id: str) -> bool:
        """Whether a job is here."""
        return job_id in self._gpus

    def gpus_of(self, job_id: str) -> tuple[Gpu, ...]:
        """Where a job runs."""
        return self._gpus[job_id]

    def others_on(self, job_id: str) -> list[str | None]:
        """Who shares each of a job's GPUs, None where it has it alone."""
        return [
            next((one for one in self._workers[gpu] if one != job_id), None) for gpu in self._gpus[job_id]
        ]

    def set_shares(self, job_id: str, shares_pct: Iterable[int]) -> None:
        """Cap the workers of a job, one share for each of its GPUs, where it has a neighbour."""
        gpus = self._gpus[job_id]
        shares = tuple(shares_pct)
        if len(shares) != len(gpus):
            raise PlanError(f"job {job_id} runs on {len(gpus)} GPUs and is given {len(shares)} shares")
        self._shares[job_id] = {
            gpu: share
            for gpu, share in zip(gpus, shares, strict=True)
            if share < 100 and len(self._workers[gpu]) > 1
        }

    def rate(self, job_id: str) -> float:
        """Work that a job does per second relative to running alone."""
        rate = self._unbounded(job_id)
        if self._most_gain is None or not self.redistributes:
            return rate
        host = self.host_of(job_id)
        return rate if host == job_id else max(_LOWEST_RATE, min(rate, self._room(job_id, host)))

    def worker_rates(self, job_id: str) -> list[float]:
        """Rate of each of a job's workers, were it not to wait for the others."""
        found = []
        for gpu in self._gpus[job_id]:
            other = next((one for one in self._workers[gpu] if one != job_id), None)
            found.append(1.0 if other is None else self._pair_rate(job_id, other, gpu))
        return found

    def job(self, job_id: str) -> Job:
        """A job that is here."""
        return self._jobs[job_id]

    def host_of(self, job_id: str) -> str:
        """Host of a job's packed set: the widest; of two that are as wide the one that was submitted first.

        A job that shares with nobody is its own.
        """
        beside = self.neighbours(job_id)
        if len(beside) != 1:
            return job_id
        other = beside[0]
        if len(self.neighbours(other)) > 1:
            return other
        return min(
            (job_id, other), key=lambda one: (-self._jobs[one].num_gpus, submit_order(self._jobs[one]))
        )

    def packed_set(self, job_id: str) -> list[str]:
        """The host of a job's packed set, then its riders in the order of the host's GPUs."""
        host = self.host_of(job_id)
        return [host, *self.neighbours(host)]

    def _unbounded(self, job_id: str) -> float:
        rates = self.worker_rates(job_id)
        return sum(rates) / len(rates) if self.redistributes else min(rates)

    def _room(self, rider: str, host: str) -> float:
        """What a rider's GPUs leave for it beside its host; measured pairs may be above the bound."""
        gain = 1.0 + (self._most_gain or 0.0)
        bounds: list[float] = []
        for gpu, other in zip(self._gpus[rider], self.others_on(rider), strict=True):
            if other is not None:
                free = sum(self._pair(rider, host, (100, 100)))
                here = sum(self._pair(rider, host, (self._share(rider, gpu), self._share(host, gpu))))
                bounds.append(max(gain * max(1.0, free), here))
        return min(bounds) - self._unbounded(host)

    def _pair_rate(self, job_id: str, other: str, gpu: Gpu) -> float:
        return self._pair(job_id, other, (self._share(job_id, gpu), self._share(other, gpu)))[0]

    def _pair(self, job_id: str, other: str, shares: Shares) -> tuple[float, float]:
        both = self._rates.rates(self._model(job_id), self._model(other), shares)
        if both is None:
            raise PlanError(f"jobs {job_id} and {other} do not fit on one GPU")
        return min(both[0], 1.0), min(both[1], 1.0)

    def _share(self, job_id: str, gpu: Gpu) -> int:
        return self._shares.get(job_id, _NONE).get(gpu, 100)

    def _model(self, job_id: str) -> str:
        model = self._jobs[job_id].model
        if model is None:
            raise PlanError(f"job {job_id} is to share a GPU, but what it trains is not known")
        return model

    def _require_star(self, job: Job) -> None:
        beside = self.neighbours(job.job_id)
        if len(beside) + 1 > MAX_SET_JOBS:
            raise PlanError(f"job {job.job_id} would share with {len(beside)} jobs: more than five in a set")
        for other in beside:
            theirs = self.neighbours(other)
            if len(theirs) + 1 > MAX_SET_JOBS:
                raise PlanError(f"job {other} would share with {len(theirs)} jobs: more than five in a set")
            if len(beside) > 1 and len(theirs) > 1:
                raise PlanError(f"jobs {job.job_id} and {other} would each share with two others (star rule)")
            hub, leaf = (job, self._jobs[other]) if len(beside) > 1 else (self._jobs[other], job)
            if max(len(beside), len(theirs)) > 1 and hub.num_gpus < leaf.num_gpus:
                raise PlanError(f"job {hub.job_id} would host job {leaf.job_id}, which is wider (star rule)")
            self._pair_rate(job.job_id, other, _common(self._gpus[job.job_id], self._gpus[other]))


def _common(ones: Iterable[Gpu], others: Iterable[Gpu]) -> Gpu:
    there = set(others)
    return next(gpu for gpu in ones if gpu in there)


_LOWEST_RATE: Final = 0.001
"""A job never stands still."""

_NONE: Mapping[Gpu, int] = {}
