"""The pace where packed sets are calibrated as they run: Algorithm 1 of Gimbal as events of a replay.

Whenever a packed set changes, the coordinator of its nodes searches anew for its MPS shares, with the code
that the executor runs on real GPUs (docs/calibration.md): it puts a setting in force, measures it for a
window, goes on, and puts the best back in the end. What a window measures are the rates of the replay,
exactly.

- A search begins at free competition, or at the shares that a plan has set, never where the last one ended:
  it squeezes one side only, and could not find its way back from there.
- If the set changes during a search, that is dropped, with the window that was being measured.
- A job that is given other shares stands still for `SWITCH_S`, also where its cap is lifted because a
  neighbour has gone. That is charged as a lower rate over the window that begins then: rates are never 0.
  What a change of the set leaves uncharged is charged in the next window.
- A job that has its GPUs alone is not searched for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from antecast_executor.calibration import (
    OBJECTIVES,
    SWITCH_S,
    Limits,
    Measurement,
    Member,
    PackedSet,
    Remaining,
    Rules,
    Search,
    Setting,
    Worker,
)
from antecast_executor.calibration.words import LEAST_PCT, MOST_PCT

from domain.cluster import Gpu
from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from domain.plans import WorkerShares
from simulator.colocation import Colocation
from simulator.pace import Pace
from solver.packing.books import Rest

WINDOW_S: Final = 39.0
"""How long a setting is in force before it is judged, the switch to it included.

