"""What the command line says, in the words of a patch."""

import pytest

from app.what_if_flags import Flags, read_scenario
from domain.changes import read_patch
from domain.errors import InputError, SettingError


def test_every_flag_becomes_an_entry_that_can_be_read():
    flags = Flags(
        quota=["vision=+20%", "speech=-4", "a=b=48"],
        arrivals=["vision=x2", "speech=x0.5"],
        gang=["vision:64@+10h", "a:b:8@36000/6h"],
        leave_out=["j1,j2", "user:ann"],
        add_nodes=["4x8", "1x2:vision"],
        remove_node=["n1", "n2"],
        no_lending=["08:00/18:00", "100/200"],
        settings=["fairness=none"],
        eps="0.5%",
    )
    changes = flags.changes()
    assert changes == [
        {"kind": "quota", "pool": "vision", "by_pct": 20.0},
        {"kind": "quota", "pool": "speech", "by_gpus": -4},
        {"kind": "quota", "pool": "a=b", "gpus": 48},
        {"kind": "add_nodes", "count": 4, "num_gpus": 8},
        {"kind": "add_nodes", "count": 1, "num_gpus": 2, "pool": "vision"},
        {"kind": "remove_nodes", "nodes": ["n1", "n2"]},
        {"kind": "settings", "set": {"fairness": "none", "eps": "0.005"}},
        {"kind": "no_lending", "from": "08:00", "to": "18:00", "every": "day"},
        {"kind": "no_lending", "from": 100.0, "to": 200.0},
        {"kind": "arrivals", "pool": "vision", "times": 2.0},
        {"kind": "arrivals", "pool": "speech", "times": 0.5},
        {"kind": "leave_out", "jobs": ["j1", "j2"]},
        {"kind": "leave_out", "user": "ann"},
        {"kind": "gang", "pool": "vision", "gpus": 64, "at": "+10h"},
        {"kind": "gang", "pool": "a:b", "gpus": 8, "at": 36_000.0, "duration": "6h"},
    ]
    read_patch(changes)
    assert Flags(policy="reclaim", settings=["x=1"]).changes() == [
        {"kind": "policy", "policy": "reclaim", "set": {"x": "1"}}
    ]
    (gang,) = Flags(gang=["vision:64@2026-11-02T10:00"]).changes()
    assert gang["at"] == "2026-11-02T10:00"


@pytest.mark.parametrize(
    "flags",
    [
        Flags(quota=["vision"]),
        Flags(quota=["vision=20%"]),
        Flags(quota=["vision=1.5"]),
        Flags(arrivals=["vision=2"]),
        Flags(gang=["vision@10"]),
        Flags(no_lending=["08:00"]),
        Flags(add_nodes=["8"]),
        Flags(settings=["eps"]),
        Flags(eps="0.5"),
        Flags(eps="x"),
        Flags(eps="101%"),
    ],
    ids=str,
)
def test_a_flag_that_cannot_be_read_is_refused_by_name(flags):
    with pytest.raises(SettingError, match="--"):
        flags.changes()


def test_scenarios_are_read_from_toml_and_json(tmp_path):
    toml, other = tmp_path / "s.toml", tmp_path / "s.json"
    toml.write_text('days = 3\n[[changes]]\nkind = "quota"\npool = "a"\nby_pct = 20\n')
    other.write_text('{"days": 3, "changes": [{"kind": "quota", "pool": "a", "by_pct": 20}]}')
    assert read_scenario(toml) == read_scenario(other)
    for text in ("[", '{"changes": 1}', "[1]"):
        other.write_text(text)
        with pytest.raises(InputError, match="not-a-scenario"):
            read_scenario(other)
