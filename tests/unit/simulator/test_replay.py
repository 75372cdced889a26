"""A replay put together: which lives a policy is given, what is learned beforehand, what is refused."""

import pytest

from data.history import from_frame, from_jobs
from data.synthetic import philly_like
from domain.cluster import Node
from domain.errors import ClairvoyanceError, SettingError
from domain.jobs import Job, JobOutcome
from simulator.references import learned_estimates_s, reference_world
from simulator.replay import replay
from simulator.report import Lived, reference_of
from simulator.workload import make_workload
from solver.policies import POLICIES

QUOTAS = {"a": 1}
HOUR_S = 3600.0


def history(*rows, limit_s=None, quotas=None):
    """Rows are (id, submit, duration) or (id, submit, duration, pool, width)."""
    jobs, outcomes = [], {}
    for job_id, submit_s, duration_s, *more in rows:
        pool, width = more or ("a", 1)
        jobs.append(
            Job(job_id, pool, float(submit_s), width, name=job_id.rstrip("0123456789"), limit_s=limit_s)
        )
        outcomes[job_id] = JobOutcome(job_id, float(duration_s))
    return from_frame(from_jobs(jobs, outcomes), source="test", quotas=quotas or QUOTAS)


def workload(*rows, train_until_s=100.0, eval_from_s=100.0, earlier=None, limit_s=None):
    return make_workload(
        history(*rows, limit_s=limit_s),
        QUOTAS,
        train_until_s=train_until_s,
        eval_from_s=eval_from_s,
        earlier=earlier,
    )


PAST = [*((f"slow{k}", k, 50) for k in range(6)), *((f"quick{k}", 10 + k, 2) for k in range(6))]
"""Six jobs of 50 s and six of 2 s; all had ended by 100 s."""

QUEUE = [("first", 100, 30), ("slow7", 101, 1), ("quick7", 102, 40)]
"""One runs, two wait. By what has been learned `quick7` is the shorter of the two, in truth `slow7` is."""


def order_of_starts(outcome):
    return sorted(outcome.schedule.first_starts(), key=outcome.schedule.first_starts().__getitem__)


def test_it_learns_from_the_past():
    outcome = replay(workload(*PAST, *QUEUE), "ssf", {})
    assert outcome.settings["lives"] == "learned"
    assert not outcome.saw_truth
    assert order_of_starts(outcome) == ["first", "quick7", "slow7"]


def test_true_lives_may_be_asked_for_where_the_truth_may_be_seen():
    outcome = replay(workload(*PAST, *QUEUE), "ssf", {"lives": "true"}, may_see_truth=True)
    assert outcome.settings["lives"] == "true"
    assert outcome.saw_truth
    assert order_of_starts(outcome) == ["first", "slow7", "quick7"]


def test_that_the_truth_may_be_seen_is_not_enough():
    outcome = replay(workload(*PAST, *QUEUE), "ssf", {}, may_see_truth=True)
    assert outcome.settings["lives"] == "learned"
    assert not outcome.saw_truth
    assert order_of_starts(outcome) == ["first", "quick7", "slow7"]


@pytest.mark.parametrize(("may_see_truth", "lives"), [(True, "true"), (False, "learned")])
def test_a_policy_defined_by_given_estimates_gets_true_ones_where_they_may_be_seen(may_see_truth, lives):
    outcome = replay(workload(*PAST, *QUEUE), "backfill", {}, may_see_truth=may_see_truth)
    assert outcome.settings["lives"] == lives
    asked = replay(workload(*PAST, *QUEUE), "backfill", {"lives": "learned"}, may_see_truth=may_see_truth)
    assert asked.settings["lives"] == "learned"


def test_it_goes_on_learning_while_it_replays():
    """Nothing is known beforehand; six jobs that end during the replay tell the two names apart."""
    seen = [(f"{name}{k}", 100 + k, 5) for k, name in enumerate(["x"] * 6)]
    seen += [(f"y{k}", 140 + k, 1) for k in range(6)]
    queue = [("first", 200, 30), ("x8", 201, 1), ("y8", 202, 40)]
    outcome = replay(workload(*seen, *queue), "ssf", {})
    assert order_of_starts(outcome)[-2:] == ["y8", "x8"]


def test_true_lives_without_permission_are_refused():
    with pytest.raises(ClairvoyanceError, match="ssf needs the truth: allow it with --clairvoyant"):
        replay(workload(*QUEUE), "ssf", {"lives": "true"})


