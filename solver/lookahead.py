"""Need ahead against GPUs there are, cell by cell and scenario by scenario: the risk of lending.

For each cell of the grid and each scenario, with own width o, guests' width g, waiting width b and the peak a
of those still to arrive, pool by pool,

    need = o + g + min(b, quota - o) + min(a, quota - o - b - g)

(each bracket at least 0; of each quota, what its own jobs take that ride with others is left out too).
Guests count where they are until they end. Jobs that wait are taken to stand
before the guests in line, those to come behind them, so conversions are not counted twice. Widths o and b
are means of what is still alive when the cell begins, given its age. Of g, siblings of a burst share their
fate (`solver.lives.Fates`), scenario by scenario; the rest of its spread is integrated as a normal one over
the sum, because what matters is the quantile of the sum and not the sum of quantiles. (Own jobs that live
longer keep out others of their pool, so their spread is none of the need's.)

A lane start that waits slows nobody while its pool is ahead of the reference (`solver.tolerance`), and GPUs
that come free go to the most urgent first. So b and a count by their *urgency*, the chance that a delay in
the cell outlasts the tolerance. What is missing is max(0, need - capacity), and each missing GPU slows

    (jobs to come x urgency x max(1, a / room left) + jobs that wait x urgency) / urgent GPUs due

of them: where a burst is wider than its lane, all of its jobs stand in one line, and who holds up the first
holds up the last. Missing and slowed are multiplied scenario by scenario: GPUs are missing when a burst
arrives, so the mean of the product is far more than the product of the means.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from solver.lending.batch import rises
from solver.lending.curves import RiskLines, risk_lines
from solver.lives import Alive, Fates, fated

FloatArray = NDArray[np.float64]

_ROUNDING_SD_GPUS: Final = 0.5
_DENSITY_AT_0: Final = 1.0 / math.sqrt(2.0 * math.pi)
_NOWHERE_NEAR: Final = 8.0
"""So many spreads below the capacity, less than 1e-16 GPUs are missing."""
_AT_A_TIME: Final = 32
"""Guests charged together: more are no faster and take more memory."""


class Lane(NamedTuple):
    """Lane starts of one pool, GPUs; (scenarios, cells) or what broadcasts to it.

    Attributes:
        due: of jobs that wait.
        arriving: of jobs still to come.
        left: room that the former leave to the latter.
    """

    due: FloatArray
    arriving: FloatArray
    left: FloatArray


class Stakes(NamedTuple):
    """What it means to let lane starts wait.

    Attributes:
        backlog_urgency, arrivals_urgency: (pools, cells) chance that a delay in the cell slows a job that
            waits now, or one that is still to arrive.
        num_waiting: (pools,) jobs that wait.
        weight: (pools,) what one job slowed counts.
    """

    backlog_urgency: FloatArray
    arrivals_urgency: FloatArray
    num_waiting: FloatArray
    weight: FloatArray


class Bursts(NamedTuple):
    """Bursts that may happen in any cell.

    Attributes:
        pool: (bursts,) rank of the pool.
        num_gpus, num_jobs: (bursts,) asked for, and jobs that ask.
        chance: (bursts, cells) how many of them are expected in the cell.
    """

    pool: NDArray[np.intp]
    num_gpus: FloatArray
    num_jobs: FloatArray
    chance: FloatArray


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is known of the time ahead, at the beginning of each cell.

    Attributes:
        own, guest, requeueable: (pools, cells) mean width alive of own jobs, of guests that must run to their
            end, and of guests that can be sent back.
        backlog: (pools, cells) the same of jobs that wait, if they started now.
        alive: of the guests: their spread and their cohorts.
        fates: of cohorts, scenario by scenario.
        peaks: (scenarios, pools, cells) width held by jobs still to arrive, its peak in the first
            `domain.timegrid.LOOK_S` of the cell, which stands for the rest of it.
        arrivals: (scenarios, pools, cells) their number.
        quota_gpus: (pools,).
        stakes: what it means to let lane starts wait.
        bursts: what is too rare for the scenarios.
        riding: (pools, cells) mean width alive of own jobs that ride with others: it takes room in their lane
            and no GPUs; or (1, 1).
        floor: (scenarios, cells) what own jobs hold at least, all pools together (`solver.usual`); or (1, 1).
    """

    own: FloatArray
    guest: FloatArray
    requeueable: FloatArray
    backlog: FloatArray
    alive: Alive
    fates: Fates
    peaks: FloatArray
    arrivals: FloatArray
    quota_gpus: FloatArray
    stakes: Stakes
    bursts: Bursts
    riding: FloatArray = field(default_factory=lambda: np.zeros((1, 1)))
    floor: FloatArray = field(default_factory=lambda: np.zeros((1, 1)))


