"""A synthetic instant of a cluster, for measuring the lending plan: who runs, who waits, what may come.

Lives are log-normal, bursts of up to five jobs share one. Pools use 55 to 100 % of their quota themselves,
guests run on a third of what that leaves idle, and who waits asks for more than is idle.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from domain.cluster import Gpu
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job
from domain.timegrid import default_grid
from solver.lending.classes import Candidates, JobClasses
from solver.lending.curves import MOST_BUDGETS, FloatArray, RiskLines
from solver.lending.problem import IntArray, LendingProblem
from solver.lending.rides import ride_rows
from solver.lending.send_backs import one_level
from solver.lending.value import FAIRNESS, PoolsNow, ValueSettings, job_values
from solver.lending.verify import Lives, Situation
from solver.lives import Alive, Entry, Fates, LifeBook, survival_at
from solver.lookahead import Ahead, Bursts, Guests, LookAhead, Stakes
from solver.packing.rides import Ride

BEGINS_S = np.array(default_grid().edges_s[:-1])
KINSHIP = 0.3
OWN, GUEST, REQUEUEABLE = range(3)
_EDGES_S = np.array(LIFE_EDGES_S)


@dataclass(frozen=True)
class Jobs:
    """Columns of jobs; `age_s` is how long they run or wait."""

    pool: IntArray
    width: IntArray
    curve: FloatArray
    median_s: FloatArray
    tail_s: FloatArray
    age_s: FloatArray
    cohort: IntArray
    can_go_back: np.ndarray

    @property
    def size(self) -> int:
        return int(self.pool.size)


@dataclass(frozen=True)
class State:
    quota: FloatArray
    running: Jobs
    kind: IntArray
    waiting: Jobs
    idle: int
    peaks: FloatArray
    arrivals: FloatArray
    fresh_peaks: FloatArray
    fresh_arrivals: FloatArray
    budget: float = 0.5

    @property
    def capacity(self) -> float:
        return float(self.quota.sum())


def make_state(
    seed: int,
    gpus: int = 10_000,
    pools: int = 30,
    running: int = 5_000,
    waiting: int = 2_000,
    scenarios: int = 200,
    pressure: float = 1.0,
) -> State:
    """Draw one instant; `pressure` multiplies what is still to come."""
    rng = np.random.Generator(np.random.PCG64(seed))
    share = rng.dirichlet(np.full(pools, 4.0))
    quota = np.maximum(8, np.floor(share * gpus / 8) * 8).astype(float)
    own_share = rng.uniform(0.55, 1.0, pools)
    jobs = _jobs(rng, running + running // 5, quota / quota.sum(), first_cohort=0, requeueable_share=0.3)
    kind = _kinds(rng, jobs, quota, own_share)
    keep = (kind >= 0) & (np.cumsum(kind >= 0) <= running)
    jobs, kind = _taken(jobs, keep), kind[keep]
    idle = int(quota.sum() - jobs.width.sum())
    queue = _jobs(rng, waiting, rng.dirichlet(np.full(pools, 1.0)), 2 * running, requeueable_share=0.3)
    peaks, arrivals = _arrivals(rng, pressure * quota * (1.1 - own_share), 2 * scenarios)
    return State(
        quota=quota,
        running=jobs,
        kind=kind,
        waiting=queue,
        idle=idle,
        peaks=peaks[:scenarios],
        arrivals=arrivals[:scenarios],
        fresh_peaks=peaks[scenarios:],
        fresh_arrivals=arrivals[scenarios:],
    )


def _jobs(
    rng: np.random.Generator, size: int, pool_share: FloatArray, first_cohort: int, requeueable_share: float
) -> Jobs:
    burst = np.repeat(np.arange(size), rng.integers(1, 6, size))[:size]
    pool = rng.choice(pool_share.size, size=size, p=pool_share)[burst]
    width = rng.choice([1, 2, 4, 8, 16], size=size, p=[0.82, 0.09, 0.05, 0.035, 0.005])[burst]
    median_s = (2.0 ** rng.normal(11.5, 3.0, size))[burst]
    spread = rng.uniform(0.7, 2.5, size)[burst]
    logs = (np.log(median_s)[:, None] - np.log(_EDGES_S)) / spread[:, None]
    return Jobs(
        pool=pool,
        width=width,
        curve=ndtr(logs),
        median_s=median_s,
        tail_s=median_s * np.exp(1.28 * spread),
        age_s=rng.exponential(2 * 3600.0, size),
        cohort=first_cohort + burst,
        can_go_back=rng.random(size) < requeueable_share,
    )


def _kinds(rng: np.random.Generator, jobs: Jobs, quota: FloatArray, own_share: FloatArray) -> IntArray:
    """Own while the pool's own share lasts, then guest while a third of the rest lasts, then dropped."""
    kind = np.full(jobs.size, -1)
    left = np.floor(quota * own_share)
    guests_left = (quota.sum() - left.sum()) / 3
    for one in rng.permutation(jobs.size):
        pool, width = jobs.pool[one], jobs.width[one]
        if width <= left[pool]:
            left[pool] -= width
            kind[one] = OWN
        elif width <= guests_left:
            guests_left -= width
            kind[one] = REQUEUEABLE if jobs.can_go_back[one] else GUEST
    return kind


