"""Advice on packing: the numbers of one pair by hand, the four objectives, risks, hosts and refusals."""

import pytest

from app.services.packing_advice import AskedJob, Ends, Question, advise, parse_job, together
from app.services.packing_hosts import rank_hosts
from app.services.packing_rates import Basis, PairKnowledge, chance_below, load_knowledge
from data.profiles import ModelProfile
from data.readers.packing_csv import RunningJob
from domain.cluster import Gpu
from domain.errors import SettingError
from domain.interference import RateForecast
from models.interference.estimate import ProfileEstimate

PAIRS = """model_a,model_b,rate_a,rate_b,share_a_pct,share_b_pct
big,big,0.45,0.45,,
big,small,0.85,0.9,,
big,small,0.97,0.7,100,40
small,small,0.95,0.95,,
"""


@pytest.fixture
def known(tmp_path) -> PairKnowledge:
    path = tmp_path / "pairs.csv"
    path.write_text(PAIRS)
    return load_knowledge(path, None, is_complete=False)


def test_who_is_left_alone_goes_on_at_full_speed():
    assert together((100.0, 100.0), (0.5, 0.8)) == Ends(125.0 + (100.0 - 62.5), 125.0)


def test_the_promise_takes_the_measured_share_at_which_the_host_keeps_its_budget(known):
    question = Question("promise", budget=0.1)
    advice = advise(AskedJob("h", "big", left_s=6000.0), AskedJob("r", "small"), known, question)
    assert advice.is_advised
    assert advice.basis is Basis.MEASURED
    assert advice.fit_chance == 1.0
    assert advice.setting is not None
    assert advice.setting.rates[0].lower >= 0.9
    assert advice.over_budget_chance < 0.1
    assert advice.packed is not None
    assert advice.packed.rider_s < advice.apart.rider_s == 9600.0


def test_the_promise_refuses_where_no_share_keeps_it(known):
    advice = advise(AskedJob("h", "big"), AskedJob("r", "big"), known, Question("promise", budget=0.01))
    assert not advice.is_advised
    assert "budget" in advice.why


def test_a_measured_setting_is_believed_and_said_to_be_measured(known):
    settings = {one.shares_pct: one for one in known.of("big", "small").settings}
    assert settings[(100.0, 40.0)].is_measured
    assert settings[(100.0, 40.0)].rates[0].median == pytest.approx(0.97, abs=0.005)
    assert not settings[(100.0, 50.0)].is_measured
    for one in settings.values():
        assert all(0.0 < rate.lower <= rate.median <= rate.upper <= 1.0 for rate in one.rates)


def test_objectives_differ_in_what_they_squeeze(known):
    long, short = AskedJob("h", "big", left_s=20_000.0), AskedJob("r", "small", left_s=1000.0)
    makespan = advise(long, short, known, Question("makespan"))
    jct = advise(long, short, known, Question("jct"))
    assert makespan.packed is not None
    assert jct.packed is not None
    assert max(makespan.packed) <= max(jct.packed)
    assert sum(jct.packed) <= sum(makespan.packed)
    late = AskedJob("h", "big", left_s=3000.0, deadline_s=3100.0)
    deadline = advise(late, AskedJob("r", "small", left_s=3000.0), known, Question("deadline"))
    assert deadline.is_advised
    assert deadline.packed is not None
    assert deadline.packed.host_s <= 3100.0


def test_apart_may_begin_with_the_shorter_only_where_neither_runs(known):
    host, rider = AskedJob("h", "big", left_s=9000.0), AskedJob("r", "big", left_s=60.0)
    assert advise(host, rider, known, Question("jct")).apart == Ends(9000.0, 9060.0)
    assert advise(host, rider, known, Question("jct", may_reorder=True)).apart == Ends(9060.0, 60.0)


def test_the_wider_job_hosts_and_balancing_spreads_its_loss(known):
    rider, host = AskedJob("r", "small", 1), AskedJob("h", "big", 4)
    plain = advise(rider, host, known, Question("jct"))
    spread = advise(rider, host, known, Question("jct", is_balanced=True))
    assert plain.host == spread.host == host
    assert plain.packed is not None
    assert spread.packed is not None
    assert sum(spread.packed) < sum(plain.packed)


