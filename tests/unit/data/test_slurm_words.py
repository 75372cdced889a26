"""Slurm's words, one by one: what has been seen in real files, and what it means."""

import pytest

from data.slurm.durations import parse_elapsed_s, parse_limit
from data.slurm.gpus import MigProfile, mig_profile, parse_gres, parse_tres
from data.slurm.job_ids import parse_job_id
from data.slurm.states import cancelled_by, parse_state
from domain.attempts import INHERITED_LIMIT, UNKNOWN_LIMIT, UNLIMITED, EndCause, Limit, LimitKind


@pytest.mark.parametrize(
    ("text", "limit_s"),
    [
        ("4:00", 240),
        ("30:00", 1800),
        ("2-12", 216_000),
        ("14-0", 1_209_600),
        ("10", 600),
        ("1-00:00:00", 86_400),
    ],
)
def test_a_limit_counts_minutes_where_it_has_no_more_fields(text, limit_s):
    assert parse_limit(text) == Limit(LimitKind.FINITE, limit_s)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("UNLIMITED", UNLIMITED),
        ("Infinite", UNLIMITED),
        ("Partition_Limit", INHERITED_LIMIT),
        ("", UNKNOWN_LIMIT),
        ("N/A", UNKNOWN_LIMIT),
        ("None", UNKNOWN_LIMIT),
    ],
)
def test_a_limit_that_is_no_number_is_told_apart_and_never_a_number(text, limit):
    assert parse_limit(text) == limit


def test_an_inherited_limit_is_the_partitions_where_that_is_known():
    assert INHERITED_LIMIT.resolved(3600.0) == Limit(LimitKind.FINITE, 3600.0)
    assert INHERITED_LIMIT.resolved(None) == UNKNOWN_LIMIT
    assert UNLIMITED.resolved(3600.0) == UNLIMITED


@pytest.mark.parametrize("text", ["1:60", "24:00:00:00", "1-24", "1-5:60", "5h", "-5", "1 2", "²", "1:2:61"])
def test_what_no_clock_shows_is_no_limit(text):
    with pytest.raises(ValueError, match=r"1|limit|has"):
        parse_limit(text)


@pytest.mark.parametrize(
    ("text", "elapsed_s"),
    [
        ("2-03:04:05", 183_845),
        ("35:45.828", 2145.828),
        ("00:00:00", 0),
        ("100:00:00", 360_000),
        ("Unknown", None),
    ],
)
def test_elapsed_time_has_minutes_and_seconds_last(text, elapsed_s):
    assert parse_elapsed_s(text) == pytest.approx(elapsed_s)


@pytest.mark.parametrize("text", ["10", "2-12", "1:75", "1-1:2"])
def test_elapsed_time_is_never_guessed_from_a_number_alone(text):
    with pytest.raises(ValueError, match=r"elapsed|seconds"):
        parse_elapsed_s(text)


@pytest.mark.parametrize(
    ("text", "by_type"),
    [
        ("gres/gpu:a100=1,gres/gpu=1", {"a100": 1}),
        ("cpu=4,gres/gpu:A100=2,gres/gpu:v100=1", {"a100": 2, "v100": 1}),
        ("gres/gpu=4,gres/gpu:a100=3", {"": 1, "a100": 3}),
        ("billing=192,cpu=192,mem=800G,node=1", {}),
        ("gres/gpu=0", {}),
    ],
)
def test_gpus_of_accounting(text, by_type):
    assert parse_tres(text).by_type == by_type


def test_a_type_is_said_only_where_all_gpus_have_it():
    assert parse_tres("gres/gpu=2,gres/gpu:a100=2").gpu_type == "a100"
    assert parse_tres("gres/gpu=3,gres/gpu:a100=2").gpu_type is None
    assert parse_tres("gres/gpu=3").gpu_type is None


@pytest.mark.parametrize("text", ["", "N/A", "(null)", "None"])
def test_nothing_said_about_gpus_is_unknown_and_not_zero(text):
    assert parse_tres(text) is None
    assert parse_gres(text) is None


@pytest.mark.parametrize(
    "text", ["gres/gpu", "gres/gpu=x", "gres/gpu=1.5", "gres/gpu=1,gres/gpu:a100=2", "=4", "gres/gpu=-1"]
)
def test_a_count_that_cannot_be_is_refused(text):
    with pytest.raises(ValueError, match=r"gpu|=4"):
        parse_tres(text)