def _taken(jobs: Jobs, keep: np.ndarray) -> Jobs:
    return Jobs(**{name: column[keep] for name, column in jobs.__dict__.items()})


def _arrivals(rng: np.random.Generator, room: FloatArray, size: int) -> tuple[FloatArray, FloatArray]:
    """(scenarios, pools, cells) peaks and numbers: a common swing, and bursts of single pools."""
    cells = BEGINS_S.size
    ahead = np.minimum(1.0, np.sqrt((BEGINS_S + 300.0) / 86_400.0))
    swing = rng.lognormal(0.0, 0.3, (size, 1, cells))
    burst = rng.gamma(0.5, 1.0, (size, room.size, cells))
    peaks = room[None, :, None] * ahead * swing * (0.35 + 0.4 * burst)
    length_s = np.append(np.diff(BEGINS_S), 4 * 86_400.0)
    return np.round(peaks), np.round(0.4 * peaks * np.sqrt(length_s / 3600.0))


def make_book(state: State) -> LifeBook:
    """The life book as the state has it."""
    pools = state.quota.size
    book = LifeBook(3 * pools, pools, BEGINS_S)
    running = state.running
    # the first groups count for the spread, and only guests that must run to their end do
    group_of = np.array([pools, 0, 2 * pools])[state.kind] + running.pool
    for one in range(running.size):
        entry = Entry(f"r{one}", int(running.width[one]), running.curve[one], int(running.cohort[one]))
        book.add(entry, -float(running.age_s[one]), int(group_of[one]))
    return book


class Planning:
    """From a state to its lending problem, step by step, and the exact risk of a choice."""

    def __init__(self, state: State) -> None:
        self.state = state

    def look(self, book: LifeBook) -> None:
        """Widths alive ahead, and who waits. All lane starts are urgent, and all pools count alike."""
        state, waiting = self.state, self.state.waiting
        pools = state.quota.size
        alive: Alive = book.alive(0.0)
        guest, own, requeueable = alive.mean.reshape(3, pools, -1)
        self.fresh = survival_at(waiting.curve, np.broadcast_to(BEGINS_S, (waiting.size, BEGINS_S.size)))
        self.widths_alive = waiting.width[:, None] * self.fresh
        backlog = np.zeros_like(own)
        np.add.at(backlog, waiting.pool, self.widths_alive)
        urgent, no_jobs = np.ones_like(own), np.zeros(0)
        self.ahead = Ahead(
            own=own,
            guest=guest,
            requeueable=requeueable,
            backlog=backlog,
            alive=alive,
            fates=Fates(KINSHIP, 0),
            peaks=state.peaks,
            arrivals=state.arrivals,
            quota_gpus=state.quota,
            stakes=Stakes(urgent, urgent, np.bincount(waiting.pool, minlength=pools), np.ones(pools)),
            bursts=Bursts(np.zeros(0, dtype=np.intp), no_jobs, no_jobs, np.zeros((0, BEGINS_S.size))),
        )
        self.looked = LookAhead(self.ahead, int(state.capacity))

    def lines(self) -> RiskLines:
        """The risk of each cell."""
        return self.looked.risk_lines(self.state.idle, MOST_BUDGETS * self.state.budget)

    def candidates(self, settings: ValueSettings) -> Candidates:
        """Who waits. One whom its own lane would reach in a cell adds nothing to the need there."""
        waiting = self.state.waiting
        net = np.where(waiting.can_go_back[:, None], 1.0, self.looked.net_of_backlog()[waiting.pool])
        return Candidates(
            job_ids=tuple(f"w{k:06}" for k in range(waiting.size)),
            submit_s=-waiting.age_s,
            pool=waiting.pool,
            width_gpus=waiting.width,
            median_s=waiting.median_s,
            tail_s=waiting.tail_s,
            value=job_values(waiting.age_s, waiting.median_s, waiting.width.astype(float), settings),
            alive_gpus=self.widths_alive * net,
            is_requeueable=waiting.can_go_back,
        )

    def problem(
        self, classes: JobClasses, lines: RiskLines, send_back: RiskLines, fairness: str
    ) -> LendingProblem:
        """All together."""
        state = self.state
        used = np.bincount(state.running.pool, weights=state.running.width, minlength=state.quota.size)
        asked = np.bincount(state.waiting.pool, weights=state.waiting.width, minlength=state.quota.size)
        per_gpu = float(np.median(classes.value / classes.width_gpus))
        terms = FAIRNESS[fairness](PoolsNow(state.quota, used, asked, state.idle), ValueSettings(), per_gpu)
        return classes.problem(
            idle_gpus=state.idle,
            risk=lines,
            budget_jobs=state.budget,
            price=float(np.median(classes.value)),
            send_back=one_level(send_back),
            send_back_price=0.05 * float(np.median(classes.value)),
            factor=terms.factor,
            utility=terms.utility,
        )

    def with_rides(self, problem: LendingProblem, classes: JobClasses, rides: list[Ride]) -> LendingProblem:
        """The same problem where some may ride; what a ride says is a share of the worth of a start."""
        value = {one: worth for ids, worth in zip(classes.members, problem.value, strict=True) for one in ids}
        worths = np.array([ride.value * value[ride.job.job_id] for ride in rides])
        return replace(problem, rides=ride_rows(rides, classes.members, worths))

    def send_back_lines(self) -> RiskLines:
        """GPUs missing in each cell if all guests were let run to their end."""
        return self.looked.send_back_lines(self.state.idle)

    def exact_risk(self, chosen: IntArray) -> float:
        """Jobs expected to be slowed if these waiting jobs start, one after another."""
        waiting = self.state.waiting
        lent = chosen[~waiting.can_go_back[chosen]]
        return self.looked.charge_of(
            Guests(waiting.pool[lent], waiting.width[lent], self.fresh[lent], waiting.cohort[lent])
        )

    def situation(self) -> Situation:
        """For the draws, with scenarios the plan has not seen."""
        state, running = self.state, self.state.running
        now = survival_at(running.curve, running.age_s[:, None])
        later = survival_at(running.curve, running.age_s[:, None] + BEGINS_S)
        share = np.where(now > 1e-9, later / np.maximum(now, 1e-9), 0.5)
        kinds = []
        for kind in (OWN, GUEST, REQUEUEABLE):
            rows = np.flatnonzero(state.kind == kind)
            kinds.append(
                Lives(
                    running.pool[rows], running.width[rows].astype(float), share[rows], running.cohort[rows]
                )
            )
        waiting = state.waiting
        return Situation(
            own=kinds[OWN],
            guests=kinds[GUEST],
            requeueable=kinds[REQUEUEABLE],
            waiting=Lives(waiting.pool, waiting.width.astype(float), self.fresh, waiting.cohort),
            kinship=KINSHIP,
            peaks=state.fresh_peaks,
            arrivals=state.fresh_arrivals,
            quota_gpus=state.quota,
            capacity_gpus=state.capacity,
        )


