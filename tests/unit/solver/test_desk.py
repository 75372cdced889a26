"""Forecasters hear of every fact, and before the policy does."""

# ruff: noqa: ARG002 - a witness is told more than it writes down

import pytest
from support import job

from domain.observers import Observer
from domain.plans import NOTHING
from solver.desk import Desk


class Witness(Observer):
    """Writes down who is told what, in the order of telling."""

    def __init__(self, name: str, told: list[tuple[str, str]]) -> None:
        self._name, self._told = name, told

    def _note(self, what: str) -> None:
        self._told.append((self._name, what))

    def submitted(self, job, now_s):
        self._note("submitted")

    def started(self, job, now_s):
        self._note("started")

    def rate_changed(self, job, now_s, rate):
        self._note(f"goes on at {rate}")

    def sent_back(self, job, now_s):
        self._note("sent_back")

    def ended(self, job, now_s, duration_s=None):
        self._note("ended" if duration_s is None else f"ended after {duration_s}")

    def cancelled(self, job, now_s):
        self._note("cancelled")

    def decide(self, now_s, idle_gpus):
        self._note(f"asked about {idle_gpus}")
        return NOTHING


def test_order_of_telling():
    told: list[tuple[str, str]] = []
    desk = Desk(Witness("policy", told), [Witness("first", told), Witness("second", told)])
    one = job("x")
    desk.submitted(one, 0.0)
    desk.started(one, 0.0)
    desk.rate_changed(one, 0.0, 0.5)
    desk.sent_back(one, 1.0)
    desk.ended(one, 2.0, 1.5)
    desk.cancelled(one, 3.0)
    assert desk.decide(4.0, 7) == NOTHING
    facts = ["submitted", "started", "goes on at 0.5", "sent_back", "ended after 1.5", "cancelled"]
    forecasters = [(name, fact) for fact in facts for name in ("first", "second")]
    assert [one for one in told if one[0] != "policy"] == forecasters
    policy = ["submitted", "started", "goes on at 0.5", "sent_back", "ended", "ended", "asked about 7"]
    assert [what for name, what in told if name == "policy"] == policy
    for k, fact in enumerate(policy[:4]):
        assert told.index(("policy", fact)) == told.index(("second", facts[k])) + 1


class Unaware:
    """A policy that knows nothing of rates."""

    def __init__(self) -> None:
        self.told = 0

    def submitted(self, job, now_s):
        self.told += 1

    started = ended = sent_back = submitted

    def decide(self, now_s, idle_gpus):
        return NOTHING


def test_a_policy_that_knows_no_rates_is_not_told_of_them():
    told: list[tuple[str, str]] = []
    policy = Unaware()
    Desk(policy, [Witness("forecaster", told), Observer()]).rate_changed(job("x"), 0.0, 1.0)
    assert (told, policy.told) == ([("forecaster", "goes on at 1.0")], 0)


@pytest.mark.parametrize("rate", [0.0, -0.5, 1.01, float("nan")])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match=r"job x is to go on at rate .*, must lie in \(0, 1\]"):
        Desk(Unaware()).rate_changed(job("x"), 0.0, rate)
