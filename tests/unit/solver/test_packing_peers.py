"""The peers that let jobs share GPUs, on small cases whose right schedule is known."""

import pytest
from packed_worlds import replayed, shared_gpus, spans

from domain.errors import SettingError
from domain.jobs import Job
from solver.packing.candidates import PairRule
from solver.packing.time_shares import Combination, Offer, offers, time_shares
from solver.policies import POLICIES
from solver.policies.base import parse_settings
from solver.policies.gavel_makespan import TimeLedger
from solver.policies.lucid import LucidSettings, Scores, SharingScores

RULE = PairRule(shared_gpus().forecaster, redistributes=False)


def job(job_id: str, model: str, width: int = 1, submit_s: float = 0.0) -> Job:
    return Job(job_id, "all", submit_s, width, model=model)


# Lucid.

MEANS = {"calm": 0.8, "even": (0.8 + 0.65 + 0.3) / 3, "greedy": (0.95 + 0.5 + 0.4) / 3, "huge": 0.7}


def test_scores_by_the_published_limits():
    limits = LucidSettings(scores=Scores.PUBLISHED, tiny=0.8, medium=0.7)
    scores = SharingScores(list(MEANS), RULE, limits)
    assert {model: scores.of(model) for model in MEANS} == {"calm": 0, "even": 2, "greedy": 2, "huge": 1}
    assert scores.of("never measured") == scores.of(None) == 2


def test_scores_by_thirds():
    scores = SharingScores(list(MEANS), RULE, LucidSettings(scores=Scores.THIRDS))
    assert {model: scores.of(model) for model in MEANS} == {"calm": 0, "huge": 0, "greedy": 1, "even": 2}


def test_lucid_packs_scores_0_and_2_but_neither_2_and_1_nor_2_and_2():
    hosts = [(job("first", "even", 2), 100.0), (job("later", "even", 2, 1.0), 100.0)]
    assert spans(replayed("lucid", hosts)) == [("first", 0.0, 100.0, 1.0), ("later", 100.0, 200.0, 1.0)]
    hosts[1] = (job("later", "greedy", 2, 1.0), 100.0)
    assert spans(replayed("lucid", hosts)) == [("first", 0.0, 100.0, 1.0), ("later", 100.0, 200.0, 1.0)]
    hosts[1] = (job("later", "calm", 2, 1.0), 100.0)
    first, *both = spans(replayed("lucid", hosts))
    assert first == ("first", 0.0, 1.0, 1.0)
    end_s = pytest.approx(1.0 + 100.0 / 0.9)
    assert both[:2] == [("first", 1.0, end_s, 0.8), ("later", 1.0, end_s, 0.9)]


def test_lucid_does_not_join_a_much_shorter_job():
    rows = [(job("first", "calm", 2), 49.0), (job("later", "calm", 2, 1.0), 100.0)]
    assert [one.start_s for one in replayed("lucid", rows)] == [0.0, 49.0]
    rows[0] = (job("first", "calm", 2), 50.0)
    assert [one.start_s for one in replayed("lucid", rows) if one.job_id == "later"] == [1.0, 50.0]


def test_lucid_joins_jobs_of_its_width_only_and_prefers_idle_gpus():
    rows = [(job("wide", "calm", 2), 500.0), (job("thin", "calm", 1, 1.0), 10.0)]
    assert spans(replayed("lucid", rows))[-1] == ("thin", 500.0, 510.0, 1.0)
    both = replayed("lucid", rows, nodes=2)
    assert [one.gpus[0].node for one in both] == ["n0", "n1"]


def test_lucid_serves_the_least_service_first():
    rows = [(job("runs", "even", 2), 10.0), (job("long", "even", 1), 30.0), (job("wide", "even", 2), 12.0)]
    rows += [(job("wider", "even", 2), 16.0)]
    assert [one.job_id for one in replayed("lucid", rows)] == ["runs", "wide", "long", "wider"]


def test_lucid_joins_the_lowest_score_and_of_these_the_one_that_runs_longest():
    rows = [(job("a", "even"), 500.0), (job("b", "calm", 1, 1.0), 500.0), (job("c", "calm", 1, 2.0), 500.0)]
    stretches = replayed("lucid", rows)
    place = {one.job_id: one.gpus for one in stretches}
    assert place["c"] == place["b"] != place["a"]


# Gandiva.


