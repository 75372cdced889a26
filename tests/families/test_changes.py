"""What every kind of change owes, whichever it is."""

import json

import pytest

from domain.changes import CHANGES, ChangeError, ChangeRule, Span, Submitted, World, read_patch
from domain.changes.base import Calendar
from domain.cluster import Node
from domain.jobs import Job, JobOutcome

DAY_S = 86_400.0
SPAN = Span(0.0, DAY_S, 4 * DAY_S, 7)
WORLD = World({"a": 4, "b": 4}, "fcfs", {}, (Node("n1", 4), Node("n2", 4), Node("n3", 4)))
BARE = World({"a": 4, "b": 4}, "fcfs")
KINDS = sorted(CHANGES)


def submitted(number, pool="a", width=1, user=None):
    job = Job(f"j{number:02}", pool, number * 7_000.0, width, user=user)
    return Submitted(job, JobOutcome(job.job_id, 100.0 + number), job.job_id)


JOBS = [submitted(number, "ab"[number % 2], 1 + number % 3, f"u{number % 2}") for number in range(40)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_changes_something_and_does_so_again_alike(kind):
    change = CHANGES[kind]
    assert change.kind == kind == change.example["kind"]
    assert (change.__doc__ or "").strip()
    entry = json.loads(json.dumps(change.example))
    outcomes = []
    for _ in range(2):
        patch = read_patch([entry])
        world = patch.on_world(WORLD)
        outcomes.append((world, patch.on_jobs(JOBS, world, SPAN)))
    assert outcomes[0] == outcomes[1]
    world, jobs = outcomes[0]
    assert (world, jobs) != (WORLD, JOBS)
    assert len({one.job.job_id for one in jobs}) == len(jobs)
    assert jobs == sorted(jobs, key=lambda one: (one.job.submit_s, one.job.job_id))
    assert all(one.job.job_id == one.outcome.job_id for one in jobs)
    assert all(SPAN.begin_s <= one.job.submit_s <= SPAN.to_s for one in jobs)
    assert sum(world.quotas.values()) <= world.capacity_gpus


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_names_the_entry_its_kind_and_the_rule(kind):
    entry = dict(CHANGES[kind].example)
    for broken, rule in (
        ({**entry, "nix": 1}, ChangeRule.UNKNOWN_FIELD),
        ({"kind": kind}, ChangeRule.MISSING_FIELD),
        ({name: {"x": []} if name != "kind" else kind for name in entry}, ChangeRule.WRONG_VALUE),
    ):
        with pytest.raises(ChangeError) as caught:
            read_patch([CHANGES["quota"].example, broken])
        assert (caught.value.index, caught.value.kind, caught.value.rule) == (1, kind, rule)
        assert str(caught.value).startswith(f"changes[1] ({kind}): {rule}: ")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "pool" in CHANGES[kind].example])
def test_a_pool_that_is_not_there_is_refused(kind):
    patch = read_patch([{**CHANGES[kind].example, "pool": "nix"}], Calendar())
    with pytest.raises(
        ChangeError, match=rf"changes\[0\] \({kind}\): unknown-pool: .*'nix'; there are: a, b"
    ):
        patch.on_world(BARE)
