"""Real traps of Slurm's ids, texts, limits and times, each with the behaviour that is right."""

import pytest
from slurm_exports import JOB, JSON_JOB, PENDING, ZURICH, Found, case, sacct, slurmdbd

from data.intake.driver import import_file
from data.intake.format import ReadOptions
from data.rules import Rule
from data.shelf.store import HistoryStore
from domain.attempts import INHERITED_LIMIT, UNKNOWN_LIMIT, UNLIMITED, Limit, LimitKind, Observation

HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("job_id", "num_tasks", "most_at_once"),
    [
        case("T01", "123456_[9201-10000%500]", 800, 500),
        case("T01", "56502501_[1%1]", 1, 1, note="one"),
        case("T01", "2653343_[3-4%2]", 2, 2, note="two"),
        case("T01", "57829110_[5-100]", 96, 96, note="no-cap"),
        case("T01", "7_[1,3,5-9:2%4]", 5, 4, note="list-and-steps"),
    ],
)
def test_a_pending_array_is_many_jobs_of_which_some_run_at_once(tmp_path, job_id, num_tasks, most_at_once):
    base = job_id.partition("_")[0]
    record = Found(tmp_path, sacct(PENDING | {"JobID": job_id, "JobIDRaw": base})).only
    assert (record.num_tasks, record.most_at_once) == (num_tasks, most_at_once)
    assert (record.raw_id, record.array_id, record.array_task) == (base, base, None)
    assert record.gpus_asked_milli == 1000, "of one task; what runs at once is most_at_once times that"


@pytest.mark.parametrize(
    ("tasks", "limit", "num_tasks", "most_at_once"),
    [
        case("T01", "9201-10000%500", 0, 800, 500, note="json"),
        case("T01", "5-100", 7, 96, 7, note="json-cap-beside-it"),
        case("T01", "[5-100]", 0, 96, 96, note="json-brackets"),
    ],
)
def test_a_pending_array_in_json(tmp_path, tasks, limit, num_tasks, most_at_once):
    array = {"job_id": 77, "task": tasks, "task_id": 4294967294}
    array["limits"] = {"max": {"running": {"tasks": limit}}}
    waits = JSON_JOB["time"] | {"start": 0, "end": 0, "elapsed": 0}
    record = Found(tmp_path, slurmdbd(JSON_JOB | {"array": array, "state": "PENDING", "time": waits})).only
    assert (record.num_tasks, record.most_at_once) == (num_tasks, most_at_once)


def test_a_list_of_tasks_that_is_cut_is_said_to_be(tmp_path):
    found = Found(tmp_path, sacct(PENDING | {"JobID": "77_[1-5,8,...%2]"}))
    assert found.only.num_tasks == 6
    assert found.rules == {"tasks-cut": 1}


@pytest.mark.parametrize(
    "content",
    [
        case("T03", sacct(JOB | {"JobIDRaw": "1043166", "JobID": "1043074_91"})),
        case(
            "T03",
            slurmdbd(JSON_JOB | {"job_id": 1043166, "array": {"job_id": 1043074, "task_id": 91}}),
            note="json",
        ),
    ],
)
def test_the_own_id_is_the_key_and_the_array_is_kept(tmp_path, content):
    record = Found(tmp_path, content).only
    assert record.raw_id == "1043166"
    assert (record.array_id, record.array_task, record.shown_id) == ("1043074", 91, "1043074_91")


@pytest.mark.parametrize(
    "content",
    [
        case("T04", sacct(*(JOB | {"JobIDRaw": f"{123 + k}", "JobID": f"123+{k}"} for k in range(2)))),
        case(
            "T04",
            slurmdbd(
                *(
                    JSON_JOB
                    | {"job_id": 123 + k, "het": {"job_id": 123, "job_offset": {"set": True, "number": k}}}
                    for k in range(2)
                )
            ),
            note="json",
        ),
    ],
)
def test_parts_of_a_heterogeneous_job_are_kept_together(tmp_path, content):
    found = Found(tmp_path, content).records
    assert [(one.het_id, one.het_offset, one.raw_id) for one in found] == [
        ("123", 0, "123"),
        ("123", 1, "124"),
    ]