def test_gandiva_undoes_a_pair_that_is_not_worth_it_and_remembers_its_models():
    rows = [
        (job("host", "even", 2), 500.0),
        (job("bad", "greedy", 2, 10.0), 100.0),
        (job("again", "greedy", 2, 20.0), 100.0),
    ]
    stretches = replayed("gandiva", rows)
    tried = [one for one in stretches if one.job_id == "bad"]
    assert (tried[0].start_s, tried[0].end_s, tried[0].rate) == (10.0, 70.0, 0.5)
    again = next(one for one in stretches if one.job_id == "again")
    assert again.start_s > 500.0, "the models are known"
    host = [one for one in stretches if one.job_id == "host"]
    assert [(one.start_s, one.end_s, one.rate) for one in host] == [
        (0.0, 10.0, 1.0),
        (10.0, 70.0, 0.3),
        (70.0, 542.0, 1.0),
    ]
    assert tried[1].start_s == 542.0
    assert sum(one.rate * (one.end_s - one.start_s) for one in tried) == pytest.approx(100.0), "work is kept"


def test_gandiva_keeps_a_pair_that_is_worth_it():
    rows = [(job("host", "even", 2), 500.0), (job("good", "calm", 2, 10.0), 180.0)]
    good = [one for one in replayed("gandiva", rows) if one.job_id == "good"]
    assert spans(good) == [("good", 10.0, 210.0, 0.9)]


def test_gandiva_measures_for_as_long_as_it_is_told():
    rows = [(job("host", "even", 2), 500.0), (job("bad", "greedy", 2, 10.0), 100.0)]
    tried = [one for one in replayed("gandiva", rows, measure_s="20") if one.job_id == "bad"]
    assert tried[0].end_s == 30.0


def test_gandiva_never_tries_what_does_not_fit():
    rows = [(job("host", "even", 2), 50.0), (job("huge", "huge", 2, 10.0), 10.0)]
    assert spans(replayed("gandiva", rows))[-1] == ("huge", 50.0, 60.0, 1.0)


def test_gandiva_moves_those_who_share_to_gpus_that_nobody_waits_for():
    rows = [(job("a", "huge"), 100.0), (job("b", "even"), 400.0), (job("c", "even", 1, 10.0), 400.0)]
    together = {one.job_id: one.gpus for one in replayed("gandiva", rows, moves="false")}
    assert len(set(together.values())) == 2
    moved = [one for one in replayed("gandiva", rows) if one.job_id == "c"]
    assert moved[0].gpus in together.values()
    assert moved[-1].gpus == together["a"]
    assert moved[-1].rate == 1.0


def test_gandiva_draws_whom_to_join_by_its_seed():
    rows = [(job(f"h{k}", "calm"), 900.0) for k in range(8)]
    rows.append((job("new", "calm", 1, 10.0), 50.0))

    def joined(seed: int) -> str:
        stretches = replayed("gandiva", rows, nodes=4, seed=str(seed))
        (mine,) = [one for one in stretches if one.job_id == "new"]
        return next(one.job_id for one in stretches if one.gpus == mine.gpus and one.job_id != "new")

    assert [joined(seed) for seed in range(6)] == [joined(seed) for seed in range(6)]
    assert len({joined(seed) for seed in range(6)}) > 2


# Gavel.


def solo(*names: str, width: int = 1) -> list[Offer]:
    return [Offer(Combination(name), width, (1.0,)) for name in names]


def test_time_is_split_by_what_is_left_where_jobs_take_turns():
    shares = time_shares(solo("a", "b"), {"a": 300.0, "b": 100.0}, 1)
    assert shares == pytest.approx({Combination("a"): 0.75, Combination("b"): 0.25}, abs=1e-5)


def test_time_shares_of_a_pair_reach_the_known_optimum():
    """One GPU, equal work: both at 0.8 together take 1 / 0.8 of the time, taking turns takes 2."""
    pair = Offer(Combination("a", "b"), 1, (0.8, 0.8))
    shares = time_shares([*solo("a", "b"), pair], {"a": 100.0, "b": 100.0}, 1)
    assert shares == pytest.approx({Combination("a", "b"): 1.0}, abs=1e-5)


def test_time_shares_mix_a_pair_with_the_slower_job_by_itself():
    """Rates 1.0 and 0.5 for equal work on one GPU: p + a = 1 / T, 0.5 p + b = 1 / T, p + a + b = 1.

    With a = 0 that is p = 2 / 3 and b = 1 / 3.
    """
    pair = Offer(Combination("a", "b"), 1, (1.0, 0.5))
    shares = time_shares([*solo("a", "b"), pair], {"a": 100.0, "b": 100.0}, 1)
    assert shares == pytest.approx({Combination("a", "b"): 2 / 3, Combination("b"): 1 / 3}, abs=1e-5)


