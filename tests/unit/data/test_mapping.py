"""Mappings: what they may say, what they must not, and that they read what they say."""

import io
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import REPOSITORY
from tables_support import imported

from data.formats import FORMATS
from data.intake.mapping import MappingError
from data.intake.mapping_text import built_in, load_mapping, parse_mapping
from data.rules import Rule
from domain.attempts import EndCause, Limit, LimitKind, Observation
from domain.errors import InputError

WHOLE = """
title = "jobs of a site"
zone = "Europe/Zurich"
delimiter = ";"
nulls = ["?"]

[columns]
raw_id = "Job"
pool = { value = "gpu" }
user = { column = "Who", nulls = ["root"] }
submit = "Sent"
wait = { column = "Waited", unit = "min" }
run = { column = "Ran", unit = "slurm" }
limit = { column = "Limit", unit = "h", unlimited = ["none at all"] }
gpus = { column = "GPU %", unit = "percent", times = "Nodes", shares_of_many = true }
cpus = { column = "CPUs", times = "Nodes" }
memory = { column = "Mem", unit = "GiB" }
num_nodes = "Nodes"
state = "How"

[states]
good = "completed"
bad = "failed"

[facts]
site = "ours"
"""
HEADER = "Job;Who;Sent;Waited;Ran;Limit;GPU %;CPUs;Mem;Nodes;How\n"
VALUES = ("7", "a", "2024-05-01 12:00:00", "1", "1:30", "2", "50", "8", "1", "2", "good")
LEAST = '[columns]\nraw_id = "id"\nsubmit = "t"\n'


def test_every_option_at_once(tmp_path):
    row = "7;ann;2024-05-01 12:00:00;1.5;1:30;2;50;8;1.5;2;good\n"
    found = imported(tmp_path, HEADER + row, mapping=WHOLE)
    record = found.only
    submit_s = datetime(2024, 5, 1, 10, tzinfo=UTC).timestamp()
    assert (record.raw_id, record.user, record.pool) == ("7", "ann", "gpu")
    assert (record.submit_s, record.start_s, record.end_s) == (submit_s, submit_s + 90, submit_s + 180)
    assert record.limit == Limit(LimitKind.FINITE, 7200.0)
    assert (record.gpus_asked_milli, record.gpus_given_milli) == (1000, 1000)
    assert (record.cpus, record.memory_mib, record.num_nodes) == (16, 1536, 2)
    assert record.observation is Observation.FULL
    assert found.report.accepted == 1
    assert found.report.facts == {"mapping": "test", "site": "ours", "zone_assumed": "Europe/Zurich"}


def test_words_for_nothing_are_nothing(tmp_path):
    row = "7;root;2024-05-01 12:00:00;NaN;;none at all;N/A;?;null;;\n"
    record = imported(tmp_path, HEADER + row, mapping=WHOLE).only
    assert (record.user, record.start_s, record.end_s) == (None, None, None)
    assert record.limit.kind is LimitKind.UNLIMITED
    assert (record.gpus_asked_milli, record.cpus, record.memory_mib, record.num_nodes) == (None,) * 4
    assert record.cause is EndCause.UNKNOWN
    assert record.observation is Observation.NEVER_RAN


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("Waited", "soon", "bad-duration"),
        ("Ran", "1:99", "bad-duration"),
        ("Limit", "long", "bad-limit"),
        ("GPU %", "many", "bad-gpus"),
        ("GPU %", "-50", "bad-gpus"),
        ("CPUs", "1e999", "bad-number"),
        ("Mem", "1,5", "bad-number"),
        ("Nodes", "-1", "bad-number"),
    ],
)
def test_what_cannot_be_read_is_not_known_and_told(tmp_path, field, value, rule):
    values = dict(zip(HEADER.strip().split(";"), VALUES, strict=True))
    found = imported(tmp_path, HEADER + ";".join({**values, field: value}.values()) + "\n", mapping=WHOLE)
    assert found.report.repaired == 1
    assert rule in found.report.rules


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("Job", "", "no-job-id"),
        ("Sent", "", "no-submit"),
        ("Sent", "yesterday", "bad-time"),
        ("Sent", "99999999999", "bad-time"),
        ("Waited", "-1", "impossible"),
        ("How", "splendid", "unknown-word"),
    ],
)
def test_what_cannot_be_is_rejected(tmp_path, field, value, rule):
    values = dict(zip(HEADER.strip().split(";"), VALUES, strict=True))
    good = HEADER + ";".join(values.values()) + "\n"
    found = imported(tmp_path, good + ";".join({**values, field: value}.values()) + "\n", mapping=WHOLE)
    assert (found.report.accepted, found.report.rejected) == (1, 1)
    assert dict(found.report.rules) == {rule: 1}


