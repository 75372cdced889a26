import numpy as np
import pandas as pd
import pytest

from data.rules import MAX_FAULTS, FaultLog, Rule, shown
from data.schema import COLUMNS, Kind, required_names
from data.validation import check_jobs, validate
from domain.errors import Fault, InputError
from domain.jobs import Job, JobState

QUOTAS = {"007": 8, "6214e9": 58}


def table(**changes: list[object]) -> pd.DataFrame:
    """Two good rows, with columns replaced or added."""
    columns: dict[str, list[object]] = {
        "job_id": ["a", "b"],
        "pool": ["007", "6214e9"],
        "submit_s": [0.0, 5.0],
        "num_gpus": [1, 8],
        "duration_s": [10.0, 0.0],
    }
    return pd.DataFrame(columns | changes)


def broken(frame: pd.DataFrame, **options: object) -> list[tuple[int | None, str]]:
    faults = validate(frame, source="memory", **{"quotas": QUOTAS, **options})
    return [(fault.line, fault.rule) for fault in faults]


def test_every_feature_of_a_job_is_a_column() -> None:
    names = {column.name for column in COLUMNS}
    assert set(Job.__slots__) | {"duration_s", "state", "start_s"} == names
    assert required_names(COLUMNS) == ("job_id", "pool", "submit_s", "num_gpus", "duration_s")


def test_columns_and_rules_are_described() -> None:
    assert all(column.meaning for column in COLUMNS)
    assert all(rule.meaning and "\n" not in rule.meaning for rule in Rule)
    assert len({rule.value for rule in Rule}) == len(Rule)


def test_a_good_table_has_no_faults_and_gets_every_column() -> None:
    checked = check_jobs(table(note=["x", "y"]), source="memory", quotas=QUOTAS)
    assert not checked.log
    assert checked.extra_columns == ("note",)
    assert list(checked.frame.columns) == [*(column.name for column in COLUMNS), "note"]
    for column in COLUMNS:
        assert checked.frame[column.name].dtype == pd.Series(dtype=column.kind.dtype).dtype
    assert checked.frame["user"].isna().all()


def test_columns_of_text_are_read_like_columns_of_numbers() -> None:
    as_text = table().astype({"submit_s": str, "num_gpus": str, "duration_s": str})
    left = check_jobs(as_text, source="memory").frame
    pd.testing.assert_frame_equal(left, check_jobs(table(), source="memory").frame)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"job_id": ["a", "a"]}, [(2, "duplicate-id")]),
        ({"job_id": ["a", None]}, [(2, "missing-value")]),
        ({"job_id": [None, None]}, [(1, "missing-value"), (2, "missing-value")]),
        ({"pool": ["007", 6214e9]}, [(2, "not-text")]),
        ({"pool": [7, 7]}, [(1, "not-text"), (2, "not-text")]),
        ({"pool": ["007", "7"]}, [(2, "unknown-pool")]),
        ({"num_gpus": [16, 8]}, [(1, "width-above-quota")]),
        ({"num_gpus": [1.5, 0]}, [(1, "not-an-integer"), (2, "width-below-one")]),
        ({"num_gpus": [True, 1]}, [(1, "not-a-number")]),
        ({"num_gpus": [None, 1]}, [(1, "missing-value")]),
        ({"submit_s": [np.inf, 0]}, [(1, "not-finite")]),
        ({"submit_s": [1.8e12, 0]}, [(1, "out-of-range")]),
        ({"duration_s": [-1, 0]}, [(1, "negative-duration")]),
        ({"limit_s": [0, None]}, [(1, "out-of-range")]),
        ({"requeue_u": [1.5, None]}, [(1, "out-of-range")]),
        ({"state": ["Completed", "exploded"]}, [(2, "unknown-state")]),
    ],
)
def test_a_broken_rule_is_found_where_it_is(
    changes: dict[str, list[object]], expected: list[tuple[int, str]]
) -> None:
    assert broken(table(**changes)) == expected


def test_messages_say_what_was_found_and_what_is_allowed() -> None:
    bad = table(num_gpus=[16, "x"], pool=["007", "lab"])
    messages = [fault.message for fault in validate(bad, source="memory", quotas=QUOTAS)]
    assert messages == [
        "num_gpus is 16, the quota of pool 007 is 8",
        "num_gpus is x, allowed is an integer from 1 to 2147483647 GPUs",
        "pool lab has no quota, the 2 pools are: 007, 6214e9",
    ]


