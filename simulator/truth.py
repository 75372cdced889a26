"""The clairvoyant forecasters. They live with the simulator, the only one who holds the truth."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.forecasts import LIFE_EDGES_S, Burst
from domain.jobs import Job, JobOutcome
from domain.timegrid import LOOK_S, default_grid

FloatArray = NDArray[np.float64]

_KEPT_S: Final = 300.0


class TrueLives:
    """Every level of a job's life is how long it really runs."""

    is_clairvoyant: Final = True

    def __init__(self, outcomes: Mapping[str, JobOutcome]) -> None:
        self._outcomes = outcomes
        self.was_asked = False

    def quantile_s(self, job: Job, level: float) -> float:  # noqa: ARG002 - all levels are the truth
        """How long the job runs, seconds."""
        self.was_asked = True
        return self._outcomes[job.job_id].duration_s

    def survival(self, job: Job) -> tuple[float, ...]:
        """1 up to how long the job runs, 0 beyond."""
        duration_s = self.quantile_s(job, 0.5)
        return tuple(float(edge < duration_s) for edge in LIFE_EDGES_S)


class TrueDemand:
    """Every arrival as it will come, in one scenario.

    Args:
        jobs: all jobs of the replay.
        outcomes: what becomes of them.
        pools: names, in the order of the quotas.
    """

    is_clairvoyant: Final = True

    def __init__(self, jobs: Sequence[Job], outcomes: Mapping[str, JobOutcome], pools: Sequence[str]) -> None:
        self.was_asked = False
        self._pools = tuple(pools)
        self._edges_s = np.array(default_grid().edges_s)
        self._seen: tuple[float, FloatArray, FloatArray] | None = None
        self._submit_s: dict[str, FloatArray] = {}
        self._width_sums: dict[str, FloatArray] = {}
        self._ends_s: dict[str, FloatArray] = {}
        for pool in self._pools:
            here = sorted((job for job in jobs if job.pool == pool), key=lambda job: job.submit_s)
            submit_s = np.array([job.submit_s for job in here])
            self._submit_s[pool] = submit_s
            self._width_sums[pool] = np.concatenate([[0.0], np.cumsum([job.num_gpus for job in here])])
            self._ends_s[pool] = submit_s + [outcomes[job.job_id].duration_s for job in here]

    def new_load_gpus(self, window_s: float, now_s: float) -> dict[str, float]:
        """GPUs that jobs arriving in (now, now + window] ask for, by pool."""
        self.was_asked = True
        load = {}
        for pool in self._pools:
            first, last = np.searchsorted(self._submit_s[pool], (now_s, now_s + window_s), side="right")
            load[pool] = float(self._width_sums[pool][last] - self._width_sums[pool][first])
        return load

    def peaks(self, now_s: float) -> FloatArray:
        """GPUs held by jobs that will arrive, if each started at once; (1, pools, cells).

        The peak in the first `LOOK_S` of each cell. Looked up anew every 5 min of the replay.
        """
        return self._ahead(now_s)[1]

    def arrivals(self, now_s: float) -> FloatArray:
        """Number of jobs that will arrive in each cell: (1, pools, cells)."""
        return self._ahead(now_s)[2]

    def fresh(self, now_s: float) -> tuple[FloatArray, FloatArray]:
        """The same again: there is but one truth."""
        return self.peaks(now_s), self.arrivals(now_s)

    def bursts(self, now_s: float) -> tuple[Burst, ...]:  # noqa: ARG002
        """None: whatever comes is in the one scenario."""
        return ()

    def _ahead(self, now_s: float) -> tuple[float, FloatArray, FloatArray]:
        self.was_asked = True
        if self._seen is None or not 0.0 <= now_s - self._seen[0] < _KEPT_S:
            edges_s = now_s + self._edges_s
            peaks = np.array([[self._pool_peaks(pool, edges_s) for pool in self._pools]])
            arriving = [np.diff(np.searchsorted(self._submit_s[pool], edges_s)) for pool in self._pools]
            self._seen = (now_s, peaks, np.array([arriving], dtype=float))
        return self._seen

    def _pool_peaks(self, pool: str, edges_s: FloatArray) -> FloatArray:
        first, last = np.searchsorted(self._submit_s[pool], edges_s[[0, -1]], side="right")
        width = np.diff(self._width_sums[pool])[first:last]
        at_s = np.concatenate([self._submit_s[pool][first:last], self._ends_s[pool][first:last]])
        change = np.concatenate([width, -width])
        order = np.lexsort((change, at_s))
        held = np.concatenate([[0.0], np.cumsum(change[order])])
        begins = np.searchsorted(at_s[order], edges_s[:-1])
        ends = np.searchsorted(at_s[order], edges_s[:-1] + np.minimum(np.diff(edges_s), LOOK_S))
        return np.array([held[a : b + 1].max() for a, b in zip(begins, ends, strict=True)])
