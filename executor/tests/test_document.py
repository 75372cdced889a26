"""Documents: what is read, what is refused, and why."""

import json
from typing import Any

import pytest
from control_plane import placement, sealed
from hypothesis import given
from hypothesis import strategies as st

from antecast_executor.admission import NodeFacts, refusals
from antecast_executor.document import MAX_BYTES, DocumentError, OnDisconnect, Wanted, digest, parse
from antecast_executor.interfaces import Device, Reading

GPU = "GPU-1"
CAN = frozenset({"launch", "pause", "resume", "stop", "squeeze", "swell"})


def body(*placements: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "epoch": 1,
        "generation": 7,
        "valid_for_s": 60.0,
        "plan_id": "plan-1",
        "placements": list(placements),
        "actions": [],
    } | more


def raw(*placements: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(sealed(body(*placements, **more))).encode()


def device(uuid: str = GPU, **more: Any) -> Device:
    known = {
        "uuid": uuid,
        "index": 0,
        "name": "a GPU",
        "memory_total_mib": Reading(80_000.0),
        "memory_reserved_mib": Reading(1_000.0),
        "memory_used_mib": Reading(0.0),
        "utilisation_pct": Reading(0.0),
        "temperature_c": Reading(30.0),
    }
    return Device(**(known | more))


def facts(*devices: Device, **more: Any) -> NodeFacts:
    return NodeFacts(
        **({"devices": {item.uuid: item for item in devices}, "can": CAN, "has_mps": True} | more)
    )


def reasons(data: bytes, node: NodeFacts, last: tuple[tuple[int, int], str] | None = None) -> list[str]:
    return [item.reason for item in refusals(parse(data), last=last, node=node)]


def test_reads_all_fields() -> None:
    document = parse(
        raw(
            placement(
                "a-1",
                ["python", "train.py"],
                [GPU],
                env={"A": "ä"},
                share_pct=30,
                memory_mib=1024,
                state="paused",
                on_disconnect="stop",
            )
        )
    )
    (item,) = document.placements
    assert document.version == (1, 7)
    assert (item.argv, item.env, item.gpus) == (("python", "train.py"), {"A": "ä"}, (GPU,))
    assert (item.share_pct, item.memory_mib) == (30.0, 1024)
    assert (item.state, item.on_disconnect) == (Wanted.PAUSED, OnDisconnect.STOP)


def test_the_hash_is_over_the_content_alone() -> None:
    content = body(placement("a", ["true"], [GPU]))
    assert digest(content | {"hash": "x", "comment": "y"}) == sealed(content)["hash"]


@pytest.mark.parametrize(
    "change",
    [
        {"placement_id": "../../etc/passwd"},
        {"placement_id": ""},
        {"placement_id": ".."},
        {"placement_id": "a" * 129},
        {"placement_id": "a\n"},
        {"placement_id": 7},
        {"argv": []},
        {"argv": [""]},
        {"argv": "rm -rf /"},
        {"argv": ["a\0b"]},
        {"env": {"A=B": "1"}},
        {"env": {"": "1"}},
        {"env": {"A": 1}},
        {"env": {"A": "x\0"}},
        {"gpus": []},
        {"gpus": [GPU, GPU]},
        {"share_pct": 9.9},
        {"share_pct": 100.1},
        {"share_pct": True},
        {"share_pct": "50"},
        {"memory_mib": 0},
        {"memory_mib": -5},
        {"memory_mib": 1.5},
        {"priority": 2},
        {"priority": False},
        {"state": "stopped"},
        {"state": ["running"]},
        {"grace_s": -1},
        {"grace_s": 1e9},
        {"on_disconnect": "kill"},
        {"role": "king"},
        {"rank": 1},
        {"num_ranks": 0},
        {"job_id": ""},
    ],
)
def test_a_bad_placement_is_named(change: dict[str, Any]) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(raw(placement("good", ["true"], [GPU]), placement("bad", ["true"], [GPU]) | change))
    (refusal,) = caught.value.refusals
    assert refusal.reason == "bad_document"
    assert next(iter(change)) in refusal.message
    assert refusal.placement_id in {"bad", None}


def test_all_bad_placements_are_named_at_once() -> None:
    with pytest.raises(DocumentError) as caught:
        parse(raw(placement("a", [], [GPU]), placement("b", ["true"], []), placement("c", ["true"], [GPU])))
    assert [item.placement_id for item in caught.value.refusals] == ["a", "b"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"epoch": 1}',
        b'{"epoch": NaN}',
        b"[" * 100_000,
        b'"' + b"x" * MAX_BYTES + b'"',
        b'{"epoch": 1' + b"0" * 5000 + b"}",
        json.dumps(sealed(body()) | {"plan_id": "\ud800"}).encode(),
        json.dumps(sealed(body(epoch=-1))).encode(),
        json.dumps(sealed(body(generation=1.0))).encode(),
        json.dumps(sealed(body(valid_for_s=-1))).encode(),
        json.dumps(sealed(body(placements={}))).encode(),
        json.dumps(sealed(body(placements=[7]))).encode(),
    ],
)
def test_rubbish_is_a_bad_document(data: bytes) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(data)
    assert {item.reason for item in caught.value.refusals} == {"bad_document"}