class Trial(NamedTuple):
    """One more guest, tried.

    Attributes:
        charge: jobs it is expected to slow.
        pool: rank of its pool.
        guest: (scenarios, cells) of its pool with it.
        backlog: (cells,) of its pool with it.
        need: (scenarios, cells) with it.
        variance: (cells,) with it.
        missing: (scenarios, cells) with it.
        rare_missing: (bursts, cells) with it.
    """

    charge: float
    pool: int
    guest: FloatArray
    backlog: FloatArray
    need: FloatArray
    variance: FloatArray
    missing: FloatArray
    rare_missing: FloatArray


class ChargeParts(NamedTuple):
    """Where the charge of a guest that was tried comes from; the jobs add up to `Trial.charge`.

    Attributes:
        usual_jobs: (cells,) jobs slowed by what the scenarios hold.
        burst_jobs: (bursts, cells) jobs slowed by what is too rare for them.
        added_gpus: (scenarios, cells) GPUs that are missing because of the guest.
    """

    usual_jobs: FloatArray
    burst_jobs: FloatArray
    added_gpus: FloatArray


class Guests(NamedTuple):
    """Guests that must run to their end, in the order in which they are added.

    Attributes:
        pool: (guests,) rank of the pool.
        width: (guests,) GPUs.
        fresh: (guests, cells) probability that it still runs when the cell begins, if it starts now.
        cohort: (guests,) its burst, whose jobs live alike.
    """

    pool: NDArray[np.int64]
    width: NDArray[np.int64]
    fresh: FloatArray
    cohort: NDArray[np.int64]


