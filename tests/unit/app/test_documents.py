"""Documents: the same wish is the same text, on both sides of the wire."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from app.schemas.executors import DesiredOut, WantedPlacement
from app.services.push import content_of, document_hash, seal
from app.store.tables import PlacementRow

BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A machine that is busy draws slowly."""

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
UUIDS = ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]


@st.composite
def wishes(draw):
    """Placements of a node, and what their jobs launch."""
    rows, specs = [], {}
    for number in range(draw(st.integers(0, 4))):
        job_id = draw(NAMES)
        specs[job_id] = {
            "argv": draw(st.lists(NAMES, min_size=1, max_size=3)),
            "env": draw(st.dictionaries(NAMES, NAMES, max_size=3)),
            "grace_s": draw(st.floats(0, 3600)),
            "memory_mib": draw(st.none() | st.integers(1, 10**6)),
        }
        rows.append(
            PlacementRow(
                placement_id=f"p{number}",
                cluster="c",
                job_id=job_id,
                attempt=1,
                node="n",
                rank=draw(st.integers(0, 3)),
                num_ranks=4,
                gpu_indices=draw(st.lists(st.integers(0, 3), unique=True, min_size=1)),
                share_pct=draw(st.floats(10, 100)),
                role=draw(st.sampled_from(["own", "guest", "rider", "host"])),
                plan_id=draw(st.none() | st.sampled_from(["plan-1", "plan-2"])),
            )
        )
    return rows, specs


def shuffled(value, rng):
    """The same JSON with the keys of all objects in another order."""
    if isinstance(value, list):
        return [shuffled(item, rng) for item in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    rng.shuffle(names)
    return {name: shuffled(value[name], rng) for name in names}


@BUSY
@given(wishes(), st.integers(0, 2**32))
def test_the_hash_survives_the_wire_and_any_order(wish, seed):
    rows, specs = wish
    rng = random.Random(seed)  # noqa: S311
    numbers = {"plan-1": 1, "plan-2": 2}
    content = content_of(rows, specs, UUIDS, numbers)
    document = seal(content, epoch=3, generation=7)

    again = shuffled(json.loads(json.dumps(document)), rng)
    assert document_hash(again) == again["hash"] == document["hash"]

    rng.shuffle(rows)
    other = content_of(rows, shuffled(specs, rng), UUIDS, numbers)
    assert seal(other, epoch=3, generation=7)["hash"] == document["hash"]


@BUSY
@given(wishes(), st.integers(0, 5), st.integers(0, 5))
def test_another_version_is_another_hash(wish, epoch, generation):
    content = content_of(*wish, UUIDS, {})
    first, second = seal(content, epoch=9, generation=9), seal(content, epoch=epoch, generation=generation)
    assert first["hash"] != second["hash"]


def row(**changes):
    values = {
        "placement_id": "j.1.0",
        "cluster": "c",
        "job_id": "j",
        "attempt": 1,
        "node": "n",
        "rank": 1,
        "num_ranks": 2,
        "gpu_indices": [2, 0],
        "share_pct": 70,
        "role": "guest",
        "plan_id": "plan-1",
    }
    return PlacementRow(**(values | changes))


def test_a_placement_says_all_that_its_executor_needs():
    spec = {
        "argv": ["python", "train.py"],
        "env": {"A": "1", "ANTECAST_RANK": "mine"},
        "memory_mib": 4096,
        "on_disconnect": "stop",
        "grace_s": 7,
        "is_shareable": True,
    }
    content = content_of([row()], {"j": spec}, UUIDS, {"plan-1": 1})
    assert content == {
        "valid_for_s": 600.0,
        "plan_id": "plan-1",
        "actions": [],
        "placements": [
            {
                "placement_id": "j.1.0",
                "job_id": "j",
                "rank": 1,
                "num_ranks": 2,
                "argv": ["python", "train.py"],
                "env": {
                    "A": "1",
                    "ANTECAST_JOB_ID": "j",
                    "ANTECAST_RANK": "1",
                    "ANTECAST_NUM_RANKS": "2",
                },
                "gpus": ["GPU-2", "GPU-0"],
                "share_pct": 70.0,
                "memory_mib": 4096,
                "priority": 1,
                "state": "running",
                "grace_s": 7.0,
                "on_disconnect": "stop",
                "role": "guest",
            }
        ],
    }


def test_what_cannot_run_there_is_left_out():
    assert content_of([row(gpu_indices=[4])], {"j": {"argv": ["x"]}}, UUIDS, {})["placements"] == []
    assert content_of([row()], {"j": {"argv": ["x"]}}, [], {})["placements"] == []
    assert content_of([row()], {}, UUIDS, {})["placements"] == []


def test_the_plan_of_a_document_is_the_newest_of_its_placements():
    rows = [row(placement_id="a", plan_id="x"), row(placement_id="b", plan_id="y"), row(plan_id=None)]
    assert content_of(rows, {"j": {"argv": ["x"]}}, UUIDS, {"x": 12, "y": 3})["plan_id"] == "x"


@BUSY
@given(wishes())
def test_every_document_is_what_its_description_says(wish):
    document = seal(content_of(*wish, UUIDS, {}), epoch=1, generation=1)
    DesiredOut.model_validate(document)


@pytest.mark.parametrize("share_pct", [9.9, 100.1])
def test_a_share_is_a_cap_of_10_to_100_percent(share_pct):
    (entry,) = content_of([row()], {"j": {"argv": ["x"]}}, UUIDS, {})["placements"]
    with pytest.raises(ValidationError, match="share_pct"):
        WantedPlacement.model_validate(entry | {"share_pct": share_pct})


def test_a_placement_may_be_calibrated_within_limits_in_steps_of_ten():
    (entry,) = content_of([row()], {"j": {"argv": ["x"]}}, UUIDS, {})["placements"]
    wish = {"objective": "jct", "least_pct": 10, "most_pct": 100, "steps": 4000}
    assert WantedPlacement.model_validate(entry | {"calibrate": wish}).calibrate.most_pct == 100.0
    for changes in ({"least_pct": 15}, {"most_pct": 110}, {"objective": "speed"}, {"steps": -1}):
        with pytest.raises(ValidationError):
            WantedPlacement.model_validate(entry | {"calibrate": wish | changes})