def test_a_row_of_another_width_is_rejected_and_a_quoted_delimiter_is_text(tmp_path):
    text = 'id,t,who\n1,1714557600,"a,b"\n2,1714557600\n3,1714557600,c,\n'
    found = imported(tmp_path, text, mapping=LEAST + 'user = "who"\n')
    assert [(one.raw_id, one.user) for one in found.records] == [("1", "a,b"), ("3", "c")]
    assert dict(found.report.rules) == {"field-count": 1}


def test_names_that_look_like_nothing_are_names(tmp_path):
    said = LEAST + 'user = "who"\ngpus = "n"\n'
    text = "id,t,who,n\nnone,1714557600,Nan,na\nNA,1714557600,na,NaN\nx,1714557600,None,1\n"
    found = imported(tmp_path, text, mapping=said)
    assert {(one.raw_id, one.user) for one in found.records} == {("none", "Nan"), ("NA", "na"), ("x", None)}
    assert sum(one.gpus_asked_milli is None for one in found.records) == 2


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_by_the_header(tmp_path, delimiter):
    text = "\n".join(delimiter.join(row) for row in (["id", "t", "x"], ["1", "1714557600", "y"]))
    assert imported(tmp_path, text, mapping=LEAST).only.submit_s == 1714557600.0


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("columns = 3", "columns is to be a table"),
        ("[columns]\nraw_id = 'a'", "columns.submit is needed"),
        ("[columns]\nsubmit = 'a'", "columns.raw_id or id_from_row"),
        (LEAST + "colour = 'a'", "columns.colour; allowed are account, array_id"),
        (
            LEAST + "wait = { column = 'a', unit = 'fortnight' }",
            "columns.wait.unit is 'fortnight'; allowed are s, ms",
        ),
        (LEAST + "wait = { column = 'a', times = 'b' }", "columns.wait.times; allowed are column, nulls"),
        (LEAST + "gpus = { column = 'a', value = 1 }", "columns.gpus needs one of column"),
        (LEAST + "gpus = 3", "columns.gpus is to be the name of a column or a table"),
        (LEAST + "gpus = 'a'\ngpus_asked = 'b'", "columns.gpus and columns.gpus_asked say the same"),
        (LEAST + "start = 'a'\nwait = 'b'", "columns.start and columns.wait say the same"),
        (LEAST + "state = 'a'", "columns.state and the table states"),
        (LEAST + "state = 'a'\n[states]\nok = 'fine'", "states.ok is 'fine'; allowed are boot_fail"),
        (LEAST + "user = { column = 'a', nulls = [0] }", "columns.user.nulls is to be a list of texts"),
        (LEAST + "user = { column = 'a', optional = 1 }", "columns.user.optional is to be true or false"),
        ("clock = 'mine'\n" + LEAST, "clock is 'mine'; allowed are relative, utc"),
        ("clock = 'relative'\norigin = '2024-01-01T00:00:00Z'\n" + LEAST, "at odds"),
        ("origin = '2024-01-01T00:00:00'\n" + LEAST, "a stamp with an offset is needed"),
        ("zone = 'Mars/Olympus'\n" + LEAST, "there is no time zone 'Mars/Olympus'"),
        ("delimiter = '::'\n" + LEAST, "one character is allowed"),
        ("window_end = true\n" + LEAST, "window_end is to be a number"),
        ("recognise = ['a']\n" + LEAST, "there is no key recognise; allowed are clock"),
        ("[facts]\nday = 2024-01-01\n" + LEAST, "facts are texts"),
        ("start_is_submit = true\n" + LEAST, "start_is_submit needs columns.run or columns.end"),
        ("[columns", "no TOML"),
    ],
)
def test_a_mapping_that_says_what_it_cannot_is_refused_by_key(said, named):
    with pytest.raises(MappingError) as error:
        parse_mapping(said, "m")
    assert named in str(error.value)


def test_a_broken_mapping_file_is_named(tmp_path):
    path = tmp_path / "m.toml"
    path.write_text(LEAST + "colour = 'a'")
    with pytest.raises(InputError) as error:
        load_mapping(path)
    (fault,) = error.value.faults
    assert (fault.source, fault.rule) == (str(path), Rule.BAD_MAPPING)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError):
        load_mapping(path)