class LookAhead:
    """The time ahead at one instant, to which guests are added one by one.

    Args:
        ahead: what is known.
        capacity_gpus: GPUs of the cluster.
    """

    def __init__(self, ahead: Ahead, capacity_gpus: int) -> None:
        self._ahead = ahead
        self._capacity_gpus = capacity_gpus
        self._quota = ahead.quota_gpus
        self._lane = ahead.quota_gpus[:, None] - ahead.own - ahead.riding
        self._num_scenarios = ahead.peaks.shape[0]
        self._guest = self._guests()
        # a guest that can be sent back is, to a lane, a job that waits
        self._backlog = ahead.backlog + ahead.requeueable
        kinship = ahead.fates.num_common(self._num_scenarios) / self._num_scenarios
        self._single = 1.0 - kinship
        self._variance = ahead.alive.spread - kinship * ahead.alive.common
        self._need = np.zeros((ahead.peaks.shape[0], ahead.own.shape[1]))
        lanes = [self._due(pool, self._guest[pool], self._backlog[pool]) for pool in range(self._quota.size)]
        for pool, lane in enumerate(lanes):
            self._need += self._urgent_need(pool, self._guest[pool], lane)
        floored = np.maximum(self._need, ahead.floor + np.sum(self._guest, axis=0))
        self._lift, self._need = floored - self._need, floored
        self._missing = self._shortfall(self._need, self._variance)
        self._hit = self._hits(lanes)
        self._more, self._rare_hit = self._burst_hits(lanes)
        self._rare_missing = self._missing_in_bursts(self._need, self._variance)
        self._held: FloatArray | None = None

    def copy(self) -> "LookAhead":
        """The same time ahead, to which other guests can be added."""
        other = copy(self)
        other._guest, other._backlog = list(self._guest), self._backlog.copy()  # noqa: SLF001 - of its kind
        return other

    @property
    def missing(self) -> FloatArray:
        """(cells,) GPUs expected to be missing in each cell, with the guests added so far."""
        return np.asarray(self._missing.mean(axis=0))

    def try_guest(self, pool: int, width: int, fresh: FloatArray, cohort: int) -> Trial:
        """Add a guest that must run to its end, tentatively.

        Args:
            pool: rank of its pool.
            width: its GPUs.
            fresh: (cells,) probability that it still runs when the cell begins, if it starts now.
            cohort: its burst, whose jobs live alike.
        """
        spread = width * width * fresh * (1.0 - fresh)
        alive = width * fated(self._ahead.fates.of(cohort, self._num_scenarios), fresh)
        guest, backlog = self._guest[pool] + alive, self._backlog[pool] - width * fresh
        before = self._pool_need(pool, self._guest[pool], self._backlog[pool])
        need = self._need + (self._pool_need(pool, guest, backlog) - before)
        variance = self._variance + self._single * spread
        missing = self._shortfall(need, variance)
        charge = float((np.maximum(missing - self._missing, 0.0) * self._hit).mean(axis=0).sum())
        rare_missing = self._missing_in_bursts(need, variance)
        charge += float((np.maximum(rare_missing - self._rare_missing, 0.0) * self._rare_hit).sum())
        return Trial(charge, pool, guest, backlog, need, variance, missing, rare_missing)

    def parts_of(self, trial: Trial) -> ChargeParts:
        """Where the charge of the guest that was tried last comes from; to explain it."""
        added = np.maximum(trial.missing - self._missing, 0.0)
        rare = np.maximum(trial.rare_missing - self._rare_missing, 0.0)
        return ChargeParts((added * self._hit).mean(axis=0), rare * self._rare_hit, added)

    def add(self, trial: Trial) -> None:
        """The guest that was tried last starts."""
        if self._held is not None:
            before = self._held_in(trial.pool, self._guest[trial.pool], self._backlog[trial.pool])
            self._held = self._held + (self._held_in(trial.pool, trial.guest, trial.backlog) - before)
        self._guest[trial.pool], self._backlog[trial.pool] = trial.guest, trial.backlog
        self._need, self._variance, self._missing = trial.need, trial.variance, trial.missing
        self._rare_missing = trial.rare_missing

    def net_of_backlog(self) -> FloatArray:
        """(pools, cells) part of a guest's width that adds to the need.

        Where its own lane would have started it, urgently, it was needed before.
        """
        room = np.maximum(self._lane, 0.0)
        is_reached = (self._backlog <= room).astype(float)
        return np.asarray(1.0 - self._ahead.stakes.backlog_urgency * is_reached)

    def risk_lines(self, reach_gpus: float, most_jobs: float = math.inf) -> RiskLines:
        """Jobs slowed, cell by cell, by GPUs that more guests hold ahead, as lines.

        They are finest where a cell's risk is at most `most_jobs`.

        Bursts are rows of their own beside the scenarios, weighted by their chance.
        """
        num, rare = self._num_scenarios, self._more.shape[0]
        usual = self._need - self._lift
        need = np.vstack([self._need, usual.mean(axis=0) + self._more])
        hit = np.vstack([self._hit / num, self._rare_hit]) * (num + rare)
        variance = np.repeat([self._variance, self._variance + usual.var(axis=0)], [num, rare], axis=0)
        spread = np.sqrt(variance + _ROUNDING_SD_GPUS**2)
        return risk_lines(need, hit, spread, self._capacity_gpus, reach_gpus, most_jobs=most_jobs)

    def send_back_lines(self, reach_gpus: float) -> RiskLines:
        """GPUs of guests expected to be sent back, cell by cell, by GPUs that more guests hold, as lines."""
        spread = np.sqrt(self._variance + _ROUNDING_SD_GPUS**2)
        ones = np.ones((1, spread.size))
        return risk_lines(self._need_with_held(), ones, spread, self._capacity_gpus, reach_gpus)

    def chance_sent_back(self, width: int, fresh: FloatArray) -> float:
        """Chance that a guest that can be sent back will be, before it ends.

        It is the youngest, so the first to go: when need, all other guests included, exceeds what there is.
        """
        spread = np.sqrt(self._variance + _ROUNDING_SD_GPUS**2)
        short = ndtr((self._need_with_held() + width * fresh - self._capacity_gpus) / spread).mean(axis=0)
        return float((short * fresh).max())

    def add_requeueable(self, width: int, fresh: FloatArray) -> None:
        """A guest that can be sent back starts."""
        self._held = self._need_with_held() + width * fresh

    def _need_with_held(self) -> FloatArray:
        """(scenarios, cells) need if the guests that can be sent back were let run to their end.

        They make way for every lane start, urgent or not.
        """
        if self._held is None:
            self._held = np.zeros_like(self._need)
            for pool in range(self._quota.size):
                self._held += self._held_in(pool, self._guest[pool], self._backlog[pool])
        return self._held

    def _held_in(self, pool: int, guest: FloatArray, backlog: FloatArray) -> FloatArray:
        held = self._ahead.requeueable[pool]
        due, arriving, _ = self._due(pool, guest + held, backlog - held)
        return np.asarray(self._ahead.own[pool] + guest + held + due + arriving)

    def _guests(self) -> list[FloatArray]:
        """By pool, (scenarios, cells) width of the guests that must run to their end."""
        ahead = self._ahead
        found = [np.broadcast_to(mean, (self._num_scenarios, mean.size)) for mean in ahead.guest]
        for cohort in ahead.alive.cohorts:
            fates = ahead.fates.of(cohort.number, self._num_scenarios)
            more = cohort.width * (fated(fates, cohort.share) - cohort.share)
            found[cohort.group] = found[cohort.group] + more
        return found

    def _hits(self, lanes: Sequence[Lane]) -> FloatArray:
        """(scenarios, cells) jobs slowed by each GPU that is missing."""
        ahead, stakes = self._ahead, self._ahead.stakes
        jobs, due_gpus = np.zeros_like(self._need), np.ones_like(self._need)
        for pool, (due, arriving, left) in enumerate(lanes):
            queue = np.maximum(1.0, self._peaks(pool) / np.maximum(left, 1.0))
            coming = ahead.arrivals[:, min(pool, ahead.arrivals.shape[1] - 1)]
            jobs += stakes.weight[pool] * stakes.arrivals_urgency[pool] * coming * queue
            waiting = stakes.num_waiting[pool] * np.minimum(1.0, due)
            jobs += stakes.weight[pool] * stakes.backlog_urgency[pool] * waiting
            due_gpus += stakes.arrivals_urgency[pool] * arriving + stakes.backlog_urgency[pool] * due
        self._due_gpus = due_gpus
        return np.asarray(jobs / due_gpus)

    def _burst_hits(self, lanes: Sequence[Lane]) -> tuple[FloatArray, FloatArray]:
        """GPUs that a burst asks for urgently, and its chance times the jobs slowed by each missing one.

        Both (bursts, cells).
        """
        stakes, bursts = self._ahead.stakes, self._ahead.bursts
        left = np.stack([lane.left.mean(axis=0) for lane in lanes])[bursts.pool]
        urgency = stakes.arrivals_urgency[bursts.pool]
        asked = np.minimum(bursts.num_gpus[:, None], left)
        queue = np.maximum(1.0, bursts.num_gpus[:, None] / np.maximum(left, 1.0))
        # without room in its lane a burst waits for its own pool's jobs, not for guests
        reached = stakes.weight[bursts.pool] * bursts.num_jobs
        jobs = reached[:, None] * urgency * np.minimum(1.0, asked)
        due = self._due_gpus.mean(axis=0) + urgency * asked
        return urgency * asked, bursts.chance * jobs * queue / due

    def _missing_in_bursts(self, need: FloatArray, variance: FloatArray) -> FloatArray:
        """(bursts, cells) GPUs expected to be missing when a burst comes on top of what is usual.

        The level that is usual holds bursts already: they come on top of what is forecast, not of that.
        """
        usual = need - self._lift
        short, spread = usual.mean(axis=0) + self._more, variance + usual.var(axis=0)
        return self._shortfall(short, spread)

    def _pool_need(self, pool: int, guest: FloatArray, backlog: FloatArray) -> FloatArray:
        """(scenarios, cells) what cannot wait without slowing anybody."""
        return self._urgent_need(pool, guest, self._due(pool, guest, backlog))

    def _urgent_need(self, pool: int, guest: FloatArray, lane: Lane) -> FloatArray:
        stakes = self._ahead.stakes
        urgent = stakes.backlog_urgency[pool] * lane.due + stakes.arrivals_urgency[pool] * lane.arriving
        return np.asarray(self._ahead.own[pool] + guest + urgent)

    def _due(self, pool: int, guest: FloatArray, backlog: FloatArray) -> Lane:
        """What a lane is going to start, given its guests and its backlog."""
        room = np.maximum(self._lane[pool], 0.0)
        left = np.maximum(room - backlog - guest, 0.0)
        # rounding may leave a backlog of all but nothing below nothing
        due = np.minimum(np.maximum(backlog, 0.0), room)
        return Lane(due, np.minimum(self._peaks(pool), left), left)

    def _peaks(self, pool: int) -> FloatArray:
        peaks = self._ahead.peaks
        return np.asarray(peaks[:, min(pool, peaks.shape[1] - 1)])

    def _shortfall(self, need: FloatArray, variance: FloatArray) -> FloatArray:
        """(scenarios, cells) expected GPUs missing: E max(0, X), X normal, is sd x phi(z) + mean x Phi(z)."""
        spread = np.sqrt(variance + _ROUNDING_SD_GPUS**2)
        z = (need - self._capacity_gpus) / spread
        density = np.exp(-0.5 * z * z) * _DENSITY_AT_0
        return np.asarray(spread * (density + z * ndtr(z)))

    def charge_of(self, guests: Guests) -> float:
        """Jobs that guests are expected to slow, if they are added one after another. None is added.

        The sum of what `try_guest` charges each, up to rounding, at a fraction of the time.
        """
        trial = self.copy()
        charge = 0.0
        for begin in range(0, len(guests.pool), _AT_A_TIME):
            part = slice(begin, begin + _AT_A_TIME)
            some = Guests(guests.pool[part], guests.width[part], guests.fresh[part], guests.cohort[part])
            charge += trial._charge_next(some)  # noqa: SLF001 - of its kind
        return charge

    def _charge_next(self, guests: Guests) -> float:
        """Add guests and say what they cost; what is missing is not brought up to date."""
        need = self._needs_with(guests)
        single = self._single * (guests.width**2)[:, None] * guests.fresh * (1.0 - guests.fresh)
        variance = np.cumsum(np.vstack([self._variance, single]), axis=0)
        spread = np.sqrt(variance[-1] + _ROUNDING_SD_GPUS**2)
        scenario, cell = np.nonzero(need.max(axis=0) > self._capacity_gpus - _NOWHERE_NEAR * spread)
        more = rises(need[:, scenario, cell], variance[:, cell], self._shortfall)
        charge = float((more * self._hit[scenario, cell]).sum() / self._num_scenarios)
        if self._more.size:
            charge += self._charge_in_bursts(need, variance)
        self._need, self._variance = need[-1], variance[-1]
        return charge

    def _charge_in_bursts(self, need: FloatArray, variance: FloatArray) -> float:
        """The same of the bursts: from (steps + 1, scenarios, cells) and (steps + 1, cells)."""
        charge = 0.0
        for step in range(1, len(need)):
            missing = self._missing_in_bursts(need[step], variance[step])
            charge += float((np.maximum(missing - self._rare_missing, 0.0) * self._rare_hit).sum())
            self._rare_missing = missing
        return charge

    def _needs_with(self, guests: Guests) -> FloatArray:
        """(guests + 1, scenarios, cells) the need before and with each one more, who are then guests."""
        steps = np.empty((len(guests.pool) + 1, *self._need.shape))
        steps[0] = self._need
        for pool in np.unique(guests.pool).tolist():
            mine = np.flatnonzero(guests.pool == pool)
            width, fresh = guests.width[mine].astype(float), guests.fresh[mine]
            cohorts = guests.cohort[mine].tolist()
            fates = np.stack([self._ahead.fates.of(number, self._num_scenarios) for number in cohorts])
            guest = np.cumsum(width[:, None, None] * fated(fates, fresh), axis=0) + self._guest[pool]
            backlog = self._backlog[pool] - np.cumsum(width[:, None] * fresh, axis=0)
            before = self._pool_need(pool, self._guest[pool], self._backlog[pool])
            path = self._pool_need(pool, guest, backlog[:, None, :])
            steps[mine + 1] = np.diff(path, axis=0, prepend=before[None])
            self._guest[pool], self._backlog[pool] = guest[-1], backlog[-1]
        return np.cumsum(steps, axis=0)
