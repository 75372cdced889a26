"""Tables of any units, written and read back: what a mapping says is what comes out."""

import csv
import io
import math
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.formats import FORMATS
from data.intake.fields import GPU_UNITS, MEMORY_UNITS, NUMBER_UNITS, TIME_UNITS, Unit
from data.intake.format import Reading, ReadOptions
from data.intake.mapping_text import parse_mapping
from data.records import AttemptRecord
from data.slurm.durations import elapsed_text

FORMATS_OF = {"csv": FORMATS["csv"], "parquet": FORMATS["parquet"]}
lengths_s = st.integers(0, 10**7)
quick = settings(
    derandomize=True, max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def written(value: float, unit: Unit) -> float | int:
    """A value of the record's own unit in another one: whole where that is exact."""
    times, by = unit
    return value * by // times if value * by % times == 0 else value * by / times


@st.composite
def tables(draw):
    units = {
        name: draw(st.sampled_from(sorted(words)))
        for name, words in (
            ("submit", TIME_UNITS), ("wait", TIME_UNITS), ("run", TIME_UNITS), ("limit", TIME_UNITS),
            ("gpus", GPU_UNITS), ("cpus", NUMBER_UNITS), ("memory", MEMORY_UNITS),
        )
    }  # fmt: skip
    jobs = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "submit": st.integers(0, 4 * 10**9),
                    "wait": lengths_s,
                    "run": lengths_s,
                    "limit": st.integers(1, 10**7),
                    "gpus": st.integers(0, 10**6),
                    "cpus": st.integers(0, 10**5),
                    "memory": st.integers(0, 10**7),
                }
            ),
            min_size=1,
            max_size=6,
        )
    )
    return units, jobs


def mapping_of(units: dict[str, str]) -> str:
    lines = [f'{name} = {{ column = "{name}", unit = "{unit}" }}' for name, unit in units.items()]
    return "[columns]\nraw_id = 'id'\n" + "\n".join(lines)


def read(kind: str, columns: dict[str, list], mapping: str) -> list[AttemptRecord]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        if kind == "parquet":
            pq.write_table(pa.table(columns), path)
        else:
            out = io.StringIO()
            writer = csv.writer(out)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
            path.write_text(out.getvalue(), encoding="utf-8")
        options = ReadOptions(mapping=parse_mapping(mapping, "m"))
        rows = list(FORMATS_OF[kind].rows(Reading(path, options)))
    assert not [row.notes for row in rows if row.notes]
    return [record for row in rows for record in row.records]


@quick
@given(tables(), st.sampled_from(sorted(FORMATS_OF)))
def test_units_round_trip(table, kind):
    units, jobs = table
    every = {**TIME_UNITS, **MEMORY_UNITS}
    unit_of = {name: every.get(unit, (1, 1)) for name, unit in units.items()}
    unit_of |= {"gpus": GPU_UNITS[units["gpus"]], "cpus": NUMBER_UNITS[units["cpus"]]}
    columns: dict[str, list] = {"id": [str(k) for k in range(len(jobs))]}
    for name in units:
        columns[name] = [written(job[name], unit_of[name]) for job in jobs]
    for job, record in zip(jobs, read(kind, columns, mapping_of(units)), strict=True):
        start_s = job["submit"] + job["wait"]
        assert math.isclose(record.submit_s, job["submit"], rel_tol=1e-12, abs_tol=1e-6)
        assert math.isclose(record.start_s, start_s, rel_tol=1e-12, abs_tol=1e-6)
        assert math.isclose(record.end_s, start_s + job["run"], rel_tol=1e-12, abs_tol=1e-6)
        assert math.isclose(record.limit.limit_s, job["limit"], rel_tol=1e-12)
        assert record.gpus_asked_milli == job["gpus"]
        assert math.isclose(record.cpus, job["cpus"], rel_tol=1e-12)
        assert math.isclose(record.memory_mib, job["memory"], rel_tol=1e-12)


@quick
@given(st.lists(lengths_s, min_size=1, max_size=5), st.sampled_from(sorted(FORMATS_OF)))
def test_lengths_in_slurms_words_round_trip(runs, kind):
    mapping = "[columns]\nraw_id = 'id'\nsubmit = 't'\nstart = 't'\nrun = { column = 'r', unit = 'slurm' }\n"
    columns = {"id": list(range(len(runs))), "t": [7] * len(runs), "r": [elapsed_text(run) for run in runs]}
    assert [record.occupancy_s for record in read(kind, columns, mapping)] == runs


@quick
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8))
def test_gaps_are_the_differences_of_submissions(gaps):
    columns = {"id": list(range(len(gaps))), "g": gaps}
    found = [record.submit_s for record in read("csv", columns, "[columns]\nraw_id = 'id'\ngap = 'g'\n")]
    assert [after - before for before, after in zip([0, *found], found, strict=False)] == gaps


printable = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z", "M")), min_size=1, max_size=12)


@quick
@given(st.lists(printable, min_size=1, max_size=5, unique=True), st.sampled_from(sorted(FORMATS_OF)))
def test_ids_are_text_whatever_they_look_like(ids, kind):
    found = read(kind, {"id": ids, "t": [7] * len(ids)}, "[columns]\nraw_id = 'id'\nsubmit = 't'\n")
    assert len(found) == len(ids)
    assert len({record.raw_id for record in found}) <= len(ids)
    for given_id, record in zip(ids, found, strict=True):
        if given_id.isascii():
            assert record.raw_id == given_id
