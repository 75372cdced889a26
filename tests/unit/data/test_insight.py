"""Findings: each on a small history that has it, none on a healthy one; censoring in medians; summaries."""

from dataclasses import replace

import numpy as np
import pytest

from data.insight.evidence import Evidence, merged_facts
from data.insight.finding import FindingId, supports
from data.insight.findings import findings
from data.insight.lives import lives_of
from data.insight.summary import WIDTHS, describe
from data.intake.format import Clock
from data.inventory_records import PoolRecord
from data.records import AttemptRecord
from data.shelf.arrow import table_of
from data.shelf.inventory import Inventory, merged_inventory
from data.shelf.jobs import jobs_view
from domain.attempts import UNKNOWN_LIMIT, EndCause, Limit, LimitKind

DAY_S = 86_400.0
FROM_S = 19_723 * DAY_S  # the first of January 2024, a Monday


def healthy(number=600, days=30):
    """Jobs of a cluster whose accounting is in order, all day long, most of which start soon."""
    rng = np.random.default_rng(0)
    records = []
    for k in range(number):
        submit_s = FROM_S + k * days * DAY_S / number
        start_s = submit_s + float(rng.integers(1, 1800))
        kind = int(rng.integers(0, 4))
        records.append(
            AttemptRecord(
                "c",
                str(k),
                submit_s,
                user=f"u{k % 9}",
                name=f"train-{kind}",
                pool=f"p{k % 2}",
                gpus_asked_milli=1000 * 2**kind,
                gpus_given_milli=1000 * 2**kind,
                cpus=8.0,
                limit=Limit(LimitKind.FINITE, 3600.0 * (1 + kind)),
                start_s=start_s,
                end_s=start_s + 60.0 * float(rng.integers(1, 300)),
                cause=EndCause.COMPLETED if k % 5 else EndCause.FAILED,
            )
        )
    return records


def evidence(records, **more):
    return Evidence(jobs_view(table_of(records)), **more)


def found(records, **more):
    return {one.finding: one for one in findings(evidence(records, **more))}


def changed(number=None, **fields):
    """The healthy history with fields that are the same in the first `number` records, or in all."""
    return [
        replace(one, **fields) if number is None or k < number else one for k, one in enumerate(healthy())
    ]


