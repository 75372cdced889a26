"""Slowed jobs in episodes: who was on lent GPUs, what was missing, and the cause by the rule."""

from dataclasses import replace

import pytest
from support import job

from data.history import from_frame
from data.synthetic import philly_like
from domain.cluster import Cluster, Gpu, Pool
from domain.forecasts import LIFE_EDGES_S
from domain.jobs import Job, JobOutcome, submit_order
from domain.observers import Observer
from domain.schedules import Schedule, Stretch
from models.lifetime.empirical import EmpiricalLifetimes
from simulator.engine import Engine
from simulator.episodes import Cause, Evidence, Late, episodes, grouped, slowed_jobs, wanted_curves
from simulator.lent import guests_of
from simulator.report import Lived, against, reference_of
from simulator.retold import curves_at_submit
from simulator.workload import Workload, make_workload
from solver.policies import POLICIES
from solver.policies.base import PolicyContext

HOUR_S = 3600.0


def workload(
    jobs: list[Job], durations_s: dict[str, float], eval_from_s: float = 0.0, **quotas: int
) -> Workload:
    return Workload(
        cluster=Cluster(tuple(Pool(name, quota) for name, quota in quotas.items())),
        jobs=tuple(sorted(jobs, key=submit_order)),
        outcomes={job_id: JobOutcome(job_id, duration_s) for job_id, duration_s in durations_s.items()},
        past=(),
        unended=(),
        train_until_s=0.0,
        eval_from_s=eval_from_s,
    )


def certain(*life_s: float) -> list[tuple[float, ...]]:
    return [tuple(float(edge < one) for edge in LIFE_EDGES_S) for one in life_s]


def lent_to_pool_b(life_s: float = 10 * HOUR_S):
    """Two jobs of b that wait in the reference get GPUs of a at 100 s; two of a come at 4,000 s and wait."""
    jobs = [
        *(Job(f"own{k}", "b", 0.0, 1) for k in range(2)),
        *(Job(f"guest{k}", "b", 100.0, 1, user="u", name=f"run{k}") for k in range(2)),
        *(job(f"a{k}", 4000.0 + k, 1, "a") for k in range(2)),
    ]
    durations = {
        "own0": 50 * HOUR_S,
        "own1": 50 * HOUR_S,
        "guest0": life_s,
        "guest1": life_s,
        "a0": 60.0,
        "a1": 60.0,
    }
    made = workload(jobs, durations, a=2, b=2)
    end_s = 100.0 + life_s
    stretches = [
        Stretch("own0", 0.0, 50 * HOUR_S, own_from_s=0.0),
        Stretch("own1", 0.0, 50 * HOUR_S, own_from_s=0.0),
        Stretch("guest0", 100.0, end_s, is_guest=True),
        Stretch("guest1", 100.0, end_s, is_guest=True),
        Stretch("a0", end_s, end_s + 60.0, own_from_s=end_s),
        Stretch("a1", end_s, end_s + 60.0, own_from_s=end_s),
    ]
    return made, Schedule(tuple(stretches))


def test_an_episode_says_who_was_hurt_and_who_was_on_the_lent_gpus():
    made, schedule = lent_to_pool_b()
    (one,) = episodes(made, schedule, reference_of(made))
    assert (one.begin_s, one.end_s) == (4000.0, 100.0 + 10 * HOUR_S)
    assert (one.jobs, one.evaluated_jobs, one.pools) == (2, 2, {"a": 2})
    assert one.worst_min == pytest.approx((100.0 + 10 * HOUR_S - 4000.0) / 60.0)
    assert one.total_min == pytest.approx(2 * one.worst_min - 1.0 / 60.0)
    (guests,) = one.guests
    assert (guests.pool, guests.jobs, guests.gpus, guests.widths) == ("b", 2, 2, {1: 2})
    assert guests.median_age_s == guests.longest_age_s == 3900.0
    assert guests.outlived_gpus is None
    assert one.cohort is not None
    assert (one.cohort.user, one.cohort.name, one.cohort.jobs, one.cohort.submitted_jobs) == (
        "u",
        "run#",
        2,
        2,
    )
    assert (one.guests_started, one.guests_sent_back) == (0, 0)


def test_guests_that_outlive_what_was_said_are_the_cause():
    made, schedule = lent_to_pool_b()
    short, long = (dict(zip(("guest0", "guest1"), certain(life, life), strict=True)) for life in (600.0, 1e6))
    (one,) = episodes(made, schedule, reference_of(made), short)
    assert one.cause == Cause.LIVES
    assert one.evidence.early_gpus == 2
    assert one.evidence.expected_early_gpus == 0.0
    assert one.guests[0].outlived_gpus == 2
    (one,) = episodes(made, schedule, reference_of(made), long)
    assert one.evidence.expected_early_gpus == 2.0
    assert one.guests[0].outlived_gpus == 0
    assert one.cause == Cause.ARRIVALS, "two GPUs are asked for within an hour, none usually are"
    assert episodes(made, schedule, reference_of(made))[0].cause == Cause.ARRIVALS