def test_all_faults_of_all_rows_come_at_once_in_the_order_of_the_lines() -> None:
    bad = table(job_id=["a", ""], submit_s=["nan", "x"], num_gpus=["0", "2.5"], duration_s=["-1", ""])
    assert broken(bad, lines=np.array([40, 20])) == [
        (20, "missing-value"),
        (20, "not-a-number"),
        (20, "not-an-integer"),
        (20, "missing-value"),
        (40, "not-finite"),
        (40, "width-below-one"),
        (40, "negative-duration"),
    ]


def test_a_bad_row_takes_no_id_but_is_told_that_its_own_is_taken() -> None:
    bad = pd.concat([table(num_gpus=[0, 8]), table(num_gpus=[1, 0])], ignore_index=True)
    assert broken(bad) == [(1, "width-below-one"), (4, "width-below-one"), (4, "duplicate-id")]


def test_without_quotas_pools_and_widths_are_free() -> None:
    assert broken(table(pool=["x", "y"], num_gpus=[10_000, 1]), quotas=None) == []


def test_columns_are_judged_before_rows() -> None:
    bad = table(limit=[1, 2], limit_s=[1, 2]).drop(columns=["pool", "submit_s"])
    assert broken(bad) == [
        (None, "missing-column"),
        (None, "missing-column"),
        (None, "duplicate-column"),
    ]
    with pytest.raises(InputError, match="column pool is required"):
        check_jobs(bad, source="memory")


def test_an_index_from_elsewhere_does_not_matter() -> None:
    frame = table(job_id=["a", "a"], note=["x", "y"]).set_index(pd.Index([7, 7]))
    assert broken(frame) == [(2, "duplicate-id")]
    assert check_jobs(frame, source="memory").frame["note"].tolist() == ["x"]


def test_a_negative_zero_is_a_zero() -> None:
    frame = check_jobs(table(submit_s=["-0.0", -0.0]), source="memory").frame
    assert not np.signbit(frame["submit_s"]).any()


@pytest.mark.parametrize("text", ["1_000", "0x10", "٣", "1e", "--1", "1 2", "1,5", "true", ".", "+"])
def test_numbers_are_plain_decimal_numbers(text: str) -> None:
    assert broken(table(submit_s=[text, "1"])) == [(1, "not-a-number")]


@pytest.mark.parametrize(("text", "value"), [("+1", 1.0), (" .5", 0.5), ("2.", 2.0), ("1E3", 1000.0)])
def test_usual_spellings_of_numbers_are_accepted(text: str, value: float) -> None:
    for other in ("1", "x"):
        frame = check_jobs(table(submit_s=[text, other]), source="memory").frame
        assert frame["submit_s"][0] == value


@pytest.mark.parametrize("text", ["nan", "-INF", "Infinity", "1e999"])
def test_what_is_not_finite_is_named_so(text: str) -> None:
    assert broken(table(submit_s=[text, "1"])) == [(1, "not-finite")]


def test_states_are_stored_in_lower_case() -> None:
    frame = check_jobs(table(state=["TimeOut", ""]), source="memory").frame
    assert frame["state"][0] == JobState.TIMEOUT
    assert frame["state"].isna().tolist() == [False, True]


def test_only_so_many_faults_are_kept_and_the_rest_is_counted() -> None:
    num_rows = MAX_FAULTS + 5
    frame = pd.DataFrame({name: ["x"] * num_rows for name in required_names(COLUMNS)})
    faults = validate(frame, source="memory")
    assert len(faults) == MAX_FAULTS + 1
    assert faults[-1].rule == Rule.TOO_MANY_FAULTS
    total = 3 * num_rows  # nothing is good, so nothing is a duplicate
    assert str(total - MAX_FAULTS) in faults[-1].message


def test_logs_merge_by_line_and_keep_count() -> None:
    left, right = FaultLog("f"), FaultLog("f")
    left.add(9, Rule.FIELD_COUNT, "nine")
    right.add(3, Rule.NOT_FINITE, "three")
    right.count(2)
    left.absorb(right)
    assert [fault.message for fault in left.kept] == ["three", "nine"]
    assert len(left) == 4


def test_shown_values_are_short_and_printable() -> None:
    assert shown("a\x1b[31m\nb\u202e") == "a\ufffd[31m\ufffdb\ufffd"
    assert len(shown("x" * 1_000_000)) == 60
    assert shown("x" * 60) == "x" * 60


def test_a_rule_is_its_id() -> None:
    assert str(Fault("f.csv", 3, Rule.NO_ROWS, "none")) == "f.csv:3: no-rows: none"
    assert Rule("no-rows") is Rule.NO_ROWS
    assert {kind.dtype for kind in Kind} == {"str", "int64", "float64"}