def test_true_arrivals_without_permission_are_refused():
    with pytest.raises(ClairvoyanceError, match="sia needs the truth: allow it with --clairvoyant"):
        replay(workload(*QUEUE), "sia", {"arrivals": "true"})
    outcome = replay(workload(*QUEUE), "sia", {"arrivals": "true"}, may_see_truth=True)
    assert outcome.settings["arrivals"] == "true"


def test_a_clairvoyant_policy_needs_permission():
    with pytest.raises(ClairvoyanceError, match="--clairvoyant"):
        replay(workload(*QUEUE), "gssf", {})
    assert replay(workload(*QUEUE), "gssf", {}, may_see_truth=True).settings["lives"] == "true"


@pytest.mark.parametrize("may_see_truth", [True, False])
def test_a_clairvoyant_policy_takes_no_learned_lives(may_see_truth):
    with pytest.raises(ClairvoyanceError, match=r"--clairvoyant|clairvoyant by definition"):
        replay(workload(*QUEUE), "gssf", {"lives": "learned"}, may_see_truth=may_see_truth)


def test_an_unknown_policy_is_refused_with_those_there_are():
    with pytest.raises(SettingError, match="unknown policy 'magic'") as refused:
        replay(workload(*QUEUE), "magic", {})
    assert all(name in str(refused.value) for name in POLICIES)


def test_a_policy_that_asks_for_no_lives_has_no_such_setting():
    with pytest.raises(SettingError, match="fcfs asks for no lives"):
        replay(workload(*QUEUE), "fcfs", {"lives": "learned"})
    outcome = replay(workload(*QUEUE), "fcfs", {}, may_see_truth=True)
    assert dict(outcome.settings) == {}
    assert not outcome.saw_truth


def test_a_policy_that_never_asks_has_not_seen_the_truth():
    outcomes = {
        order: replay(workload(*QUEUE), "reclaim", {"order": order, "lives": "true"}, may_see_truth=True)
        for order in ("fifo", "shortest")
    }
    assert not outcomes["fifo"].saw_truth
    assert outcomes["shortest"].saw_truth


def test_unknown_lives_are_refused_with_those_there_are():
    with pytest.raises(
        SettingError, match=r"lives=guessed is unknown; there are: auto, true, learned, .*limit"
    ):
        replay(workload(*QUEUE), "ssf", {"lives": "guessed"})


def test_limits_serve_as_lives_where_the_record_has_them():
    outcome = replay(workload(*QUEUE, limit_s=HOUR_S), "ssf", {"lives": "limit"})
    assert outcome.settings["lives"] == "limit"
    assert order_of_starts(outcome) == ["first", "slow7", "quick7"], "all alike: in the order of submit"


def test_limits_cannot_serve_where_the_record_has_none():
    with pytest.raises(SettingError, match="job first has no limit_s: lives=limit needs that column"):
        replay(workload(*QUEUE), "ssf", {"lives": "limit"})


def test_settings_in_force_are_told_with_the_defaults():
    outcome = replay(workload(*QUEUE), "reclaim", {"order": "shortest", "retrain_days": "2"})
    assert dict(outcome.settings) == {
        "order": "shortest",
        "requeueable": 1.0,
        "victim": "youngest",
        "reclaim_s": 0.0,
        "lives": "learned",
        "retrain_days": 2.0,
    }
    assert outcome.policy == "reclaim"


@pytest.mark.parametrize("days", ["-1", "366", "often", "nan"])
def test_an_impossible_pace_of_training_is_refused(days):
    with pytest.raises(SettingError, match=f"retrain_days is '{days}'"):
        replay(workload(*QUEUE), "ssf", {"retrain_days": days})


def test_a_policy_that_asks_for_no_forecasts_is_not_retrained():
    with pytest.raises(SettingError, match="fcfs asks for no forecasts"):
        replay(workload(*QUEUE), "fcfs", {"retrain_days": "2"})


def test_a_policy_that_asks_for_no_arrivals_has_no_such_setting():
    with pytest.raises(SettingError, match="ssf asks for no arrivals"):
        replay(workload(*QUEUE), "ssf", {"arrivals": "learned"})


def test_a_setting_of_another_policy_is_refused():
    with pytest.raises(SettingError, match="policy ssf has no setting 'victim'; it can set: level"):
        replay(workload(*QUEUE), "ssf", {"victim": "oldest"})


def test_a_time_to_reclaim_goes_with_counted_gpus_only():
    on_nodes = make_workload(
        history(*QUEUE), QUOTAS, train_until_s=100.0, eval_from_s=100.0, nodes=[Node("n", 1)]
    )
    with pytest.raises(SettingError, match="leave out the nodes"):
        replay(on_nodes, "anticipatory", {"reclaim_s": "30"})
    assert replay(workload(*QUEUE), "reclaim", {"reclaim_s": "30"}).settings["reclaim_s"] == 30.0


