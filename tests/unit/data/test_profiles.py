"""Profiles of models: names with batch sizes, what is refused, and the estimates that are shipped."""

from pathlib import Path

import pytest

from data.profiles import SHIPPED, ModelProfile, read_profiles
from domain.errors import InputError

HEADER = "model,batch_size,sm_utilisation,memory_mib,solo_step_s"


def write(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "profiles.csv"
    path.write_text("\n".join((header, *lines)) + "\n")
    return path


def test_a_batch_size_becomes_part_of_the_name(tmp_path: Path) -> None:
    path = write(tmp_path, "net,32,0.5,4096,0.1", "net (batch size 64),,,8192,", "net (batch size 16),16,,,")
    assert read_profiles(path) == {
        "net (batch size 32)": ModelProfile(0.5, 4096.0, 0.1),
        "net (batch size 64)": ModelProfile(None, 8192.0, None),
        "net (batch size 16)": ModelProfile(),
    }


def test_only_the_model_is_needed(tmp_path: Path) -> None:
    assert read_profiles(write(tmp_path, "net", header="model")) == {"net": ModelProfile()}


BAD = {
    "percent": ("x,,50,,", "out-of-range"),
    "no memory": ("x,,,0,", "out-of-range"),
    "no time": ("x,,,,0", "out-of-range"),
    "half a sample": ("x,1.5,,,", "not-an-integer"),
    "no name": (",1,,,", "missing-value"),
    "another batch size": ("x (batch size 8),16,,,", "batch-size-twice"),
    "twice": ("net (batch size 32),,,,", "duplicate-model"),
    "endless": ("x" * 201 + ",,,,", "field-too-long"),
}


@pytest.mark.parametrize(("row", "rule"), BAD.values(), ids=BAD.keys())
def test_a_bad_row_is_refused_with_line_and_rule(tmp_path: Path, row: str, rule: str) -> None:
    path = write(tmp_path, "net,32,0.5,4096,0.1", row)
    with pytest.raises(InputError) as caught:
        read_profiles(path)
    assert [(fault.source, fault.line, fault.rule) for fault in caught.value.faults] == [(str(path), 3, rule)]


def test_the_shipped_estimates_are_coarse_and_complete() -> None:
    shipped = read_profiles(SHIPPED)
    assert len(shipped) >= 12
    assert all(one.sm_utilisation and one.memory_mib and one.solo_step_s is None for one in shipped.values())
    assert {one.sm_utilisation for one in shipped.values()} <= {0.15, 0.35, 0.6, 0.85, 0.95}