def make_rides(state: State, size: int, seed: int) -> list[Ride]:
    """Candidates for riding: the shorter of the jobs that wait, some hosts and some GPUs of each for one.

    Who may host: guests and a few own jobs, half as many as there are candidates, so that riders want the
    same GPUs. A ride is worth 0.3 to 0.9 of a start, and is expected to slow up to a hundredth of the budget.
    """
    rng = np.random.Generator(np.random.PCG64([seed, 7]))
    running, waiting = state.running, state.waiting
    hosts = rng.permutation(np.flatnonzero((state.kind != OWN) | (rng.random(running.size) < 0.1)))
    widest_first = hosts[np.argsort(-running.width[hosts], kind="stable")][: max(size // 2, 1)]
    riders = np.argsort(waiting.median_s, kind="stable")[: 2 * size]
    rides: list[Ride] = []
    while len(rides) < size:
        one, at = int(rng.choice(riders)), int(rng.choice(widest_first))
        width, room = int(waiting.width[one]), int(running.width[at])
        if width > room:
            continue
        first = 0 if width == room else int(rng.integers(room - width + 1))
        gpus = tuple(Gpu(f"n{at}-{k // 8}", k % 8) for k in range(first, first + width))
        rider = Job(f"w{one:06}", str(waiting.pool[one]), -float(waiting.age_s[one]), width)
        host = Job(f"r{at}", str(running.pool[at]), -float(running.age_s[at]), room)
        value, charge = float(rng.uniform(0.3, 0.9)), float(rng.uniform(0.0, 0.01)) * state.budget
        rides.append(Ride(rider, host, gpus, value, 0.9 * value, 0.9, 1.0, 0.85, value, charge))
    return rides


def rows_of(classes: JobClasses) -> list[np.ndarray]:
    """Of each class, the rows of its jobs in the waiting columns."""
    return [np.array([int(job_id[1:]) for job_id in ids]) for ids in classes.members]


def chosen_rows(rows: list[np.ndarray], counts: IntArray) -> IntArray:
    """Rows of the jobs that a choice starts."""
    picked = [row[:count] for row, count in zip(rows, counts.tolist(), strict=True) if count]
    return np.concatenate(picked) if picked else np.zeros(0, dtype=np.int64)