def test_progress_reaches_the_caller():
    told = []
    replay(workload(*QUEUE), "fcfs", {}, progress=lambda ended, of: told.append((ended, of)))
    assert told == [(3, 3)]


# Cutting a history.


def test_the_past_is_what_had_ended_and_the_replay_what_comes_after():
    made = workload(
        *[("ended", 10, 90), ("late", 10, 91), ("at", 100, 5), ("after", 130, 7)], eval_from_s=120.0
    )
    assert [(job.job_id, duration_s) for job, duration_s in made.past] == [("ended", 90.0)]
    assert [(job.job_id, age_s) for job, age_s in made.unended] == [("late", 90.0)]
    assert [job.job_id for job in made.jobs] == ["at", "after"]
    assert made.durations_s() == {"at": 5.0, "after": 7.0}
    assert made.cluster.quotas() == QUOTAS
    assert (made.train_until_s, made.eval_from_s) == (100.0, 120.0)


def test_earlier_jobs_are_learned_from_if_they_had_ended_all_in_the_order_of_ending():
    earlier = history(("e-long", -50, 60), ("e-late", 99, 2), ("e-short", -40, 5), ("e-at", 90, 10))
    made = workload(("one", 0, 5), ("two", 1, 90), ("run", 100, 1), earlier=earlier)
    assert [job.job_id for job, _ in made.past] == ["e-short", "one", "e-long", "two", "e-at"]
    assert [(job.job_id, age_s) for job, age_s in made.unended] == [("e-late", 1.0)]
    assert [job.job_id for job in made.jobs] == ["run"], "earlier jobs are never replayed"


def test_the_past_is_learned_in_the_order_of_ending():
    made = workload(("b", 0, 50), ("c", 1, 2), ("a", 10, 40), ("run", 100, 1))
    assert [job.job_id for job, _ in made.past] == ["c", "a", "b"]


def test_nothing_to_measure_is_refused():
    with pytest.raises(SettingError, match="eval-from = 500 s: nothing to measure"):
        workload(*QUEUE, eval_from_s=500.0)


# Worlds without sharing to measure against.


def test_the_default_is_the_reference_of_every_report():
    one = workload(*PAST, *QUEUE)
    assert reference_world(one, "fcfs") == reference_of(one)


@pytest.mark.parametrize("may_see_truth", [True, False])
def test_backfilling_is_what_the_policy_does_with_the_same_estimates(may_see_truth):
    one = workload(*PAST, *QUEUE, ("quick8", 102, 1), ("slow8", 103, 20))
    done = replay(one, "backfill", {}, may_see_truth=may_see_truth)
    assert reference_world(one, "backfill", may_see_truth=may_see_truth) == Lived.of(done.schedule)


def test_learned_estimates_are_what_was_believed_at_submit():
    believed = learned_estimates_s(workload(*PAST, *QUEUE))
    assert believed["slow7"] > believed["quick7"]
    assert believed.keys() == {"first", "slow7", "quick7"}


def test_an_unknown_reference_is_refused():
    with pytest.raises(SettingError, match="no reference 'best'; there are: fcfs, backfill, priority"):
        reference_world(workload(*PAST, *QUEUE), "best")


def test_pools_and_nodes_are_taken_by_name_however_they_are_listed():
    nodes = [Node("n2", 2), Node("n1", 1)]
    listed = [("b", 1), ("a", 2)]
    made = [
        make_workload(
            history(*PAST, ("late", 200, 5)),
            dict(pools),
            train_until_s=100.0,
            eval_from_s=100.0,
            nodes=named,
        ).cluster
        for pools, named in ((listed, nodes), (listed[::-1], nodes[::-1]))
    ]
    assert made[0] == made[1]
    assert list(made[0].quotas()) == ["a", "b"]
    assert [node.name for node in made[0].nodes] == ["n1", "n2"]


@pytest.mark.parametrize("policy", ["anticipatory", "planned", "sia", "maxmin"])
def test_the_order_of_the_rows_of_a_file_changes_no_decision_of_learned_forecasts(policy):
    """Scenarios break ties by the pool's place, so the place may not come from the file."""
    made = philly_like(3, days=1.15, load=1.0, num_pools=3)
    history_of_it = from_frame(made.frame, source="test", quotas=made.quotas)
    listings = [list(made.quotas.items()), list(made.quotas.items())[::-1]]
    schedules = [
        replay(
            make_workload(history_of_it, dict(pools), train_until_s=86_400.0, eval_from_s=86_400.0),
            policy,
            {},
        ).schedule
        for pools in listings
    ]
    assert schedules[0] == schedules[1]