def test_shards_and_mps_are_shares_and_no_gpus():
    found = parse_tres("gres/gpu=1,gres/shard=4,gres/mps=50")
    assert (found.total, found.shards, found.mps_pct) == (1, 4, 50)


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("gpu:h100:5(IDX:0-4)", 5),
        ("gpu:a100:4(S:0-1),gpu:2", 6),
        ("gpu", 1),
        ("gpu:tesla", 1),
        ("gpu=2", 2),
        ("license:matlab:3", 0),
    ],
)
def test_gpus_of_nodes(text, total):
    assert parse_gres(text).total == total


@pytest.mark.parametrize(
    ("gpu_type", "profile"),
    [
        ("1g.5gb", MigProfile(1, 5)),
        ("a100_1g.10gb+me", MigProfile(1, 10)),
        ("nvidia_a100_3g.20gb", MigProfile(3, 20)),
        ("mig-7g.80gb", MigProfile(7, 80)),
        ("a100", None),
        ("rtx_a5000_24gb", None),
    ],
)
def test_slices_are_told_from_whole_devices(gpu_type, profile):
    assert mig_profile(gpu_type) == profile


@pytest.mark.parametrize(
    ("text", "num_tasks", "cap"),
    [
        ("123456_[9201-10000%500]", 800, 500),
        ("56502501_[1%1]", 1, 1),
        ("2653343_[3-4%2]", 2, 2),
        ("57829110_[5-100]", 96, None),
        ("7_[1,3,5-9:2%4]", 5, 4),
    ],
)
def test_a_pending_array_is_many_jobs(text, num_tasks, cap):
    found = parse_job_id(text)
    assert (found.num_tasks, found.cap, found.is_pending_array) == (num_tasks, cap, True)


def test_other_ids_are_taken_apart():
    assert parse_job_id("1043074_91").task == 91
    assert parse_job_id("123+1").het_offset == 1
    assert parse_job_id("123.batch").step == "batch"
    assert parse_job_id(" 123 ").base == "123"
    assert not parse_job_id("1043074_91").is_pending_array


def test_a_list_of_tasks_that_was_cut_short_says_so():
    found = parse_job_id("12_[1,3,5,...%2]")
    assert (found.num_tasks, found.is_cut, found.cap) == (3, True, 2)


@pytest.mark.parametrize(
    "text", ["", "x", "12_[5-3]", "12_[]", "12_[1-4:0]", "12_[1%0]", "12_[1-9999999]", "-1", "1.2.3"]
)
def test_other_text_is_no_id(text):
    with pytest.raises(ValueError, match=r"id|task|run"):
        parse_job_id(text)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("CANCELLED by 1060117917", EndCause.CANCELLED),
        ("CANCELLED+", EndCause.CANCELLED),
        ("CANCELLED+(Reason)", EndCause.CANCELLED),
        ("OUT_OF_ME+", EndCause.OUT_OF_MEMORY),
        ("NODE_FAIL", EndCause.NODE_FAIL),
        ("completed", EndCause.COMPLETED),
        ("TO", EndCause.TIMEOUT),
        ("RUNNING", EndCause.NOT_ENDED),
        ("ASCENDED", None),
        ("", None),
        ("RE+", None),
    ],
)
def test_the_first_word_of_a_state_counts(text, cause):
    assert parse_state(text) is cause


def test_who_cancelled_is_kept_apart():
    assert cancelled_by("CANCELLED by 1060117917") == "1060117917"
    assert cancelled_by("CANCELLED") is None


def test_ends_that_may_come_back_do_not_close_a_job():
    assert EndCause.PREEMPTED.is_end_of_attempt
    assert not EndCause.PREEMPTED.is_end_of_job
    assert EndCause.TIMEOUT.is_end_of_job
    assert not EndCause.TIMEOUT.is_natural
    assert not EndCause.UNKNOWN.is_end_of_attempt


@pytest.mark.parametrize(("kind", "limit_s"), [(LimitKind.FINITE, None), (LimitKind.UNLIMITED, 60.0)])
def test_a_limit_has_seconds_if_and_only_if_it_is_finite(kind, limit_s):
    with pytest.raises(ValueError, match="limit"):
        Limit(kind, limit_s)
