"""`anticipatory`, asked again with other idle GPUs, answers as if asked for the first time."""

from packed_worlds import ToldLives

from domain.jobs import Job
from solver.policies import POLICIES
from solver.policies.base import Policy, PolicyContext, parse_settings

QUOTAS = {"a": 2, "b": 1, "c": 1}
LATE, NEXT, WIDE = Job("late", "b", 0.0, 1), Job("next", "b", 1.0, 1), Job("wide", "a", 2.0, 2)
LIVES = ToldLives({"late": 100.0, "next": 100.0, "wide": 100.0})


def told() -> Policy:
    """The first job of b could not start in time, so the reference has reached the one behind it."""
    spec = POLICIES["anticipatory"]
    policy = spec.build(PolicyContext(QUOTAS, LIVES), parse_settings("", spec.settings, {"eps": "1"}))
    policy.submitted(LATE, 0.0)
    policy.decide(0.0, 0)
    policy.submitted(NEXT, 1.0)
    policy.submitted(WIDE, 2.0)
    return policy


def starts(policy: Policy, idle_gpus: int) -> list[tuple[str, bool]]:
    return [(start.job.job_id, start.is_guest) for start in policy.decide(2.0, idle_gpus).starts]


def test_who_was_to_start_in_turn_and_did_not_is_lent_to_all_the_same():
    policy = told()
    assert starts(policy, 2) == [("late", False), ("next", True)], "too few for all: by the reference"
    in_full = [("late", False), ("wide", False), ("next", True)]
    assert starts(told(), 4) == in_full
    assert starts(policy, 4) == in_full
    assert starts(policy, 2) == [("late", False), ("next", True)]


def test_who_started_in_turn_is_offered_no_more():
    policy = told()
    starts(policy, 2)
    policy.started(LATE, 2.0)
    policy.started(NEXT, 2.0)
    assert starts(policy, 2) == [("wide", False)]