def test_a_mapping_in_a_file_is_read(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text(LEAST)
    assert load_mapping(path).name == "ours"


def test_a_column_that_is_not_there_refuses_the_file_unless_it_is_optional(tmp_path):
    found = imported(tmp_path, "id,t\n1,1714557600\n", mapping=LEAST + 'user = "who"\n')
    assert found.report.fault["rule"] == "missing-column"
    assert "'who'" in found.report.fault["message"]
    said = LEAST + 'user = { column = "who", optional = true }\n'
    assert imported(tmp_path, "id,t\n1,1714557600\n", mapping=said).only.user is None


def test_a_column_that_is_there_twice_refuses_the_file(tmp_path):
    found = imported(tmp_path, "id,t,id\n1,1714557600,2\n", mapping=LEAST)
    assert found.report.fault["rule"] == "duplicate-column"


def test_stamps_without_a_zone_refuse_the_file_and_the_operator_goes_before_the_mapping(tmp_path):
    text = "id,t\n1,2024-05-01 12:00:00\n"
    assert imported(tmp_path, text, mapping=LEAST).report.fault["rule"] == "no-time-zone"
    said = 'zone = "Asia/Tokyo"\n' + LEAST
    noon_s = datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp()
    assert imported(tmp_path, text, mapping=said, name="a").only.submit_s == noon_s - 9 * 3600
    utc = imported(tmp_path / ".", text, mapping=said, tz="UTC", name="b").records[-1]
    assert utc.submit_s == noon_s


def test_a_relative_clock_takes_an_origin_and_no_stamps(tmp_path):
    said = 'clock = "relative"\n' + LEAST
    found = imported(tmp_path, "id,t\n1,60\n2,2024-05-01T12:00:00Z\n", mapping=said)
    assert found.report.clock == "relative"
    assert found.report.facts["relative_clock"] is True
    assert dict(found.report.rules) == {"bad-time": 1}
    placed = imported(tmp_path, "id,t\n1,60\n", mapping=said, origin_s=1e9, name="b")
    assert placed.report.clock == "utc"


def test_numbers_count_from_the_mappings_origin(tmp_path):
    said = 'origin = "2024-01-01T00:00:00Z"\n' + LEAST.replace('"t"', '{ column = "t", unit = "d" }')
    record = imported(tmp_path, "id,t\n1,1.5\n", mapping=said).only
    assert record.submit_s == datetime(2024, 1, 2, 12, tzinfo=UTC).timestamp()


def test_gaps_add_up_also_over_rows_that_are_rejected(tmp_path):
    said = '[columns]\nraw_id = "id"\ngap = "g"\nrun = "r"\n'
    found = imported(tmp_path, "id,g,r\n1,5,1\n,10,1\n3,,1\n4,20,-1\n5,1,1\n", mapping=said)
    assert [(one.raw_id, one.submit_s) for one in found.records] == [("1", 5.0), ("5", 36.0)]
    assert dict(found.report.rules) == {"no-job-id": 1, "no-submit": 1, "impossible": 1}
    assert found.report.facts["gaps_not_times"] is True


def test_rows_without_ids_are_numbered_and_the_same_file_again_changes_nothing(tmp_path):
    said = "id_from_row = true\n[columns]\nsubmit = 't'\n"
    first = imported(tmp_path, "t\n1714557600\n1714557600\n", mapping=said)
    assert [one.raw_id for one in first.records] == ["row-2", "row-3"]
    assert dict(first.report.rules) == {"id-from-row": 2}
    longer = imported(tmp_path, "t\n1714557600\n1714557600\n1714557700\n", mapping=said)
    assert (longer.report.new, longer.report.unchanged) == (1, 2)


def test_rows_that_share_an_id_are_told_and_can_be_jobs_of_their_own(tmp_path):
    text = "id,t,r\n7,100,1\n8,100,1\n7,100,2\n7,100,3\n"
    said = LEAST + "run = 'r'\n"
    updated = imported(tmp_path, text, mapping=said)
    assert [one.raw_id for one in updated.records] == ["7", "8"]
    (warned,) = [one for one in updated.report.warnings if one.warning == "rows-of-one-attempt"]
    assert "2 rows" in warned.message
    (tmp_path / "b").mkdir()
    kept = imported(tmp_path / "b", text, mapping="rows_share_ids = true\n" + said)
    assert [(one.raw_id, one.array_id) for one in kept.records] == [
        ("7", None), ("7/1", "7"), ("7/2", "7"), ("8", None)
    ]  # fmt: skip
    assert dict(kept.report.rules) == {"shared-id": 2}


def parquet(**columns) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def test_values_of_parquet_are_what_they_are(tmp_path):
    instant = datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=timezone(timedelta(hours=2)))
    content = parquet(
        id=[Decimal("7"), Decimal("8")],
        t=pa.array([instant, None], pa.timestamp("ms", "Europe/Zurich")),
        who=[b"ann", b"\xffx"],
        ok=[True, False],
        n=[float("nan"), 2.0],
    )
    said = LEAST + 'user = "who"\ngpus = "n"\nbefore_record = "ok"\n'
    found = imported(tmp_path, content, mapping=said)
    record = found.only
    assert (record.raw_id, record.user, record.submit_s) == ("7", "ann", instant.timestamp())
    assert record.gpus_asked_milli is None
    assert record.is_before_record
    assert dict(found.report.rules) == {"before-record": 1, "no-submit": 1}