@pytest.mark.parametrize("form", [case("T06", "sacct"), case("T06", "slurmdbd-json", note="json")])
def test_an_id_that_wrapped_around_is_another_job(tmp_path, form):
    if form == "sacct":
        old = {
            "User": "bob",
            "Submit": "2017-03-01T10:00:00",
            "Start": "2017-03-01T11:00:00",
            "End": "2017-03-01T12:00:00",
            "Eligible": "2017-03-01T10:00:00",
        }
        content = sacct(JOB | {"State": "RUNNING", "End": "Unknown"}, JOB | old)
    else:
        old = {
            name: JSON_JOB["time"][name] - 200_000_000 for name in ("submission", "eligible", "start", "end")
        }
        content = slurmdbd(JSON_JOB, JSON_JOB | {"user": "bob", "time": JSON_JOB["time"] | old})
    first, second = Found(tmp_path, content, form).records
    assert first.raw_id == second.raw_id
    assert first.key != second.key
    assert (first.user, second.user) == ("ana", "bob")


def requeued(submit: str, state: str, start: str, end: str) -> dict[str, str]:
    return JOB | {
        "State": state,
        "Submit": submit,
        "Eligible": submit,
        "Start": start,
        "End": end,
        "ElapsedRaw": "",
    }


DAY = "2024-05-01T"
ATTEMPTS = sacct(
    requeued(f"{DAY}01:00:00", "REQUEUED", f"{DAY}01:01:00", f"{DAY}01:04:49"),
    requeued(f"{DAY}01:04:49", "REQUEUED", f"{DAY}01:10:00", f"{DAY}01:14:33"),
    requeued(f"{DAY}01:14:33", "PREEMPTED", f"{DAY}01:20:00", f"{DAY}01:42:02"),
    requeued(f"{DAY}01:42:02", "COMPLETED", f"{DAY}01:50:00", f"{DAY}02:50:00"),
)


@pytest.mark.parametrize("content", [case("T07", ATTEMPTS)])
def test_attempts_of_a_job_that_came_back_are_records_of_their_own(tmp_path, content):
    found = Found(tmp_path, content).records
    assert len({one.key for one in found}) == 4
    assert {one.raw_id for one in found} == {"77"}
    assert [one.occupancy_s for one in found] == [229, 273, 1322, HOUR_S]
    assert [one.observation for one in found] == [Observation.RIGHT_CENSORED] * 3 + [Observation.FULL]


def test_an_import_of_attempts_keeps_all_of_them(tmp_path):
    path = tmp_path / "export"
    path.write_text(ATTEMPTS, encoding="utf-8")
    store = HistoryStore(tmp_path / "history")
    with store.importing() as into:
        assert import_file(path, "auto", ReadOptions(tz=ZURICH), into).new == 4
    assert len(store.records("alpha")) == 4


@pytest.mark.parametrize("state", [case("T08", "PREEMPTED"), case("T08", "REQUEUED", note="requeued")])
def test_an_attempt_that_was_preempted_does_not_end_its_job(tmp_path, state):
    record = Found(tmp_path, sacct(JOB | {"State": state})).only
    assert record.cause.is_end_of_attempt
    assert not record.cause.is_end_of_job


@pytest.mark.parametrize(
    "empty", [case("T10", ""), case("T10", " ", note="space"), case("T10", "None", note="word")]
)
def test_a_row_without_an_id_is_rejected_and_the_rest_is_read(tmp_path, empty):
    found = Found(tmp_path, sacct(JOB, JOB | {"JobID": empty, "JobIDRaw": empty}, JOB | {"JobIDRaw": "9"}))
    assert found.rules == {"no-job-id": 1}
    assert [one.raw_id for one in found.records] == ["77", "9"]


@pytest.mark.parametrize("closed", [case("T12", False), case("T12", True, note="parsable")])
@pytest.mark.parametrize("name", ["crazy|name", "|", "a||b|", "|x"])
def test_a_delimiter_in_the_one_free_text_is_put_back(tmp_path, name, closed):
    middle = {key: JOB[key] for key in JOB if key not in {"JobName", "Reason"}}
    for job in (JOB, {"JobName": "", **middle}):
        found = Found(tmp_path, sacct(job | {"JobName": name}, job, closed=closed))
        assert found.records[0].name == name
        assert found.rules == {"surplus-delimiter": 1}


