"""Rows of one attempt become one: against a slow oracle, in any order, any number of times."""

from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.records import AttemptRecord
from data.shelf.arrow import SCHEMA, records_of, table_of
from data.shelf.merge import _FILLED, merged
from domain.attempts import UNKNOWN_LIMIT, UNLIMITED, EndCause, Limit, LimitKind

WHAT_IT_IS = tuple(_FILLED)


CAUSES = (EndCause.NOT_ENDED, EndCause.COMPLETED, EndCause.UNKNOWN, EndCause.PREEMPTED)


@st.composite
def attempts(draw):
    """Few keys and few values, so that rows of the same attempt are common, equal and different ones."""
    start_s = draw(st.sampled_from((None, None, 60.0, 120.0)))
    run_s = draw(st.sampled_from((None, 0.0, 30.0)))
    return AttemptRecord(
        cluster="c",
        raw_id=draw(st.sampled_from(("1", "2", "10"))),
        submit_s=draw(st.sampled_from((10.0, 50.0))),
        attempt=draw(st.sampled_from((0, 0, 1))),
        pool=draw(st.sampled_from((None, "p", "q"))),
        user=draw(st.sampled_from((None, "u"))),
        gpus_asked_milli=draw(st.sampled_from((None, 1000, 500))),
        array_task=draw(st.sampled_from((None, 3))),
        start_s=start_s,
        end_s=None if start_s is None or run_s is None else start_s + run_s,
        compute_s=draw(st.sampled_from((None, 5.0))),
        limit=draw(st.sampled_from((UNKNOWN_LIMIT, Limit(LimitKind.FINITE, 60.0), UNLIMITED))),
        cause=draw(st.sampled_from(CAUSES)),
        reason=draw(st.sampled_from((None, "r"))),
    )  # fmt: skip


pulls = st.lists(attempts(), min_size=1, max_size=8)


def knows(one: AttemptRecord) -> tuple[Any, ...]:
    """How much a row knows, by the rule as the docstring has it."""
    cause = 2 * one.cause.is_end_of_attempt + one.cause.is_end_of_job + (one.cause is not EndCause.UNKNOWN)
    nothing = float("-inf")
    return (
        cause,
        one.start_s is not None,
        nothing if one.end_s is None else one.end_s,
        nothing if one.compute_s is None else one.compute_s,
    )


def by_hand(rows: list[AttemptRecord]) -> dict[Any, AttemptRecord]:
    """The rule, slowly: the row that knows most, the last of equals, with gaps filled from the next best."""
    found: dict[Any, list[AttemptRecord]] = {}
    for one in rows:
        found.setdefault(one.key, []).append(one)
    made = {}
    for key, several in found.items():
        ranked = sorted(enumerate(several), key=lambda item: (knows(item[1]), item[0]))
        best = ranked[-1][1]
        for name in WHAT_IT_IS:
            for _, other in reversed(ranked):
                if getattr(best, name) is None and getattr(other, name) is not None:
                    best = replace(best, **{name: getattr(other, name)})
        if best.limit == UNKNOWN_LIMIT:
            said = (other.limit for _, other in reversed(ranked) if other.limit != UNKNOWN_LIMIT)
            best = replace(best, limit=next(said, UNKNOWN_LIMIT))
        made[key] = best
    return made


def history(*imports: list[AttemptRecord]) -> tuple[pa.Table, list[tuple[int, int, int]]]:
    known, counts = None, []
    for one in imports:
        result = merged(known, table_of(one))
        known = result.table
        counts.append((result.new, result.updated, result.unchanged))
    assert known is not None
    return known, counts


def of(table: pa.Table) -> dict[Any, AttemptRecord]:
    rows = records_of(table)
    assert len({one.key for one in rows}) == len(rows)
    assert [one.key for one in rows] == sorted(
        (one.key for one in rows), key=lambda key: (key[2], key[1], key[3])
    )
    return {one.key: one for one in rows}


def fixed(max_examples: int):
    return settings(max_examples=max_examples, deadline=None, derandomize=True)