def test_an_instant_beyond_the_calendar_costs_its_row_only(tmp_path):
    content = parquet(id=[1, 2, 3], t=pa.array([0, 2**62, 10], pa.timestamp("us", "UTC")))
    found = imported(tmp_path, content, mapping=LEAST)
    assert [one.raw_id for one in found.records] == ["1", "3"]
    assert dict(found.report.rules) == {"bad-time": 1}


def test_a_mapping_is_for_the_kind_of_file_that_is_named(tmp_path):
    found = imported(tmp_path, "id,t\n1,0\n", mapping=LEAST, file_format="parquet")
    assert found.report.fault["rule"] == "unknown-format"


def test_a_table_that_no_mapping_knows_is_refused_with_its_columns(tmp_path):
    for file_format in ("auto", "csv", "helios"):
        found = imported(tmp_path, "colour,weight\nred,1\n", file_format=file_format)
        assert found.report.fault["rule"] == "unknown-format"
    assert "colour, weight" in imported(tmp_path, "colour,weight\nred,1\n").report.fault["message"]


@pytest.mark.parametrize("name", sorted(built_in()))
def test_every_built_in_mapping_belongs_to_a_format_and_either_reads_or_refuses(name):
    mapping = built_in()[name]
    assert mapping.format in {*FORMATS, "table"}
    assert mapping.recognise
    assert bool(mapping.rules) != bool(mapping.nothing_to_learn)
    assert not mapping.header or mapping.header == mapping.recognise


def test_the_example_of_the_document_is_what_it_says(tmp_path):
    page = (REPOSITORY / "docs" / "add-a-mapping.md").read_text()
    table = "".join(
        f"{line.strip()}\n" for line in page.splitlines() if line.startswith("    ") and ";" in line
    )
    mapping = page.partition("```toml\n")[2].partition("```")[0]
    found = imported(tmp_path, table, mapping=mapping)
    ran, waits = found.records
    assert found.report.accepted == 2
    assert (ran.user, ran.gpus_given_milli, ran.gpu_type) == ("ann", 1000, "A100")
    assert (ran.start_s - ran.submit_s, ran.occupancy_s) == (90.0, 42 * 60 + 10)
    assert (waits.user, waits.start_s, waits.gpus_given_milli) == (None, None, None)
    assert (waits.cause, waits.observation) == (EndCause.NOT_ENDED, Observation.NEVER_RAN)


@pytest.mark.parametrize(
    "name", sorted({"csv", "parquet"} | {one.format for one in built_in().values()} - {"table"})
)
def test_every_format_with_mappings_has_its_page(name):
    assert (REPOSITORY / "docs" / "formats" / f"{name}.md").is_file()


def test_benchmark_files_import(tmp_path):
    header = "job_id,pool,submit_s,num_gpus,duration_s,user,state,start_s\n"
    found = imported(tmp_path, header + "a,p,0,2,60,u,completed,\nb,q,5,1,9,,timeout,7\n")
    assert found.report.format == "csv"
    first, second = found.records
    assert (first.start_s, first.end_s, first.gpus_given_milli) == (0.0, 60.0, 2000)
    assert (second.start_s, second.end_s, second.cause) == (7.0, 16.0, EndCause.TIMEOUT)
    assert found.report.clock == "relative"