def waiting_over(at_s):
    """Jobs each of which waits over the same time of some day."""
    rng = np.random.default_rng(1)
    records = []
    for k, one in enumerate(healthy()):
        noon_s = FROM_S + (k // 20) * DAY_S + at_s
        submit_s = noon_s - float(rng.integers(60, 40_000))
        start_s = noon_s + float(rng.integers(60, 20_000))
        records.append(replace(one, submit_s=submit_s, start_s=start_s, end_s=start_s + 600.0))
    return records


def passed_only():
    return [replace(one, pool=one.pool if one.cause is EndCause.COMPLETED else None) for one in healthy()]


def without_days():
    return [one for one in healthy() if not 5 <= (one.submit_s - FROM_S) // DAY_S < 8]


def once_each():
    return [replace(one, name=f"job-{k}") for k, one in enumerate(healthy())]


def immediate():
    return [replace(one, start_s=one.submit_s) for one in healthy()]


def often_unknown():
    return [replace(one, user=None if k % 20 < 17 else one.user) for k, one in enumerate(healthy())]


def of_one_user():
    return [replace(one, user="service" if k % 4 else one.user) for k, one in enumerate(healthy())]


def known_late():
    return [replace(one, user=None if k < 300 else one.user) for k, one in enumerate(healthy())]


def still_running():
    return [
        replace(one, end_s=None, cause=EndCause.NOT_ENDED) if k > 580 else one
        for k, one in enumerate(healthy())
    ]


def as_processors():
    return [replace(one, cpus=one.gpus_asked_milli / 1000) for one in healthy()]


CASES = {
    FindingId.NO_USER_NO_NAME: (changed(user=None, name=None), {}),
    FindingId.NO_NAMES: (changed(name=None), {}),
    FindingId.USER_MOSTLY_UNKNOWN: (often_unknown(), {}),
    FindingId.ONE_USER: (of_one_user(), {}),
    FindingId.NO_POOLS: (changed(pool=None), {}),
    FindingId.POOL_OF_PASSED: (passed_only(), {}),
    FindingId.PART_ONLY: (known_late(), {}),
    FindingId.PATHS_IN_TEXT: (changed(100, name="/home/ada/run.sh --lr 1"), {}),
    FindingId.LITTLE_RECURRENCE: (once_each(), {}),
    FindingId.PENDING_AT_ONE_TIME: (waiting_over(12 * 3600.0), {}),
    FindingId.NO_WAITS: (immediate(), {}),
    FindingId.WAITS_DOUBTFUL: (healthy(), {"facts": {"waits_not_trustworthy": [True]}}),
    FindingId.GAPS_NOT_TIMES: (healthy(), {"facts": {"gaps_not_times": [True]}}),
    FindingId.RELATIVE_CLOCK: (healthy(), {"clock": Clock.RELATIVE}),
    FindingId.RELATIVE_DATES: (
        healthy(),
        {"clock": Clock.RELATIVE, "facts": {"hour_and_weekday_true_in": ["Asia/Shanghai"]}},
    ),
    FindingId.ZONE_ASSUMED: (healthy(), {"facts": {"zone_assumed": ["America/Los_Angeles"]}}),
    FindingId.CLOCK_CHANGED: (healthy(), {"rules": {"repeated-hour": 3}}),
    FindingId.DAYS_WITHOUT_ROWS: (without_days(), {}),
    FindingId.SHORT_RECORD: (healthy(days=10), {}),
    FindingId.CENSORED_AT_EDGE: (still_running(), {}),
    FindingId.TRUNCATED_AT_START: (changed(30, is_before_record=True), {}),
    FindingId.MOSTLY_CUT_OFF: (changed(400, cause=EndCause.CANCELLED), {}),
    FindingId.STATES_UNKNOWN: (changed(cause=EndCause.UNKNOWN), {}),
    FindingId.LIVES_WITH_WAITS: (healthy(), {"facts": {"life_includes_waiting": [True]}}),
    FindingId.FIELDS_TRIMMED: (healthy(), {"rules": {"trimmed": 552}}),
    FindingId.LENGTHS_DISAGREE: (healthy(), {"rules": {"duration-mismatch": 7}}),
    FindingId.NO_LIMITS: (changed(limit=UNKNOWN_LIMIT), {}),
    FindingId.LIMITS_SAY_LITTLE: (changed(550, limit=Limit(LimitKind.FINITE, 86_400.0)), {}),
    FindingId.ATTEMPTS_NOT_JOBS: (healthy(), {"facts": {"one_row_per_attempt": [True]}}),
    FindingId.PODS_NOT_JOBS: (healthy(), {"facts": {"pods_not_jobs": [True]}}),
    FindingId.NO_WIDTHS: (changed(gpus_asked_milli=None, gpus_given_milli=None, cpus=None), {}),
    FindingId.NO_GPU_COUNTS: (changed(gpus_asked_milli=None, gpus_given_milli=None), {}),
    FindingId.HARDLY_ANY_GPUS: (changed(590, gpus_asked_milli=0, gpus_given_milli=0), {}),
    FindingId.PROCESSORS: (as_processors(), {}),
    FindingId.WITHOUT_GPUS: (changed(100, gpus_asked_milli=0, gpus_given_milli=0), {}),
    FindingId.SHARES_OF_GPUS: (changed(100, gpus_asked_milli=460, gpus_given_milli=460), {}),
    FindingId.POOLS_COME_AND_GO: (
        healthy(),
        {
            "inventory": merged_inventory(
                Inventory(),
                [],
                [
                    PoolRecord("c", "old", 8, FROM_S),
                    PoolRecord("c", "old", 0, FROM_S + DAY_S),
                    PoolRecord("c", "new", 0, FROM_S),
                    PoolRecord("c", "new", 16, FROM_S + DAY_S),
                    PoolRecord("c", "same", 16, FROM_S),
                    PoolRecord("c", "same", 16, FROM_S + DAY_S),
                ],
            )[0]
        },
    ),
}
ALSO = {
    FindingId.GAPS_NOT_TIMES: {FindingId.NO_WAITS},
    FindingId.PART_ONLY: {FindingId.USER_MOSTLY_UNKNOWN},
}
"""What goes with a case because it is also true of it."""


def test_a_healthy_history_has_none():
    assert found(healthy()) == {}
    assert {one["verdict"] for one in supports([]).values()} == {"yes"}


@pytest.mark.parametrize("finding", list(FindingId), ids=str)
def test_each_is_found_where_it_is_and_nothing_else(finding):
    records, more = CASES[finding]
    made = found(records, **more)
    assert finding in made, sorted(made)
    assert set(made) <= {finding} | ALSO.get(finding, set())
    assert any(character.isdigit() for character in made[finding].message) or made[finding].numbers
    assert made[finding].as_json()["finding"] == finding.value


def test_numbers_are_told():
    made = found(often_unknown(), facts={"user_0_is_unknown": [True]})
    assert made[FindingId.USER_MOSTLY_UNKNOWN].numbers["share"] == pytest.approx(0.85)
    assert "85% of the jobs have no user (the source writes 0" in made[FindingId.USER_MOSTLY_UNKNOWN].message
    noon = found(waiting_over(16 * 3600.0))[FindingId.PENDING_AT_ONE_TIME]
    assert noon.numbers["share"] == 1.0
    assert abs(noon.numbers["at_s"] - 16 * 3600.0) <= 900.0
    pools = CASES[FindingId.POOLS_COME_AND_GO]
    (one,) = findings(evidence(pools[0], **pools[1]))
    assert one.numbers == {"changed": ["new", "old"], "born": ["new"], "dead": ["old"]}


def test_long_waits_alone_are_no_sign_of_a_look_at_noon():
    """Waits of several days hold every time of day."""
    records = [
        replace(one, start_s=one.submit_s + 5 * DAY_S, end_s=one.submit_s + 6 * DAY_S) for one in healthy()
    ]
    assert found(records) == {}


def test_a_cluster_known_by_its_inventory_only_says_what_that_shows():
    assert found([]) == {}
    pools = CASES[FindingId.POOLS_COME_AND_GO][1]["inventory"]
    assert list(found([], inventory=pools)) == [FindingId.POOLS_COME_AND_GO]


def test_supports_says_why_not():
    (one,) = findings(evidence(waiting_over(12 * 3600.0)))
    told = supports([one])
    assert told["demand"] == {"verdict": "no", "because": ["only-jobs-pending-at-one-time"]}
    assert told["lives"]["verdict"] == "weak"
    assert told["widths"]["verdict"] == "yes"


def test_facts_of_several_imports_come_together():
    reports = [
        {"facts": {"zone_assumed": "A"}, "rules": {"x": 1}},
        {"facts": {"zone_assumed": "B", "no_widths": True}, "rules": {"x": 2, "y": 1}},
    ]
    assert merged_facts(reports) == ({"zone_assumed": ["A", "B"], "no_widths": [True]}, {"x": 3, "y": 1})


def life(k, lived, cause=EndCause.COMPLETED, **more):
    return AttemptRecord(
        "c", str(k), 0.0, start_s=0.0, end_s=lived, cause=cause, gpus_asked_milli=1000, **more
    )


def test_medians_honour_lives_that_were_cut_off():
    """By hand: of six lives three are cut at 1 s; the rest end at 2, 4 and 8 s."""
    records = [life(k, 1.0, EndCause.CANCELLED) for k in range(3)]
    records += [life(3, 2.0), life(4, 4.0), life(5, 8.0), life(6, 99.0, is_before_record=True)]
    lives = lives_of(jobs_view(table_of(records)).jobs)
    assert (lives.whole, lives.cut_off, lives.truncated) == (3, 3, 1)
    assert lives.naive_median_s == 1.5
    assert lives.quantile_s(0.5) == 4.0
    np.testing.assert_allclose(
        lives.survival[np.isin(lives.times_s, (2.0, 4.0, 8.0))], (2 / 3, 1 / 3, 0), atol=1e-12
    )


def test_a_median_that_is_never_reached_is_none():
    lives = lives_of(
        jobs_view(table_of([life(0, 1.0), *(life(k, 5.0, EndCause.TIMEOUT) for k in range(1, 9))])).jobs
    )
    assert lives.quantile_s(0.5) is None
    assert lives.quantile_s(0.1) == 1.0
    none = lives_of(jobs_view(table_of([life(0, 1.0, EndCause.TIMEOUT)])).jobs)
    assert (none.whole, none.quantile_s(0.5), none.naive_median_s) == (0, None, 1.0)


def test_a_description_counts_everything_once():
    records = healthy()
    made = describe(evidence(records))
    assert made["jobs"] == made["attempts"] == len(records)
    assert sum(day["jobs"] for day in made["arrivals"]) == len(records)
    assert len(made["arrivals"]) == 30
    assert made["arrivals"][0]["day"] == "2024-01-01"
    assert sum(made["hours_of_week"]) == len(records)
    assert sum(made["widths"].values()) == len(records)
    assert set(made["widths"]) == set(WIDTHS)
    assert sum(made["states"].values()) == len(records)
    assert [row["jobs"] for row in made["pools"]] == [300, 300]
    assert made["recurrence"]["user_and_name_again_share"] > 0.9
    assert made["findings"] == []
    assert sum(row["gpu_hours"] for row in made["pools"]) == pytest.approx(
        sum(one.gpus_given_milli / 1000 * one.occupancy_s / 3600 for one in records)
    )


def test_hours_of_the_week_begin_on_monday_and_are_left_out_where_none_is_true():
    monday_3am = [AttemptRecord("c", "1", FROM_S + 3 * 3600.0)]
    assert describe(evidence(monday_3am))["hours_of_week"].index(1) == 3
    assert describe(evidence(monday_3am, clock=Clock.RELATIVE))["hours_of_week"] is None
    assert describe(evidence(monday_3am, clock=Clock.RELATIVE))["arrivals"][0]["day"] == "19723"


def test_widths_are_told_in_classes():
    milli = (0, 460, 1000, 2000, 3000, 8000, 16_000, 17_000, 65_000, None)
    records = [AttemptRecord("c", str(k), 0.0, gpus_asked_milli=one) for k, one in enumerate(milli)]
    assert describe(evidence(records))["widths"] == dict.fromkeys(WIDTHS, 1)


def test_pending_arrays_count_as_their_tasks():
    made = describe(evidence([AttemptRecord("c", "1", 0.0, gpus_asked_milli=2000, num_tasks=800)]))
    assert made["arrivals"] == [{"day": "1970-01-01", "jobs": 800, "gpus": 1600.0}]


def test_many_pools_are_told_in_one_line():
    records = [
        AttemptRecord("c", str(k), 0.0, pool=f"p{k:02d}", start_s=0.0, end_s=1.0 + k, gpus_asked_milli=1000)
        for k in range(40)
    ]
    rows = describe(evidence(records))["pools"]
    assert [row["pool"] for row in rows[:2]] == ["p39", "p38"]
    assert (rows[-1]["pool"], rows[-1]["jobs"]) == ("(other pools: 10)", 10)