@fixed(120)
@given(pulls)
def test_one_import_is_what_the_rule_makes_of_its_rows(rows):
    table, counts = history(rows)
    assert of(table) == by_hand(rows)
    assert table.schema.equals(SCHEMA)
    assert counts == [(len({one.key for one in rows}), 0, 0)]


@fixed(100)
@given(pulls, pulls)
def test_two_imports_are_what_the_rule_makes_of_one_after_the_other(first, second):
    table, counts = history(first, second)
    before = by_hand(first)
    after = by_hand([*before.values(), *second])
    assert of(table) == after
    keys = {one.key for one in second}
    new = len(keys - before.keys())
    changed = sum(after[key] != before[key] for key in keys & before.keys())
    assert counts[1] == (new, changed, len(keys) - new - changed)


@fixed(60)
@given(pulls, pulls)
def test_the_same_again_changes_nothing(first, second):
    table, _ = history(first, second)
    again, counts = history(first, second, second)
    assert again.equals(table)
    assert counts[2] == (0, 0, len({one.key for one in second}))


SAID = {"pool": "p", "user": "u", "gpus_asked_milli": 1000, "array_task": 3}


def never_equal(rows: list[AttemptRecord]) -> list[AttemptRecord]:
    """No two rows of an attempt know equally much, and those that say what it is say the same."""
    kept = {}
    for one in rows:
        said: dict[str, Any] = {name: value for name, value in SAID.items() if getattr(one, name) is not None}
        said["limit"] = UNLIMITED if one.limit != UNKNOWN_LIMIT else UNKNOWN_LIMIT
        kept[one.key, knows(one)] = replace(one, **said, reason=None)
    return list(kept.values())


@fixed(100)
@given(pulls, st.data())
def test_the_order_and_grouping_of_imports_make_no_difference_where_one_row_knows_more(rows, data):
    rows = never_equal(rows)
    whole = of(history(rows)[0])
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(1, len(rows)))
    parts = [part for part in (shuffled[:cut], shuffled[cut:]) if part]
    assert of(history(*parts)[0]) == whole
    assert of(history(*([one] for one in shuffled))[0]) == whole


@fixed(40)
@given(pulls)
def test_overlapping_pulls_are_their_union(rows):
    rows = never_equal(rows)
    third = max(1, len(rows) // 3)
    assert of(history(rows[: 2 * third], rows[third:])[0] if len(rows) > third else history(rows)[0]) == of(
        history(rows)[0]
    )


# Stories


RUNNING = AttemptRecord(
    "c", "7", 10.0, user="u", gpus_asked_milli=2000, start_s=20.0, cause=EndCause.NOT_ENDED
)
PENDING = replace(RUNNING, start_s=None, nodes=None)
ENDED = replace(RUNNING, user=None, end_s=90.0, cause=EndCause.COMPLETED, nodes="n1", gpus_asked_milli=None)


@pytest.mark.parametrize(
    "order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2,) * 3 + (0, 1)]
)
def test_a_job_that_was_seen_three_times_is_known_as_it_ended(order):
    rows = [PENDING, RUNNING, ENDED]
    table, _ = history(*([rows[place]] for place in order))
    assert records_of(table) == [replace(ENDED, user="u", gpus_asked_milli=2000)]


def test_a_preempted_attempt_gives_way_to_the_end_of_the_job():
    preempted = replace(ENDED, cause=EndCause.PREEMPTED, end_s=200.0)
    for rows in ([preempted, ENDED], [ENDED, preempted]):
        (found,) = records_of(history(rows)[0])
        assert found.cause is EndCause.COMPLETED


def test_two_submissions_and_two_attempts_of_an_id_stay_apart():
    rows = [ENDED, replace(ENDED, submit_s=5.0), replace(ENDED, attempt=1)]
    assert len(records_of(history(rows)[0])) == 3


def test_a_zero_is_a_zero():
    rows = [replace(ENDED, submit_s=0.0), replace(ENDED, submit_s=-0.0)]
    assert history(rows)[1] == [(1, 0, 0)]


def test_what_fills_gaps_never_says_when_or_how_it_ended():
    told = {field.name for field in fields(AttemptRecord)} - set(WHAT_IT_IS)
    assert {"start_s", "end_s", "compute_s", "cause", "reason", "actor", "is_before_record"} <= told
