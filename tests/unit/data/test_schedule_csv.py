"""Schedules on disk read back as they were."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.schedule_csv import read_schedule, write_schedule
from domain.cluster import Gpu
from domain.errors import InputError
from domain.schedules import Stretch

instants = st.floats(-1e9, 1e9, allow_nan=False)
stretches = st.builds(
    Stretch,
    st.text('abc," é', min_size=1),
    instants,
    instants,
    is_guest=st.booleans(),
    is_lost=st.booleans(),
    rate=st.floats(0.01, 1.0),
    own_from_s=st.none() | instants,
    is_stopped=st.booleans(),
    gpus=st.sampled_from([(), (Gpu("n1", 0), Gpu("n1", 1))]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(stretches, max_size=5))
def test_what_is_written_reads_back(tmp_path_factory, made):
    path = tmp_path_factory.getbasetemp() / "schedule.csv"
    write_schedule(path, made)
    assert read_schedule(path) == tuple(stretch._replace(gpus=()) for stretch in made)


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        ("", 1, "missing-column"),
        ("job_id,start_s,end_s\n", 1, "missing-column"),
        ("job_id,start_s,end_s,rate,lost,guest,own_from_s\na,0,1,1,0,0,\nb,soon,1,1,0,0,\n", 3, "no-stretch"),
        ("job_id,start_s,end_s,rate,lost,guest,own_from_s\na,0,1\n", 2, "no-stretch"),
    ],
)
def test_what_is_no_schedule_is_refused(tmp_path, text, line, rule):
    path = tmp_path / "schedule.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_schedule(path)
    (fault,) = refused.value.faults
    assert (fault.line, fault.rule) == (line, rule)


def test_only_a_schedule_with_stopped_guests_says_who_was_stopped(tmp_path):
    kept = Stretch("a", 0.0, 25.0, is_guest=True, rate=0.8, is_stopped=True)
    rest = Stretch("a", 40.0, 70.0, is_guest=True)
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    write_schedule(old, [rest])
    write_schedule(new, [kept, rest])
    assert "stopped" not in old.read_text()
    assert new.read_text().splitlines()[1] == "a,0,25,0.8,0,1,,1"
    assert (read_schedule(old), read_schedule(new)) == ((rest,), (kept, rest))