@pytest.mark.parametrize(
    "free", [case("T12", {"WorkDir": "/a"}, note="two-free"), case("T12", None, note="none-free")]
)
def test_a_delimiter_that_may_stand_in_several_texts_or_none_is_rejected(tmp_path, free):
    job = JOB | free if free else {key: JOB[key] for key in JOB if key != "JobName"}
    surplus = job | {"Account": "a|b"}
    found = Found(tmp_path, sacct(job, surplus))
    assert found.rules == {"field-count": 1}
    assert len(found.records) == 1


@pytest.mark.parametrize(
    ("user", "kept"),
    [
        case("T14", "dom\u00e4nen-benutzer", "dom\u00e4nen-benutzer"),
        case("T14", "doma\u0308nen-benutzer", "dom\u00e4nen-benutzer", note="composed"),
        case("T14", "a\u202eb", "ab", note="bidi"),
    ],
)
def test_texts_are_composed_and_nothing_invisible_is_kept(tmp_path, user, kept):
    record = Found(tmp_path, sacct(JOB | {"User": user, "JobName": f"{user} job"})).only
    assert (record.user, record.name) == (kept, f"{kept} job")


@pytest.mark.parametrize("bad", [case("T14", "d\u00e9d\u00e9 job".encode("latin-1"), note="latin-1")])
def test_bytes_that_are_not_utf8_are_replaced_and_their_hash_is_kept(tmp_path, bad):
    good = sacct(JOB).encode()
    line = sacct(JOB | {"JobIDRaw": "78"}).encode().splitlines()[1].replace(b"train", bad)
    found = Found(tmp_path, good + line + b"\n")
    assert found.records[1].name == "d\ufffdd\ufffd job"
    assert found.records[1].text_hash is not None
    assert found.records[0].text_hash is None
    assert found.rules == {"not-utf8": 1}


@pytest.mark.parametrize("closed", [case("T15", True), case("T15", False, note="parsable2")])
def test_a_delimiter_at_the_end_of_each_line_is_no_column(tmp_path, closed):
    found = Found(tmp_path, sacct(JOB, JOB | {"JobName": ""}, closed=closed))
    assert [one.name for one in found.records] == ["train", None]
    assert found.rules == {}


@pytest.mark.parametrize("name", [case("T15", "JobName", note="header-by-hand")])
def test_lines_may_end_in_a_delimiter_where_their_header_does_not(tmp_path, name):
    header, *lines = sacct(JOB, JOB | {"JobIDRaw": "78"}, closed=True).splitlines(keepends=True)
    found = Found(tmp_path, header.rstrip("|\n") + "\n" + "".join(lines))
    assert [one.name for one in found.records] == [JOB[name]] * 2
    assert found.rules == {}


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        case("T18", "UNLIMITED", UNLIMITED),
        case("T18", "Partition_Limit", INHERITED_LIMIT, note="inherited"),
        case("T18", "120", Limit(LimitKind.FINITE, 7200.0), note="finite"),
        case("T18", "", UNKNOWN_LIMIT, note="not-said"),
        case("T18", "0", UNLIMITED, note="zero-lifts-limits"),
    ],
)
@pytest.mark.parametrize("column", ["TimelimitRaw", "Timelimit"])
def test_limits_without_an_end_are_no_numbers(tmp_path, column, text, limit):
    job = {key: JOB[key] for key in JOB if key != "TimelimitRaw"} | {column: text}
    assert Found(tmp_path, sacct(job)).only.limit == limit


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        case("T18", {"set": True, "infinite": False, "number": 120}, Limit(LimitKind.FINITE, 7200.0)),
        case("T18", {"set": False, "infinite": True, "number": 0}, UNLIMITED, note="infinite"),
        case("T18", {"set": False, "infinite": False, "number": 0}, INHERITED_LIMIT, note="not-set"),
        case("T18", 4294967295, UNLIMITED, note="int-infinite"),
        case("T18", 4294967294, INHERITED_LIMIT, note="int-not-set"),
        case("T18", 120, Limit(LimitKind.FINITE, 7200.0), note="int"),
        case("T18", "UNLIMITED", UNLIMITED, note="word"),
        case("T18", None, UNKNOWN_LIMIT, note="null"),
    ],
)
def test_limits_in_json(tmp_path, value, limit):
    job = JSON_JOB | {"time": JSON_JOB["time"] | {"limit": value}}
    assert Found(tmp_path, slurmdbd(job)).only.limit == limit