def test_what_is_asked_for_all_the_time_is_no_news():
    """The same guests, but each hour before two jobs of a second had come to pool a and gone."""
    made, schedule = lent_to_pool_b()
    jobs = [job(f"e{k}", 10.0 + HOUR_S * k - 30 * HOUR_S, 2, "a") for k in range(30)]
    usual = replace(
        made,
        jobs=tuple(sorted([*made.jobs, *jobs], key=submit_order)),
        outcomes={**made.outcomes, **{one.job_id: JobOutcome(one.job_id, 1.0) for one in jobs}},
        train_until_s=-30 * HOUR_S,
    )
    stretches = [Stretch(one.job_id, one.submit_s, one.submit_s + 1.0) for one in jobs]
    (one,) = episodes(usual, Schedule((*stretches, *schedule.stretches)), reference_of(usual))
    assert one.evidence.asked_gpus == 2
    assert one.evidence.usual_gpus == 2.0
    assert one.cause == Cause.PLANNER


@pytest.mark.parametrize(
    ("early", "expected", "asked", "usual", "cause"),
    [
        (14, 10.0, 9, 5.0, Cause.PLANNER),
        (15, 10.0, 9, 5.0, Cause.LIVES),
        (15, 10.0, 11, 5.0, Cause.ARRIVALS),
        (15, 10.0, 10, 5.0, Cause.LIVES),
        (99, None, 9, 5.0, Cause.PLANNER),
        (0, 50.0, 0, 5.0, Cause.PLANNER),
    ],
)
def test_the_rule(early, expected, asked, usual, cause):
    assert Evidence(10, 0.0, early, expected, asked, usual, HOUR_S).cause == cause


def late(due_s, start_s, pool="a"):
    return Late(due_s, start_s, start_s - due_s, job(f"{due_s}", due_s, 1, pool))


def test_jobs_belong_together_while_one_waits_and_for_an_hour_after():
    slowed = [
        late(0.0, 100.0),
        late(50.0, 5000.0),
        late(5000.0 + HOUR_S, 9000.0),
        late(9001.0 + HOUR_S, 13_000.0),
    ]
    assert [len(group) for group in grouped(slowed)] == [3, 1]
    assert [len(group) for group in grouped(slowed, gap_s=0.0)] == [2, 1, 1]
    assert grouped([]) == []


def test_nobody_late_is_no_episode():
    made, schedule = lent_to_pool_b(60.0)
    assert episodes(made, schedule, reference_of(made)) == []


def test_where_no_guests_are_marked_they_are_those_beyond_a_quota():
    made, schedule = lent_to_pool_b()
    plain = Schedule(
        tuple(one._replace(is_guest=False, own_from_s=one.start_s) for one in schedule.stretches)
    )
    assert [one.job_id for one in guests_of(made, plain)] == ["guest0", "guest1"]
    assert episodes(made, plain, reference_of(made)) == episodes(made, schedule, reference_of(made))


def test_guests_of_an_episode_and_those_that_could_have_been_are_asked_about():
    made, schedule = lent_to_pool_b()
    reference = reference_of(made)
    groups = grouped(slowed_jobs(made, Lived.of(schedule), reference))
    assert wanted_curves(groups, guests_of(made, schedule), reference) == {"guest0", "guest1"}
    over = [Stretch("guest0", 100.0, 200.0, is_guest=True), Stretch("a0", 100.0, 200.0, is_guest=True)]
    assert wanted_curves(groups, over, reference) == {"guest0"}, "a0 was due by then, whatever its life"


class Diary(Observer):
    """Writes down what it is told; its forecast is how much that was."""

    is_clairvoyant = False

    def __init__(self) -> None:
        self.told: list[tuple[str, str, float]] = []

    def submitted(self, job, now_s):
        self.told.append(("submitted", job.job_id, now_s))

    def started(self, job, now_s):
        self.told.append(("started", job.job_id, now_s))

    def rate_changed(self, job, now_s, rate):
        self.told.append((f"rate {rate}", job.job_id, now_s))

    def sent_back(self, job, now_s):
        self.told.append(("sent back", job.job_id, now_s))

    def ended(self, job, now_s, _duration_s):
        self.told.append(("ended", job.job_id, now_s))

    def quantile_s(self, _job, _level):
        return 1.0

    def survival(self, _job):
        return (float(len(self.told)),)


def test_a_forecaster_is_told_that_who_was_suspended_waits_again():
    made = workload([job("a", 0.0)], {"a": 10.0}, a=1)
    diary = Diary()
    curves_at_submit(made, Schedule((Stretch("a", 0.0, 4.0), Stretch("a", 6.0, 12.0))), diary, [diary], set())
    assert [(what, now_s) for what, _, now_s in diary.told] == [
        ("submitted", 0.0),
        ("started", 0.0),
        ("sent back", 4.0),
        ("started", 6.0),
        ("ended", 12.0),
    ]