One iteration of LGRR as Gimbal reports it, most of which is measuring (ACM TACO 2025, evaluation).
"""

MOST_STALLED: Final = 0.9
"""Share of a window that a job stands still at most; the rest is charged in the next."""

_CHARGED_S: Final = 1e-9
"""Seconds to be charged that are rounding."""


@dataclass(frozen=True)
class Coordination:
    """How sets are calibrated.

    Attributes:
        lives: forecaster of what is left of jobs; searches know no more than it says.
        objective: name in `antecast_executor.calibration.OBJECTIVES`.
        sigma: share of its speed that a job may lose to those that joined it; who joined loses what it loses.
        utilisation: how much a model uses its GPUs, in [0, 1]; None where that is not known.
        window_s: how long each setting is measured, the switch included.
        searches: whether sets are searched at all; else the shares of the plan stay, and only switches are
            charged.

    Raises:
        ValueError: for an unknown objective, a window shorter than a switch, or sigma outside [0, 1].
    """

    lives: LifetimeForecaster
    objective: str = "jct"
    sigma: float = 0.1
    utilisation: Callable[[str | None], float | None] = lambda _model: None
    window_s: float = WINDOW_S
    searches: bool = True

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(f"unknown objective {self.objective!r}; there are: {', '.join(OBJECTIVES)}")
        if not self.window_s > SWITCH_S:
            raise ValueError(f"a window of {self.window_s} s is not longer than a switch, {SWITCH_S} s")
        if not 0.0 <= self.sigma <= 1.0:
            raise ValueError(f"sigma is {self.sigma}, must lie in [0, 1]")


@dataclass(slots=True)
class _Runner:
    """A job that runs.

    Attributes:
        rest: what is left of its life, by its forecast.
        done_s: work done at `since_s`, seconds of running alone.
        rate: work it does per second since then, standing still charged.
        stalled: share of the time that it is charged for standing still since then.
        owed_s: standing still that was not charged yet at `since_s`, seconds.
        shares: of its workers, percent; None until it has been given some.
    """

    job: Job
    rest: Rest
    done_s: float
    since_s: float
    rate: float = 1.0
    stalled: float = 0.0
    owed_s: float = 0.0
    shares: tuple[int, ...] | None = None

    def advance(self, now_s: float) -> None:
        """Bring the work done and what is owed up to date."""
        passed_s = now_s - self.since_s
        self.done_s += self.rate * passed_s
        self.owed_s -= self.stalled * passed_s
        if self.owed_s < _CHARGED_S:
            self.owed_s = 0.0
        self.since_s = now_s

    def take(self, shares: tuple[int, ...]) -> bool:
        """Its workers are given shares; returns whether they had others and have to switch."""
        has_to_switch = self.shares is not None and shares != self.shares
        self.shares = shares
        self.owed_s += SWITCH_S if has_to_switch else 0.0
        return has_to_switch

    def go_on(self, rate: float, window_s: float) -> None:
        """Run at a rate; within the window what is owed is charged."""
        self.stalled = min(MOST_STALLED, self.owed_s / window_s)
        self.rate = rate * (1.0 - self.stalled)


@dataclass(slots=True)
class _Round:
    """A packed set whose search goes on, or jobs that are still charged for a switch.

    Attributes:
        members: ids, the host first.
        setting: in force.
        search: None once it is over.
        until_s: end of the window.
    """

    members: tuple[str, ...]
    setting: Setting
    search: Search | None
    until_s: float


class CalibratedPace(Pace):
    """Rates of jobs that share GPUs under the shares that local searches find.

    Args:
        floor: who is on which GPU.
        how: sets are calibrated.

    Attributes:
        counts: searches begun, windows measured, switches, and searches whose best setting breaks a promise.
    """

    def __init__(self, floor: Colocation, how: Coordination) -> None:
        super().__init__(floor)
        self.counts: Counter[str] = Counter()
        self._how = how
        self._runners: dict[str, _Runner] = {}
        self._rounds: dict[str, _Round] = {}
        self._caps: dict[str, dict[Gpu, int]] = {}

    def enter(self, job: Job, gpus: Sequence[Gpu], now_s: float, kept_s: float = 0.0) -> int:
        """A job starts, with work kept of earlier attempts; returns how many of its GPUs were idle."""
        taken = super().enter(job, gpus, now_s, kept_s)
        rest = Rest(self._how.lives.survival(job))
        self._runners[job.job_id] = _Runner(job, rest, kept_s, now_s)
        return taken

    def leave(self, job_id: str, now_s: float) -> int:
        """A job ends or is stopped; returns how many of its GPUs are idle now."""
        for other in self.floor.neighbours(job_id):
            for gpu in self.floor.gpus_of(job_id):
                self._caps.get(other, {}).pop(gpu, None)
        self._drop_round(job_id)
        del self._runners[job_id]
        self._caps.pop(job_id, None)
        return super().leave(job_id, now_s)

    def set_shares(self, shares: Iterable[WorkerShares], now_s: float) -> None:  # noqa: ARG002
        """Workers are capped as a plan says: searches begin there, and go no higher."""
        for one in shares:
            self._caps[one.job_id] = dict(zip(self.floor.gpus_of(one.job_id), one.shares_pct, strict=True))
            self._touch(one.job_id, *self.floor.neighbours(one.job_id))

    def next_s(self) -> float:
        """When the next window ends; infinite if none."""
        return min((one.until_s for one in self._rounds.values()), default=super().next_s())

    def settle(self, now_s: float) -> list[str]:
        """Jobs whose neighbours or rate have changed since the last call.

        Windows that end now are judged, and sets that have changed begin anew.
        """
        touched = super().settle(now_s)
        for job_id in touched:
            self._drop_round(job_id)
        due = {one.members: one for one in self._rounds.values() if one.until_s <= now_s}
        changed = dict.fromkeys(touched)
        for one in due.values():
            changed.update(dict.fromkeys(self._go_on(one, now_s)))
        for members in dict.fromkeys(tuple(self.floor.packed_set(job_id)) for job_id in touched):
            changed.update(dict.fromkeys(self._begin(members, now_s)))
        return list(changed)

    def rate(self, job_id: str) -> float:
        """Work that a job does per second relative to running alone, from now on, its switches charged."""
        return self._runners[job_id].rate

    # Rounds

    def _drop_round(self, job_id: str) -> None:
        one = self._rounds.get(job_id)
        for member in () if one is None else one.members:
            del self._rounds[member]

    def _begin(self, members: tuple[str, ...], now_s: float) -> list[str]:
        """A set is as it is from now on; its search begins, if it is one of several jobs."""
        for job_id in members:
            self._runners[job_id].advance(now_s)
        start = Setting(tuple(map(self._most_shares, members)), ((),) * len(members))
        search = None
        if len(members) > 1 and self._how.searches:
            self.counts["searches"] += 1
            search = self._search(members, start, now_s)
            search.next()
        return self._put_in_force(_Round(members, start, search, now_s), now_s)

    def _go_on(self, one: _Round, now_s: float) -> list[str]:
        """A window has ended."""
        for job_id in one.members:
            self._runners[job_id].advance(now_s)
        self._drop_round(one.members[0])
        if one.search is not None:
            self.counts["windows"] += 1
            one.search.measured(self._measured(one.members))
            asked = one.search.next()
            one.setting = one.search.best if asked is None else asked
            if asked is None:
                self.counts["broken"] += not one.search.is_allowed
                one.search = None
        return self._put_in_force(one, now_s)

    def _put_in_force(self, one: _Round, now_s: float) -> list[str]:
        """Returns whose rate has changed."""
        for job_id, shares in zip(one.members, one.setting.shares, strict=True):
            self.counts["switches"] += self._runners[job_id].take(shares)
            self.floor.set_shares(job_id, shares)
        changed = []
        for job_id in one.members:
            runner = self._runners[job_id]
            before = runner.rate
            runner.go_on(self.floor.rate(job_id), self._how.window_s)
            if runner.rate != before:
                changed.append(job_id)
        if one.search is not None or any(self._runners[job_id].owed_s for job_id in one.members):
            one.until_s = now_s + self._how.window_s
            self._rounds.update(dict.fromkeys(one.members, one))
        return changed

    # What a search is told

    def _search(self, members: tuple[str, ...], start: Setting, now_s: float) -> Search:
        least = tuple((LEAST_PCT,) * len(row) for row in start.shares)
        return Search(
            self._packed(members),
            OBJECTIVES[self._how.objective],
            [self._remaining(job_id, now_s) for job_id in members],
            start,
            rules=Rules(has_liss=False, most_windows=1),
            limits=Limits(least, start.shares),
        )

    def _packed(self, members: tuple[str, ...]) -> PackedSet:
        """The set in the words of calibration; samples count as moved already."""
        host, *riders = (Member(job_id, len(self.floor.gpus_of(job_id))) for job_id in members)
        gpus, others = self.floor.gpus_of(members[0]), self.floor.others_on(members[0])
        partners = (
            None if other is None else Worker(other, self.floor.gpus_of(other).index(gpu))
            for gpu, other in zip(gpus, others, strict=True)
        )
        return PackedSet(host, tuple(riders), tuple(partners))

    def _most_shares(self, job_id: str) -> tuple[int, ...]:
        """The shares of a job that a plan allows: all of the GPU unless it says otherwise."""
        caps = self._caps.get(job_id, {})
        pairs = zip(self.floor.gpus_of(job_id), self.floor.others_on(job_id), strict=True)
        return tuple(MOST_PCT if other is None else caps.get(gpu, MOST_PCT) for gpu, other in pairs)

    def _remaining(self, job_id: str, now_s: float) -> Remaining:
        runner = self._runners[job_id]
        deadline_s = runner.job.deadline_s
        return Remaining(
            steps=runner.rest.mean_s(runner.done_s),
            deadline_in_s=None if deadline_s is None else deadline_s - now_s,
            utilisation=self._how.utilisation(runner.job.model),
            lowest_rate=self._lowest_rate(job_id) if self._how.objective == "promise" else None,
        )

    def _lowest_rate(self, job_id: str) -> float | None:
        came = list(self._runners)
        place = came.index(job_id)
        was_joined = any(came.index(other) > place for other in self.floor.neighbours(job_id))
        return 1.0 - self._how.sigma if was_joined else None

    def _measured(self, members: tuple[str, ...]) -> Measurement:
        """One window, exactly; where samples are not moved the workers' passes show the stragglers."""
        rates = tuple(self.floor.rate(job_id) for job_id in members)
        if self.floor.redistributes:
            return Measurement(rates)
        rows = (self.floor.worker_rates(job_id) for job_id in members)
        return Measurement(rates, tuple(tuple(1.0 / rate for rate in row) for row in rows))
