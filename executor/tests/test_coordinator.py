"""The coordinator on simulated steps: inside its limits, by what is read back, gone when its set changes."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent_process import end_all
from control_plane import placement as wire
from in_process import Life
from test_crash import document

from antecast_executor import conditions
from antecast_executor.calibration import OBJECTIVES, Remaining, Worker
from antecast_executor.conditions import Condition, ConditionState
from antecast_executor.coordinator import Bounds, Coordinator, Kind, Outcome
from antecast_executor.devices.sim_telemetry import SimTelemetry
from antecast_executor.document import OnDisconnect, Placement, Role, Wanted
from antecast_executor.hands import ActuatorHands
from antecast_executor.interfaces import EffectiveAt, Enforcement, InForce
from antecast_executor.packed import NotPackedError, packed_placements
from antecast_executor.telemetry import ROUGH, Step, measure

JOBS = {"host": Remaining(4000.0, utilisation=0.3), "rider": Remaining(4000.0, utilisation=0.9)}
FREE = Bounds(10.0, 100.0)


def placed(job: str, rank: int, gpu: str, *, ranks: int = 1, role: Role = Role.RIDER) -> Placement:
    return Placement(
        placement_id=f"{job}-{rank}",
        job_id=job,
        rank=rank,
        num_ranks=ranks,
        argv=("true",),
        env={},
        gpus=(gpu,),
        share_pct=100.0,
        memory_mib=None,
        priority=0,
        state=Wanted.RUNNING,
        grace_s=1.0,
        on_disconnect=OnDisconnect.HOLD,
        role=role,
    )


PAIR = [placed("host", 0, "g", role=Role.HOST), placed("rider", 0, "g")]


class Shares:
    """`Hands` over nothing but numbers. What is above `started` is for the next client, as with MPS."""

    def __init__(self, started: Mapping[str, float]) -> None:
        self.started = dict(started)
        self.asked = dict(started)
        self.is_able = True
        self.given: list[tuple[str, float]] = []

    def share_pct(self, placement_id: str) -> float | None:
        return self.asked[placement_id]

    def highest_pct(self, placement_id: str) -> float:
        return self.started[placement_id]

    def give(self, placement_id: str, share_pct: float) -> Condition:
        self.given.append((placement_id, share_pct))
        self.asked[placement_id] = share_pct
        verb = "squeeze" if share_pct < self.started[placement_id] else "swell"
        answer = InForce(share_pct, share_pct, EffectiveAt.NOW, Enforcement.ADVISORY, "time slices")
        state = ConditionState.EFFECTIVE
        if not self.is_able:
            started_pct = self.started[placement_id]
            answer = InForce(
                share_pct, started_pct, EffectiveAt.NEXT_CLIENT, Enforcement.RESTART, "no slices"
            )
            state = ConditionState.APPLIED
        return conditions.advance(conditions.request(verb, share_pct, 0.0), state, 0.0, answer=answer)

    def now(self) -> dict[str, float]:
        return self.asked if self.is_able else self.started


def hurt_by_the_rider(shares: Mapping[str, float]) -> dict[str, float]:
    """The host loses what the rider takes; the rider gets less from each further part: best at 40 %."""
    rider = shares["rider-0"] / 100.0
    return {"host-0": 2.0 * (1.0 - 0.75 * rider), "rider-0": 3.0 * rider**0.5}


class World:
    """A coordinator with a clock that a test turns."""

    def __init__(self, bounds: Mapping[str, Bounds] | None = None, **more: Any) -> None:
        self.now_s = 100.0
        self.hands = Shares({"host-0": 100.0, "rider-0": 100.0})
        rates: Callable[[Mapping[str, float]], Mapping[str, float]] = more.pop("rates", hurt_by_the_rider)
        self.telemetry = SimTelemetry(lambda: self.now_s, self.hands.now, rates, seed=7, jitter=0.01)
        self.coordinator = Coordinator(
            PAIR,
            bounds or {"host-0": FREE, "rider-0": FREE},
            JOBS,
            objective=OBJECTIVES[more.pop("objective", "jct")],
            hands=self.hands,
            telemetry=self.telemetry,
        )

    def run(self, seconds: float, present: tuple[str, ...] = ("host-0", "rider-0")) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s and self.coordinator.outcome is None:
            self.coordinator.step(self.now_s, present)
            self.now_s += 0.5


def test_it_finds_the_best_share_and_leaves_it_in_force() -> None:
    world = World()
    world.run(3600.0)
    assert world.coordinator.outcome is Outcome.FOUND
    costs = {
        share: sum(4000.0 / rate for rate in hurt_by_the_rider({"rider-0": share}).values())
        for share in range(10, 101, 10)
    }
    assert world.hands.asked["host-0"] == 100.0
    assert min(costs.values()) / costs[int(world.hands.asked["rider-0"])] >= 0.99
    last = world.coordinator.reports[-1].to_json()
    assert last["step"] == "best"
    assert last["is_in_force"]
    assert [(item["enforcement"], item["effective_at"]) for item in last["shares"]] == [("advisory", "now")]
    before = list(world.hands.given)
    world.coordinator.step(world.now_s, ())
    assert world.hands.given == before, "it is over"


def test_it_measures_what_began_after_a_change_only_and_reports_when() -> None:
    world = World()
    world.run(120.0)
    times = [report.at_s for report in world.coordinator.reports]
    assert len(times) >= 2
    # Five whole steps of the host, the slower one, that began after the change before.
    assert all(later - earlier >= 2.5 for earlier, later in pairwise(times))


def test_it_stays_within_the_limits_of_the_plan() -> None:
    world = World({"host-0": Bounds(95.5, 100.0), "rider-0": Bounds(54.5, 100.0)})
    world.run(3600.0)
    assert world.coordinator.outcome is Outcome.FOUND
    assert {name for name, _ in world.hands.given} == {"rider-0"}
    assert min(share for _, share in world.hands.given) == 60.0
    assert world.hands.asked["rider-0"] == 60.0


def test_it_never_asks_for_more_than_a_running_client_can_get() -> None:
    world = World()
    world.hands.started = {"host-0": 60.0, "rider-0": 40.0}
    world.hands.asked = dict(world.hands.started)
    world.coordinator = Coordinator(
        PAIR,
        {"host-0": FREE, "rider-0": FREE},
        JOBS,
        objective=OBJECTIVES["jct"],
        hands=world.hands,
        telemetry=world.telemetry,
    )
    world.run(3600.0)
    assert world.coordinator.outcome is Outcome.FOUND
    assert max(share for _, share in world.hands.given) <= 40.0
    assert all(report.is_in_force for report in world.coordinator.reports)


def test_a_share_that_is_not_in_force_is_said_and_ends_it() -> None:
    world = World()
    world.hands.is_able = False
    world.run(600.0)
    assert world.coordinator.outcome is Outcome.NOT_IN_FORCE
    first, last = world.coordinator.reports
    assert first.kind is Kind.TRY
    told = first.to_json()["shares"][0]
    assert (told["is_in_force"], told["in_force"], told["effective_at"]) == (False, 100.0, "next_client")
    assert last.kind is Kind.BACK
    assert world.hands.asked == {"host-0": 100.0, "rider-0": 100.0}


@pytest.mark.parametrize("present", [("host-0",), ("host-0", "rider-0", "third-0")])
def test_when_the_set_changes_it_stops_and_gives_back_what_the_plan_gave(present: tuple[str, ...]) -> None:
    world = World()
    world.run(60.0)
    assert world.hands.asked["rider-0"] < 100.0
    given = len(world.hands.given)
    world.coordinator.step(world.now_s, present)
    assert world.coordinator.outcome is Outcome.SET_CHANGED
    back = world.hands.given[given:]
    assert back == [("rider-0", 100.0)] if "rider-0" in present else back == []


def test_without_steps_it_gives_up_and_leaves_the_best_so_far() -> None:
    world = World(rates=lambda _: {"host-0": 1.0})
    world.run(290.0)
    assert world.coordinator.outcome is None
    world.run(20.0)
    assert world.coordinator.outcome is Outcome.NO_STEPS
    assert world.hands.given == []


def test_slow_steps_are_waited_for_a_minute() -> None:
    """A step of 25 s: two have begun and are over within a minute of the change before."""
    world = World(rates=lambda _: {"host-0": 0.04, "rider-0": 0.04})
    world.run(59.0)
    assert world.coordinator.reports == []
    world.run(3.0)
    assert world.coordinator.search.tries, "the start has been measured"


def test_a_promise_that_no_share_keeps_is_said() -> None:
    world = World(objective="promise")
    world.coordinator = Coordinator(
        PAIR,
        {"host-0": FREE, "rider-0": FREE},
        JOBS | {"host": Remaining(4000.0, lowest_rate=2.0)},
        objective=OBJECTIVES["promise"],
        hands=world.hands,
        telemetry=world.telemetry,
    )
    world.run(3600.0)
    assert world.coordinator.outcome is Outcome.NOT_ALLOWED


# The set


def test_a_narrow_job_rides_on_the_first_that_share_with_it() -> None:
    wide = [placed("wide", rank, f"g{rank}", ranks=3) for rank in (2, 0, 1)]
    narrow = [placed("narrow", rank, f"g{2 - rank}", ranks=2) for rank in (0, 1)]
    found = packed_placements([*narrow, *wide])
    assert found.packed.partners == (None, Worker("narrow", 1), Worker("narrow", 0))
    assert found.names == (("wide-0", "wide-1", "wide-2"), ("narrow-0", "narrow-1"))


def test_of_equally_wide_jobs_the_host_is_the_widest() -> None:
    placements = [placed("a", 0, "g"), placed("b", 0, "g", role=Role.HOST)]
    assert packed_placements(placements).packed.widest.job_id == "b"


@pytest.mark.parametrize(
    ("placements", "message"),
    [
        ([placed("a", 0, "g")], "two jobs"),
        ([], "no packed set"),
        ([placed("a", 0, "g", ranks=2), placed("b", 0, "g")], "1 of 2 workers"),
        ([placed("a", 0, "g"), placed("b", 0, "g"), placed("c", 0, "g")], "besides"),
        ([placed("a", 0, "g"), placed("a", 0, "h")], "twice"),
        ([placed("a", 0, "g", ranks=2), placed("a", 1, "g", ranks=2), placed("b", 0, "g")], "on one GPU"),
        ([placed("a", 0, "g"), placed("b", 0, "h")], "shares no GPU"),
    ],
)
def test_what_is_no_packed_set_is_refused(placements: list[Placement], message: str) -> None:
    with pytest.raises(NotPackedError, match=message):
        packed_placements(placements)


def test_a_window_is_told_with_its_error() -> None:
    even = [Step(0.0, 2.0, 0.5), Step(2.0, 2.0, 0.7)]
    rough = [Step(0.0, 1.0)]
    seen = measure([[even, even], [rough]])
    assert seen.rates == (0.5, 1.0)
    assert seen.forwards == ((pytest.approx(0.6), pytest.approx(0.6)), ())
    assert seen.error == ROUGH
    assert measure([[even]]).error == 0.0


# Real processes, simulated GPUs


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    running = Life(tmp_path / "state")
    yield running
    running.die()
    end_all(tmp_path / "state")


def test_on_real_processes_it_acts_through_squeeze_and_swell(life: Life) -> None:
    """Both start as MPS clients at half; what is less is kept by time slices, said to be advisory."""
    sleep = ["sleep", "3600"]
    both = [
        wire(name, sleep, [life.uuids[0]], share_pct=50.0) | {"job_id": job}
        for name, job in (("host-0", "host"), ("rider-0", "rider"))
    ]
    life.agent.offer(document(1, *both))
    life.tick()
    life.tick()
    records = life.agent._records
    hands = ActuatorHands(life.agent._actuator, records)
    clock = life.node.clock
    telemetry = SimTelemetry(
        clock.monotonic,
        lambda: {name: hands.share_pct(name) or 100.0 for name in records},
        hurt_by_the_rider,
        seed=1,
        jitter=0.0,
    )
    coordinator = Coordinator(
        [item.placement for item in records.values()],
        {"host-0": FREE, "rider-0": FREE},
        JOBS,
        objective=OBJECTIVES["jct"],
        hands=hands,
        telemetry=telemetry,
    )
    for _ in range(40):
        coordinator.step(clock.monotonic(), records.keys())
        life.skip_s += 10.0
        if coordinator.outcome is not None:
            break
    assert coordinator.outcome is Outcome.FOUND
    assert records["rider-0"].share_pct == 40.0
    squeezed = life.condition("rider-0", "squeeze")
    swelled = life.condition("rider-0", "swell")
    assert (squeezed["state"], squeezed["enforcement"]) == ("superseded", "advisory")
    assert (swelled["enforcement"], swelled["in_force"], swelled["effective_at"]) == ("advisory", 40.0, "now")
    assert records["rider-0"].is_throttled
    assert {"squeezed", "swelled"} <= set(life.kinds())