def test_a_forecaster_is_told_the_rates_of_those_who_share():
    """A rate of 1 is not told at a start; nor are those of an attempt of which something was kept."""
    made = workload([job("a", 0.0), job("b", 0.0)], {"a": 10.0, "b": 4.0}, a=2)
    here, there = (Gpu("n", 0),), (Gpu("n", 1),)
    stretches = (
        Stretch("a", 0.0, 4.0, gpus=here),
        Stretch("b", 0.0, 2.0, True, rate=0.25, gpus=there),
        Stretch("b", 2.0, 4.0, True, rate=0.25, gpus=there, is_stopped=True),
        Stretch("b", 4.0, 10.0, rate=0.5, gpus=here),
        Stretch("a", 4.0, 10.0, rate=0.5, gpus=here),
        Stretch("a", 10.0, 13.0, gpus=here),
    )
    diary = Diary()
    curves_at_submit(made, Schedule(stretches), diary, [diary], set())
    assert diary.told[2:] == [
        *(("started", "b", 0.0), ("started", "a", 0.0)),
        *(("sent back", "b", 4.0), ("started", "b", 4.0), ("rate 0.5", "b", 4.0), ("rate 0.5", "a", 4.0)),
        *(("ended", "b", 10.0), ("rate 1.0", "a", 10.0), ("ended", "a", 13.0)),
    ]


def test_a_forecaster_is_told_everything_in_its_order_and_asked_at_the_submit():
    jobs = [job("a", 0.0), job("b", 5.0), job("c", 10.0)]
    made = workload(jobs, {"a": 10.0, "b": 3.0, "c": 0.0}, a=1)
    stretches = [
        Stretch("a", 0.0, 10.0),
        Stretch("b", 5.0, 8.0, is_guest=True, is_lost=True),
        Stretch("c", 10.0, 10.0),
        Stretch("b", 10.0, 13.0),
    ]
    diary = Diary()
    curves = curves_at_submit(made, Schedule(tuple(stretches)), diary, [diary], {"b", "c"})
    assert [(what, who) for what, who, _ in diary.told] == [
        ("submitted", "a"),
        ("started", "a"),
        ("submitted", "b"),
        ("started", "b"),
        ("sent back", "b"),
        ("ended", "a"),
        ("submitted", "c"),
        ("started", "c"),
        ("started", "b"),
        ("ended", "c"),
        ("ended", "b"),
    ]
    assert curves == {"b": (3.0,), "c": (7.0,)}


class Kept:
    """A forecaster whose answers are kept as the policy gets them."""

    is_clairvoyant = False

    def __init__(self, lives: EmpiricalLifetimes) -> None:
        self._lives = lives
        self.curves: dict[str, tuple[float, ...]] = {}

    def quantile_s(self, job, level):
        return self._lives.quantile_s(job, level)

    def survival(self, job):
        curve = self._lives.survival(job)
        self.curves.setdefault(job.job_id, curve)
        return curve


def test_what_is_found_again_is_what_the_policy_was_given():
    generated = philly_like(5, days=0.5, load=1.5, num_pools=3)
    history = from_frame(generated.frame, source="generated", quotas=generated.quotas)
    made = make_workload(history, generated.quotas, train_until_s=3600.0, eval_from_s=3600.0)
    lives = EmpiricalLifetimes()
    kept = Kept(lives)
    spec = POLICIES["anticipatory"]
    policy = spec.build(
        PolicyContext(made.cluster.quotas(), kept), spec.settings(requeueable=1.0, finish=1.0, eps=1.0)
    )
    schedule = Engine(
        jobs=made.jobs,
        outcomes=made.outcomes,
        capacity_gpus=made.cluster.capacity_gpus,
        policy=policy,
        observers=[lives],
        tick_s=spec.tick_s,
    ).run()
    assert any(stretch.is_lost for stretch in schedule.stretches)
    again = EmpiricalLifetimes()
    assert curves_at_submit(made, schedule, again, [again], set(kept.curves)) == kept.curves


def test_the_warm_up_is_counted_apart_and_days_have_an_interval():
    made, schedule = lent_to_pool_b()
    measures = against(replace(made, eval_from_s=4001.0), Lived.of(schedule), reference_of(made))
    assert (measures["slowed_jobs"], measures["slowed_in_warm_up"]) == (1, 1)
    assert measures["slowed_pct_in_warm_up"] == pytest.approx(20.0)
    assert measures["slowed_pct_with_warm_up"] == pytest.approx(100.0 / 3.0)
    assert (measures["slowed_pct_days_low"], measures["slowed_pct_days_high"]) == (100.0, 100.0)
    assert measures["slowed_days"] == 1