@pytest.mark.parametrize(
    ("memory", "gpu_memory_mib", "chance"),
    [((9000.0, 9000.0), 20_000.0, 1.0), ((9000.0, 12_000.0), 20_000.0, 0.0), ((None, None), None, None)],
)
def test_memory_decides_whether_it_fits(memory, gpu_memory_mib, chance):
    estimate = ProfileEstimate({"x": ModelProfile(0.3, None)})
    jobs = [AskedJob(str(k), "x", memory_mib=one) for k, one in enumerate(memory)]
    advice = advise(*jobs, PairKnowledge(estimate), Question("jct", gpu_memory_mib=gpu_memory_mib))
    assert advice.fit_chance == chance
    assert advice.is_advised is (chance != 0.0)
    assert ("if both fit" in advice.why) is (chance is None)


def test_told_memory_counts_where_pairs_only_forecast(known):
    jobs = [AskedJob(str(k), name, memory_mib=30_000.0) for k, name in enumerate(("big", "new"))]
    assert advise(*jobs, known, Question("jct", gpu_memory_mib=40_000.0)).fit_chance == 0.0


def test_a_complete_table_says_what_does_not_fit(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text(PAIRS.replace("big,big,0.45,0.45,,\n", ""))
    for is_complete in (True, False):
        knowledge = load_knowledge(path, None, is_complete=is_complete)
        advice = advise(AskedJob("h", "big"), AskedJob("r", "big"), knowledge, Question("jct"))
        assert (advice.setting is None) is is_complete
        assert advice.fit_chance == (0.0 if is_complete else None)


def test_the_chance_of_falling_below_follows_the_interval():
    rate = RateForecast(0.4, 0.6, 0.9)
    assert chance_below(rate, 0.4) == pytest.approx(0.1)
    assert chance_below(rate, 0.6) == pytest.approx(0.5)
    assert chance_below(rate, 0.9) == pytest.approx(0.9)
    assert chance_below(rate, 0.0) == 0.0
    assert chance_below(RateForecast(0.6, 0.6, 0.6), 0.7) == 1.0


def running(name: str, model: str, *gpus: int, may_host: bool = True) -> RunningJob:
    return RunningJob(name, model, tuple(Gpu("n0", k) for k in gpus), 7200.0, None, None, None, may_host)


def test_hosts_are_ranked_and_those_that_cannot_be_say_why(known):
    jobs = [
        running("a", "big", 0),
        running("b", "small", 1),
        running("c", "small", 2),
        running("d", "small", 2),
        running("e", "small", 3, may_host=False),
    ]
    hosts = rank_hosts(AskedJob("r", "small", left_s=600.0), jobs, known, Question("jct"))
    assert [one.host.name for one in hosts.ranked] == ["b", "a"]
    assert [name for name, _ in hosts.excluded] == ["c", "d", "e"]
    wide = rank_hosts(AskedJob("r", "small", 2), jobs[:1], known, Question("jct"))
    assert wide.ranked == ()
    assert "narrower" in wide.excluded[0][1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "width=2",
        "x,wide=2",
        "x,width=two",
        "x,width=1.5",
        "x,width=0",
        "x,left_s=nan",
        "x,left_s=1,left_s=2",
    ],
)
def test_a_job_that_is_not_written_as_it_should_be_is_refused(text):
    with pytest.raises(SettingError, match="--job"):
        parse_job(text, "first")


def test_a_job_is_read_with_its_batch_size():
    job = parse_job("ResNet-50 (batch size 32), width=2,left_s=60,deadline_s=-5,memory_mib=900", "first")
    assert job == AskedJob("first", "ResNet-50 (batch size 32)", 2, 900.0, 60.0, -5.0)


def test_an_objective_that_is_not_known_is_refused(known):
    with pytest.raises(SettingError, match="none of jct"):
        advise(AskedJob("a", "big"), AskedJob("b", "big"), known, Question("speed"))