def test_a_wrong_hash_and_unknown_actions_are_refused() -> None:
    with pytest.raises(DocumentError) as caught:
        parse(json.dumps(sealed(body()) | {"generation": 8}).encode())
    assert caught.value.refusals[0].reason == "bad_hash"
    with pytest.raises(DocumentError) as caught:
        parse(raw(actions=[{"action_id": "x"}]))
    assert caught.value.refusals[0].reason == "unsupported"


def test_one_id_twice_is_refused() -> None:
    with pytest.raises(DocumentError, match="twice"):
        parse(
            raw(placement("a", ["true"], [GPU], share_pct=10), placement("a", ["true"], [GPU], share_pct=10))
        )


@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
    lambda value: json.dumps(value).encode()
))  # fmt: skip
def test_no_input_but_a_document_is_read(data: bytes) -> None:
    with pytest.raises(DocumentError):
        parse(data)


class TestAdmission:
    def test_a_good_document_is_taken(self) -> None:
        assert reasons(raw(placement("a", ["true"], [GPU])), facts(device())) == []

    def test_generations_go_up(self) -> None:
        data, node = raw(), facts(device())
        hash_ = parse(data).hash
        assert reasons(data, node, ((1, 8), "h")) == ["stale_generation"]
        assert reasons(data, node, ((2, 1), "h")) == ["stale_generation"]
        assert reasons(data, node, ((1, 7), "other")) == ["stale_generation"]
        assert reasons(data, node, ((1, 7), hash_)) == []
        assert reasons(data, node, ((0, 9), "h")) == []

    def test_unknown_and_lost_gpus(self) -> None:
        data = raw(placement("a", ["true"], [GPU]))
        assert reasons(data, facts(device("GPU-2"))) == ["unknown_uuid"]
        assert reasons(data, facts(device(is_lost=True, reason="xid"))) == ["device_lost"]

    def test_what_runs_on_a_lost_gpu_does_not_bar_the_document(self) -> None:
        data = raw(placement("a", ["true"], [GPU]))
        started = {"a": parse(data).placements[0]}
        assert reasons(data, facts(started=started)) == []

    @pytest.mark.parametrize(
        ("shares", "roles", "expected"),
        [
            ((50, 50), ("own", "own"), 0),
            ((66.6, 33.4), ("own", "guest"), 0),
            ((60, 50), ("own", "own"), 2),
            ((60, 50), ("own", "rider"), 2),
            ((100, 100), ("rider", "rider"), 2),
            ((60, 50), ("host", "rider"), 0),
            ((100, 100), ("host", "rider"), 0),
        ],
    )
    def test_only_a_packed_pair_competes_beyond_100(
        self, shares: tuple[float, ...], roles: tuple[str, ...], expected: int
    ) -> None:
        items = [
            placement(f"p{number}", ["true"], [GPU], share_pct=pct, role=role)
            for number, (pct, role) in enumerate(zip(shares, roles, strict=True))
        ]
        assert reasons(raw(*items), facts(device())) == ["overcommit"] * expected

    @pytest.mark.parametrize("roles", [("own", "own", "own"), ("host", "rider", "rider")])
    def test_two_share_a_gpu_at_most(self, roles: tuple[str, ...]) -> None:
        items = [
            placement(f"p{number}", ["true"], [GPU], share_pct=33.3, role=role)
            for number, role in enumerate(roles)
        ]
        assert reasons(raw(*items), facts(device())) == ["overcommit"] * 3

    def test_a_mig_device_takes_no_pair(self) -> None:
        items = [placement(role, ["true"], [GPU], role=role) for role in ("host", "rider")]
        assert reasons(raw(*items), facts(device(is_mig=True))) == ["unsupported"] * 2

    def test_memory_has_to_fit_beside_what_is_reserved(self) -> None:
        def items(mib: int) -> bytes:
            return raw(*(placement(n, ["true"], [GPU], role=n, memory_mib=mib) for n in ("host", "rider")))

        assert reasons(items(39_500), facts(device())) == []
        assert reasons(items(39_501), facts(device())) == ["overcommit"] * 2
        unknown = device(memory_total_mib=Reading(None, "not_supported"))
        assert reasons(items(39_501), facts(unknown)) == []

    def test_a_started_placement_keeps_its_command(self) -> None:
        before = placement("a", ["true"], [GPU])
        started = {"a": parse(raw(before)).placements[0]}
        node = facts(device(), started=started)
        for change in ({"argv": ["false"]}, {"env": {"A": "1"}}, {"memory_mib": 5}, {"job_id": "other"}):
            assert reasons(raw(before | change), node) == ["unsupported"]
        for change in ({"share_pct": 20}, {"state": "paused"}, {"role": "guest"}, {"priority": 1}):
            assert reasons(raw(before | change), node) == []

    def test_what_the_node_cannot_do_is_refused(self) -> None:
        half = raw(placement("a", ["true"], [GPU], share_pct=50))
        assert reasons(half, facts(device(is_mig=True))) == ["unsupported"]
        assert reasons(half, facts(device(), has_mps=False, can=CAN - {"squeeze"})) == ["unsupported"]
        assert reasons(half, facts(device(), has_mps=False)) == []
        paused = raw(placement("a", ["true"], [GPU], state="paused"))
        assert reasons(paused, facts(device(), can=CAN - {"pause"})) == ["unsupported"]

    def test_a_run_that_is_over_takes_no_room(self) -> None:
        items = [placement(name, ["true"], [GPU]) for name in ("over", "next")]
        assert reasons(raw(*items), facts(device(), spent=frozenset({"over"}))) == []
