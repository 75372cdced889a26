"""Forecasters hear of every fact, and before the policy does."""

# ruff: noqa: ARG002 - a witness is told more than it writes down

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
    desk.sent_back(one, 1.0)
    desk.ended(one, 2.0, 1.5)
    desk.cancelled(one, 3.0)
    assert desk.decide(4.0, 7) == NOTHING
    facts = ["submitted", "started", "sent_back", "ended after 1.5", "cancelled"]
    forecasters = [(name, fact) for fact in facts for name in ("first", "second")]
    assert [one for one in told if one[0] != "policy"] == forecasters
    policy = ["submitted", "started", "sent_back", "ended", "ended", "asked about 7"]
    assert [what for name, what in told if name == "policy"] == policy
    for k, fact in enumerate(policy[:3]):
        assert told.index(("policy", fact)) == told.index(("second", facts[k])) + 1