@pytest.mark.parametrize("pool", [case("T18", "gpu", note="partition")])
def test_an_inherited_limit_is_the_partitions(tmp_path, pool):
    content = sacct(JOB | {"TimelimitRaw": "Partition_Limit", "Partition": pool})
    found = Found(tmp_path, content, partition_max_s={pool: 5.0 * HOUR_S})
    assert found.only.limit == Limit(LimitKind.FINITE, 5.0 * HOUR_S)


@pytest.mark.parametrize(
    "null", [case("T19", word) for word in ("None", "Unknown", "NONE", "N/A", "INVALID", "", "unknown")]
)
def test_an_end_without_a_start_never_ran(tmp_path, null):
    gone = {
        "State": "CANCELLED by 5",
        "Start": null,
        "ElapsedRaw": "0",
        "AllocTRES": "",
        "NodeList": "None assigned",
    }
    record = Found(tmp_path, sacct(JOB | gone)).only
    assert record.observation is Observation.NEVER_RAN
    assert (record.start_s, record.compute_s, record.occupancy_s) == (None, None, None)
    assert record.end_s is not None


@pytest.mark.parametrize(
    "state", [case("T19", "CANCELLED", note="start-is-end"), case("T19", "FAILED", note="failed")]
)
def test_a_start_of_what_had_no_node_is_none(tmp_path, state):
    gone = {
        "State": state,
        "Start": JOB["End"],
        "ElapsedRaw": "0",
        "AllocTRES": "",
        "NodeList": "None assigned",
    }
    found = Found(tmp_path, sacct(JOB | gone))
    assert found.only.observation is Observation.NEVER_RAN
    assert found.rules == {"start-without-run": 1}


@pytest.mark.parametrize("state", [case("T19", "PENDING", note="expected-start")])
def test_an_expected_start_is_none(tmp_path, state):
    found = Found(tmp_path, sacct(PENDING | {"State": state, "Start": "2024-05-02T10:00:00"}))
    assert found.only.start_s is None
    assert found.rules == {"start-without-run": 1}


@pytest.mark.parametrize(
    ("text", "limit_s"),
    [
        case("T20", "4:00", 240),
        case("T20", "30:00", 1800, note="half-an-hour"),
        case("T20", "2-12", 216_000, note="days-hours"),
        case("T20", "14-0", 1_209_600, note="days"),
        case("T20", "10", 600, note="minutes"),
    ],
)
def test_limits_and_lengths_are_read_apart(tmp_path, text, limit_s):
    job = {key: JOB[key] for key in JOB if key != "TimelimitRaw"} | {"Timelimit": text}
    assert Found(tmp_path, sacct(job)).only.limit.limit_s == limit_s


@pytest.mark.parametrize(
    ("text", "elapsed_s"),
    [
        case("T20", "2-03:04:05", 183_845, note="elapsed"),
        case("T20", "35:45.828", 2145.828, note="fraction"),
        case("T20", "4:00", 240, note="minutes-seconds"),
    ],
)
def test_lengths_have_minutes_and_seconds_last(tmp_path, text, elapsed_s):
    job = {key: JOB[key] for key in JOB if key != "ElapsedRaw"}
    job |= {"Elapsed": text, "End": "2024-05-09T10:00:00"}
    assert Found(tmp_path, sacct(job)).only.compute_s == pytest.approx(elapsed_s)


def autumn(start: str, end: str, elapsed: float, submit: str = "01:00:00") -> dict[str, str]:
    day = "2024-10-27T"
    times = {"Submit": day + submit, "Eligible": day + submit, "Start": day + start, "End": day + end}
    return JOB | times | {"ElapsedRaw": f"{elapsed:.0f}"}


EARLY_S = 1_729_987_200.0  # 02:00 on 27 October 2024 in Zurich, the first time