def test_time_shares_weigh_widths_and_no_job_has_more_than_all_of_the_time():
    found = [*solo("wide", width=2), *solo("a", "b")]
    shares = time_shares(found, {"wide": 100.0, "a": 100.0, "b": 100.0}, 2)
    assert shares == pytest.approx(
        {Combination("wide"): 0.5, Combination("a"): 0.5, Combination("b"): 0.5}, abs=1e-5
    )
    alone = time_shares(solo("a", "b"), {"a": 900.0, "b": 1.0}, 4)
    assert alone == pytest.approx({Combination("a"): 1.0, Combination("b"): 1.0}, abs=1e-5)
    assert time_shares([], {}, 4) == {}


def test_only_pairs_of_equal_width_that_are_worth_it_are_offered():
    jobs = [job("a", "calm"), job("b", "even"), job("c", "greedy"), job("d", "huge"), job("w", "calm", 2)]
    found = {offer.combination: offer.rates for offer in offers(jobs, RULE, 8)}
    pairs = {one: rates for one, rates in found.items() if one.second is not None}
    assert pairs == {
        Combination("a", "b"): (0.9, 0.8),
        Combination("a", "c"): (0.6, 0.95),
        Combination("a", "d"): (0.7, 0.7),
    }
    assert len(found) == len(jobs) + len(pairs)
    assert all(one.second is None for one in (offer.combination for offer in offers(jobs, RULE, 0)))


def test_equals_name_different_partners():
    jobs = [job(f"j{k}", "calm") for k in range(6)]
    pairs = [offer.combination for offer in offers(jobs, RULE, 1) if offer.combination.second is not None]
    assert {name for pair in pairs for name in pair.jobs()} == {one.job_id for one in jobs}


def test_priority_is_time_owed_over_time_had():
    ledger, one, other = TimeLedger(), Combination("a"), Combination("b")
    ledger.count([], 0.0)
    ledger.shares = {one: 0.5, other: 0.25}
    ledger.count([one], 100.0)
    assert ledger.priority(one, 100.0) == 1.0
    assert ledger.priority(other, 100.0) == float("inf")
    ledger.count([one, other], 200.0)
    assert ledger.priority(one, 0.0) == pytest.approx(0.5)
    assert ledger.priority(other, 0.0) == pytest.approx(0.5)
    ledger.forget("b")
    assert ledger.priority(other, 100.0) == 0.0


def test_gavel_takes_turns_in_rounds_by_what_is_left():
    """Two wide jobs that cannot share, one with three times as much left: it has 3 of 4 rounds at first."""
    rows = [(job("long", "huge", 2), 3 * 3_600.0), (job("short", "huge", 2), 3_600.0)]
    stretches = replayed("gavel-makespan", rows)
    had = {"long": 0.0, "short": 0.0}
    for one in stretches:
        had[one.job_id] += max(0.0, min(one.end_s, 4 * 360.0) - one.start_s)
    assert had == {"long": 3 * 360.0, "short": 360.0}
    assert all(one.start_s % 360.0 == 0.0 for one in stretches)
    assert max(one.end_s for one in stretches) == 4 * 3_600.0


def test_gavel_runs_a_pair_that_is_worth_it_all_the_time():
    rows = [(job("a", "calm", 2), 900.0), (job("b", "huge", 2), 900.0)]
    end_s = pytest.approx(900.0 / 0.7)
    assert spans(replayed("gavel-makespan", rows)) == [("a", 0.0, end_s, 0.7), ("b", 0.0, end_s, 0.7)]


def test_gavel_puts_all_anew_where_rests_of_nodes_are_too_small():
    """One GPU of either node is taken; the wide job is owed time, so one of the thin ones moves."""
    rows = [(job(f"t{k}", "huge"), 400.0 if k < 2 else 2_000.0) for k in range(4)]
    rows += [(job("wide", "huge", 2, 1.0), 2_000.0)]
    stretches = replayed("gavel-makespan", rows, nodes=2)
    wide = [one for one in stretches if one.job_id == "wide"]
    assert wide[0].start_s == 360.0
    assert all(len({gpu.node for gpu in one.gpus}) == 1 for one in wide)


# What may be set.


@pytest.mark.parametrize(
    ("policy", "name", "value"),
    [
        ("lucid", "tiny", "1.1"),
        ("lucid", "medium", "0.96"),
        ("lucid", "level", "1"),
        ("gandiva", "measure_s", "0"),
        ("gandiva", "measure_s", "inf"),
        ("gandiva", "seed", "-1"),
        ("gavel-makespan", "round_s", "0"),
        ("gavel-makespan", "round_s", "inf"),
        ("gavel-makespan", "pairs", "-1"),
    ],
)
def test_what_cannot_be_set_is_refused(policy, name, value):
    with pytest.raises(SettingError, match=f"policy {policy}: {name} is {value}"):
        parse_settings(policy, POLICIES[policy].settings, {name: value})
