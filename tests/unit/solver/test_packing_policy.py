"""`packing`, on cases whose right answer is known."""

import pytest
from packed_worlds import TABLE, ToldLives, make_nodes, replayed, spans

from data.pairs import PairTable
from domain.jobs import Job
from domain.plans import Plan, WorkerShares
from models.interference.measured import MeasuredRates
from solver.policies import POLICIES
from solver.policies.base import PolicyContext, parse_settings


def job(
    job_id: str, model: str, width: int = 1, submit_s: float = 0.0, deadline_s: float | None = None
) -> Job:
    return Job(job_id, "all", submit_s, width, model=model, deadline_s=deadline_s)


def starts_of(rows: list[tuple[Job, float]], nodes: int = 1, **chosen: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in replayed("packing", rows, nodes, **chosen):
        found.setdefault(one.job_id, one.start_s)
    return found


def three(model: str) -> list[tuple[Job, float]]:
    """Two that fill a node, and one that comes later."""
    return [(job("a", model), 1000.0), (job("b", model), 1000.0), (job("c", model, submit_s=10.0), 100.0)]


def test_a_pair_shares_where_that_adds_work_and_waits_where_it_does_not():
    assert starts_of(three("calm"))["c"] == 10.0
    assert starts_of(three("greedy"))["c"] == 1000.0, "0.4 + 0.4 is less than one alone"


def test_what_is_shortest_starts_first():
    full = [(job("a", "greedy", 2), 1000.0)]
    rows = [*full, (job("long", "huge", 2, 1.0), 900.0), (job("short", "huge", 2, 2.0), 50.0)]
    assert starts_of(rows) == {"a": 0.0, "short": 1000.0, "long": 1050.0}


def test_unequal_widths_share_only_where_they_may():
    rows = [(job("host", "calm", 2), 1000.0), (job("rider", "even", 1, 10.0), 100.0)]
    assert starts_of(rows, unequal="off")["rider"] == 1000.0
    assert starts_of(rows, unequal="on")["rider"] == 10.0


@pytest.mark.parametrize(("liss", "rate"), [("off", 0.9), ("on", 0.95)])
def test_a_host_goes_at_its_slowest_worker_or_at_their_mean(liss, rate):
    rows = [(job("host", "calm", 2), 1000.0), (job("rider", "even", 1, 10.0), 80.0)]
    found = spans(replayed("packing", rows, liss=liss))
    assert ("rider", 10.0, 110.0, 0.8) in found
    assert [row[3] for row in found if row[0] == "host"] == [1.0, pytest.approx(rate), 1.0]


def test_no_host_loses_more_than_its_budget_under_promise():
    rows = [(job("a", "calm"), 1000.0), (job("b", "calm"), 1000.0), (job("c", "even", 1, 10.0), 100.0)]
    assert starts_of(rows, objective="promise", sigma="0.05")["c"] == 1000.0
    assert starts_of(rows, objective="promise", sigma="0.1")["c"] == 1000.0, "0.9 is the median only"
    assert starts_of(rows, objective="promise", sigma="0.5")["c"] == 10.0
    assert starts_of(rows, objective="jct", sigma="0.05")["c"] == 10.0


def test_who_can_be_in_time_goes_before_who_cannot():
    full = [(job("a", "greedy", 2), 1000.0)]
    late = job("late", "huge", 2, 1.0, deadline_s=500.0)
    in_time = job("in-time", "huge", 2, 2.0, deadline_s=2000.0)
    rows = [*full, (late, 300.0), (in_time, 800.0)]
    assert starts_of(rows, objective="jct")["late"] == 1000.0
    assert starts_of(rows, objective="deadline")["in-time"] == 1000.0


def planned(table: PairTable, **chosen: str) -> Plan:
    """The plan for a short job that comes while a long one has the only GPU."""
    lives = ToldLives({"long": 90_000.0, "short": 100.0})
    spec, nodes = POLICIES["packing"], make_nodes(1, 1)
    context = PolicyContext(
        {"all": 1}, lives, hosts=nodes, pairs=MeasuredRates(table), under_shares=table.under_shares
    )
    rule = spec.build(context, parse_settings("packing", spec.settings, chosen))
    long, short = job("long", "even"), job("short", "even", 1, 10.0)
    rule.submitted(long, 0.0)
    rule.decide(0.0, 1)
    rule.started(long, 0.0)
    rule.submitted(short, 10.0)
    return rule.decide(10.0, 0)


MEASURED = PairTable(
    TABLE.rates,
    TABLE.unfit,
    {
        ("even", "even"): {
            (100, 20): (0.99, 0.6),
            (20, 100): (0.6, 0.99),
            (100, 40): (0.7, 0.62),
            (40, 100): (0.62, 0.7),
        }
    },
)


def test_shares_that_were_measured_are_part_of_the_choice():
    plan = planned(MEASURED, lgrr="on")
    assert [start.job.job_id for start in plan.starts] == ["short"]
    assert set(plan.shares) == {WorkerShares("short", (100,)), WorkerShares("long", (20,))}


def test_without_lgrr_or_without_a_large_gain_nobody_is_capped():
    assert planned(MEASURED, lgrr="off").shares == ()
    assert planned(TABLE, lgrr="on").shares == ()
