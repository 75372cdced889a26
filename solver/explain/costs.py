"""What a guest would cost: by whom and when, and what would make it cheap enough.

The charge is told apart by cell, and in it what the scenarios hold from the bursts of each pool, which are
too rare for them (`solver.lookahead`). The largest part says for whom GPUs are kept, and until when.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from domain.jobs import Job
from solver.explain.view import FloatArray, LendingView
from solver.explain.words import Change, Lever, Waiting, Why, apart, life_text
from solver.lookahead import ChargeParts, Trial

_PROBABLY: Final = 0.5
_ROUNDING_VARIANCE: Final = 0.25
"""Of the need, GPUs squared: it comes in whole GPUs (`solver.lookahead`)."""


class Part(NamedTuple):
    """The largest part of a charge.

    Attributes:
        cell: of the grid, in which it arises.
        pool: rank of the pool whose bursts it is; None: it is what the scenarios hold.
        share: of the charge, in [0, 1].
    """

    cell: int
    pool: int | None
    share: float


class Costs:
    """What a guest costs that must run to its end.

    Args:
        view: the policy.
        job: the guest.

    Attributes:
        trial: the guest as it is.
        charge: jobs it is expected to slow.
        part: the largest part of that.
        still_runs: chance that it still runs when the cell of that part begins.
    """

    def __init__(self, view: LendingView, job: Job) -> None:
        self._view, self._job = view, job
        self.trial = self._try(view.fresh[job.job_id])
        self.charge = self.trial.charge
        self._parts = view.look.parts_of(self.trial)
        self.part = _largest(self._parts, view.ahead.bursts.pool, len(view.pools))
        self.still_runs = float(view.fresh[job.job_id][self.part.cell])

    def changes(self) -> tuple[Change, ...]:
        """A shorter life, or a larger allowance."""
        allowed_jobs = self._view.terms.allowed_jobs
        cell = longest(lambda fresh: self._try(fresh).charge <= allowed_jobs, self._view, self._job)
        text = f"starts at once if one early start might slow {self.charge:.3g} jobs"
        return (*shorter(self._view, cell), Change(Lever.LARGER_ALLOWANCE, self.charge, text))

    def for_whom(self) -> dict[str, float | str]:
        """The evidence of the largest part: pool, cell, and what would be missing there."""
        view, cell = self._view, self.part.cell
        found: dict[str, float | str] = {
            "cell_begins_s": view.grid.edges_s[cell],
            "cell_ends_s": view.grid.edges_s[cell + 1],
            "share_of_charge": self.part.share,
            "still_runs": self.still_runs,
            "charge_jobs": self.charge,
            "allowed_jobs": view.terms.allowed_jobs,
        }
        more = self._of_scenarios(cell) if self.part.pool is None else self._of_bursts(cell, self.part.pool)
        return more | found

    def refusal(self) -> Waiting:
        """That it is too dear: before it would be done, or after, should it live on."""
        evidence = self.for_whom()
        allowed, charge = apart(self._view.terms.allowed_jobs, self.charge)
        costs = f"it may slow {charge} jobs ({self.part.share:.0%} of that there), {allowed} are allowed"
        is_burst, runs_on = self.part.pool is not None, self.still_runs >= _PROBABLY
        if runs_on:
            why = Why.HELD_FOR_BURST if is_burst else Why.HELD_FOR_POOL
            ends = life_text(float(evidence["cell_ends_s"]))
            text = f"held until {ends} from now {self.need_text(evidence)}: {costs}"
        else:
            why = Why.WOULD_OVERRUN
            begins = life_text(float(evidence["cell_begins_s"]))
            text = (
                f"it would overrun: with a chance of {self.still_runs:.2g} it runs for more than {begins}, "
                f"held from then {self.need_text(evidence)}: {costs}"
            )
        return Waiting(self._job, why, text, evidence, self.changes())

    def need_text(self, evidence: dict[str, float | str]) -> str:
        """For whom, and what would be missing; the end of a sentence."""
        pool, missing = evidence["pool"], float(evidence["missing_gpus"])
        if self.part.pool is not None:
            return (
                f"for a burst of pool {pool} that may come, though it is too rare for the scenarios "
                f"(such as {float(evidence['burst_gpus']):.3g} GPUs; {missing:.2g} would be missing then)"
            )
        short = 1.0 - float(evidence["level"])
        return (
            f"for pool {pool} (with this job GPUs would be missing with a chance of {short:.2g}, "
            f"{missing:.2g} in the mean)"
        )

    def _of_scenarios(self, cell: int) -> dict[str, float | str]:
        trial = self.trial
        pool, growth = _who_needs(self._view, cell, self._parts.added_gpus[:, cell])
        spread = np.sqrt(trial.variance[cell] + _ROUNDING_VARIANCE)
        over = trial.need[:, cell] - float(self._view.ahead.quota_gpus.sum())
        return {
            "pool": pool,
            "pool_needs_gpus": growth,
            "missing_gpus": float(trial.missing[:, cell].mean()),
            "level": float(ndtr(-over / spread).mean()),
        }

    def _of_bursts(self, cell: int, pool: int) -> dict[str, float | str]:
        bursts = self._view.ahead.bursts
        mine = np.flatnonzero(bursts.pool == pool)
        first = int(mine[np.argmax(self._parts.burst_jobs[mine, cell])])
        return {
            "pool": self._view.pools[pool],
            "burst_gpus": float(bursts.num_gpus[first]),
            "burst_jobs": float(bursts.num_jobs[first]),
            "bursts_reckoned": float(bursts.chance[mine, cell].sum()),
            "missing_gpus": float(self.trial.rare_missing[first, cell]),
        }

    def _try(self, fresh: FloatArray) -> Trial:
        view, job = self._view, self._job
        return view.look.try_guest(view.pools.index(job.pool), job.num_gpus, fresh, view.cohort_of(job))


def longest(does: Callable[[FloatArray], bool], view: LendingView, job: Job) -> int:
    """The latest cell by whose beginning the job has to have ended for a condition to hold; 0: none."""
    fresh = view.fresh[job.job_id]
    cells = range(len(view.grid) - 1, 0, -1)
    return next((cell for cell in cells if does(_ending_by(fresh, cell))), 0)


def shorter(view: LendingView, cell: int) -> list[Change]:
    """That it would start if it had surely ended when a cell begins; none for the first cell."""
    if cell == 0:
        return []
    life_s = view.grid.edges_s[cell]
    text = f"starts at once if it were sure to end within {life_text(life_s)}"
    return [Change(Lever.SHORTER_LIFE, life_s, text)]


def _ending_by(fresh: FloatArray, cell: int) -> FloatArray:
    """The same chances of running, but surely ended when a cell begins."""
    cut = fresh.copy()
    cut[cell:] = 0.0
    return cut


def _largest(parts: ChargeParts, burst_pool: NDArray[np.intp], num_pools: int) -> Part:
    """Of what the scenarios hold and of the bursts of each pool, cell by cell."""
    by_pool = np.zeros((num_pools, parts.usual_jobs.size))
    np.add.at(by_pool, burst_pool, parts.burst_jobs)
    rows = np.vstack([parts.usual_jobs, by_pool])
    row, cell = divmod(int(rows.argmax()), rows.shape[1])
    total = float(rows.sum())
    share = float(rows[row, cell]) / total if total > 0.0 else 0.0
    return Part(cell, row - 1 if row else None, share)


def _who_needs(view: LendingView, cell: int, added: FloatArray) -> tuple[str, float]:
    """The pool whose lane grows most in a cell, in the scenarios that are charged, and by how much.

    A lane grows by the jobs that wait in it and by those that are expected to arrive, as far as its quota
    goes.
    """
    ahead = view.ahead
    taken = ahead.own + ahead.riding
    room = np.maximum(ahead.quota_gpus - taken[:, cell], 0.0)
    waiting = np.minimum((ahead.backlog + ahead.requeueable)[:, cell], room)
    left = np.maximum(room - waiting - ahead.guest[:, cell], 0.0)
    arriving = np.minimum(np.broadcast_to(ahead.peaks[:, :, cell], (added.size, room.size)), left)
    weight = added / added.sum() if added.sum() > 0 else np.full(added.size, 1.0 / added.size)
    growth = waiting + weight @ arriving
    rank = int(np.argmax(growth))
    return view.pools[rank], float(growth[rank])