@pytest.mark.parametrize(
    ("start", "end", "elapsed_s", "start_s"),
    [
        case("T22", "01:50:00", "02:30:00", 40 * 60, EARLY_S - 600),
        case("T22", "01:50:00", "02:30:00", 100 * 60, EARLY_S - 600, note="end-later"),
        case("T22", "02:30:00", "03:10:00", 40 * 60, EARLY_S + 5400, note="start-later"),
        case("T22", "02:30:00", "03:10:00", 100 * 60, EARLY_S + 1800, note="start-earlier"),
        case("T22", "02:50:00", "02:10:00", 20 * 60, EARLY_S + 3000, note="across"),
    ],
)
def test_the_length_tells_which_of_two_hours_it_was(tmp_path, start, end, elapsed_s, start_s):
    found = Found(tmp_path, sacct(autumn(start, end, elapsed_s)))
    assert found.only.start_s == start_s
    assert found.only.occupancy_s == elapsed_s
    assert set(found.rules) == {"repeated-hour"}


@pytest.mark.parametrize("first", [case("T22", "02:50:00", note="order-of-ids")])
def test_the_order_of_ids_tells_which_of_two_hours_it_was(tmp_path, first):
    jobs = (
        autumn("02:55:00", "04:00:00", 125 * 60, first) | {"JobIDRaw": "100", "JobID": "100"},
        autumn("02:12:00", "04:00:00", 108 * 60, "02:10:00") | {"JobIDRaw": "101", "JobID": "101"},
        autumn("02:32:00", "02:33:00", 60, "02:30:00") | {"JobIDRaw": "102", "JobID": "102"},
    )
    found = Found(tmp_path, sacct(*jobs)).records
    assert [one.submit_s - EARLY_S for one in found] == [3000, 4200, 5400]
    assert [one.start_s - EARLY_S for one in found] == [3300, 4320, 5520]
    assert found[2].occupancy_s == 60


@pytest.mark.parametrize("clock", [case("T22", "02:30:00", note="missing-hour")])
def test_an_hour_that_no_clock_showed_is_moved_forward(tmp_path, clock):
    day = "2024-03-31T"
    job = JOB | {"Submit": day + clock, "Eligible": "", "Start": day + "03:40:00", "End": day + "04:40:00"}
    found = Found(tmp_path, sacct(job))
    assert found.only.submit_s == 1_711_848_600.0, "03:30 in summer time"
    assert found.rules == {"missing-hour": 1}


@pytest.mark.parametrize("tz", [case("T23", None)])
def test_stamps_without_offset_and_a_cluster_without_zone_are_refused(tmp_path, tz):
    found = Found(tmp_path, sacct(JOB), tz=tz)
    assert found.report.fault["rule"] == Rule.NO_TIME_ZONE
    assert found.report.fault["line"] == 2
    assert "--tz" in found.report.fault["message"]


@pytest.mark.parametrize(
    ("submit", "start", "end"),
    [
        case("T24", "1714550400", "1714550700", "1714554300"),
        case("T24", "2024-05-01T08:00:00Z", "2024-05-01T08:05:00Z", "2024-05-01T09:05:00Z", note="utc"),
        case(
            "T24",
            "2024-05-01T10:00:00+0200",
            "2024-05-01T10:05:00+02:00",
            "2024-05-01T11:05:00+0200",
            note="offset",
        ),
    ],
)
def test_epochs_and_offsets_need_no_zone_and_ignore_the_process(tmp_path, monkeypatch, submit, start, end):
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    job = JOB | {"Submit": submit, "Eligible": submit, "Start": start, "End": end}
    record = Found(tmp_path, sacct(job, job), tz=None).records[1]
    here = Found(tmp_path, sacct(JOB)).only
    assert (record.submit_s, record.start_s, record.end_s) == (here.submit_s, here.start_s, here.end_s)
    assert record.submit_s == 1_714_550_400.0


@pytest.mark.parametrize(
    "content",
    [
        case("T26", sacct(JOB | {"ElapsedRaw": "1000", "Suspended": "00:43:20"})),
        case("T26", sacct(JOB | {"ElapsedRaw": "", "Suspended": "00:43:20"}), note="no-elapsed"),
        case(
            "T26",
            slurmdbd(JSON_JOB | {"time": JSON_JOB["time"] | {"elapsed": 1000, "suspended": 2600}}),
            note="json",
        ),
    ],
)
def test_a_suspended_job_held_its_gpus_longer_than_it_ran(tmp_path, content):
    found = Found(tmp_path, content)
    assert found.only.occupancy_s == HOUR_S
    assert found.only.compute_s == 1000
    assert found.rules == {}
