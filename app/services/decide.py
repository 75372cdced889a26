"""A decision at once: the facts a scheduler brings, then what to do now, in one call.

First the facts and the question itself are written into the log, under the cluster's lock; then a warm
process that follows the log says what the question's entry comes to. So the order of decisions is that of
the log, whichever process answers, and any of them can be derived again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine
from sqlmodel import Session

from app.clock import Clock
from app.errors import Conflict
from app.services import actions, applying, modes
from app.services.deciding import Deciders
from app.services.facts import Fact
from app.services.observe import FUTURE_S, Recorded, record
from app.services.planning import require_cluster
from app.services.times import to_s
from app.store import live, plans
from app.store.engine import lock_cluster, reading, transaction
from app.store.tables import ClusterRow, DecisionRow, EnforcedBy

Json = dict[str, Any]

_SAID: Final = ("refused", "lending", "proposed")
_NOTHING: Final[Json] = {"starts": [], "send_backs": [], "conversions": [], "holds": []}


@dataclass(frozen=True)
class Question:
    """What a scheduler asks.

    Attributes:
        facts: what has happened since the last call, in order.
        at_s: instant of the decision, seconds on the cluster's clock; now where None.
        idle_gpus: GPUs idle as the scheduler counts them; as the log has it where None.
        source: who asks.
        explain: whether to say who waits and why; where None, if they are few.
    """

    facts: Sequence[Fact]
    at_s: float | None
    idle_gpus: int | None
    source: str
    explain: bool | None = None


@dataclass(frozen=True)
class Decision:
    """An answer, the cluster as it was asked, and what became of the facts that came with the question.

    `waits` is no part of the answer, and not kept: who waits and why (`app.children.waits`), where known.
    """

    cluster: ClusterRow
    row: DecisionRow
    ask_again_s: float | None
    recorded: Recorded
    waits: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class _Asked:
    cluster: ClusterRow
    seq: int
    epoch: int
    mode: str
    at_s: float
    idle_gpus: int
    recorded: Recorded
    explain: bool | None


def decide(
    engine: Engine, deciders: Deciders, clock: Clock, cluster: str, ask: Callable[[ClusterRow], Question]
) -> Decision:
    """Record facts and decide.

    Args:
        engine: the database.
        deciders: the warm processes.
        clock: our clock.
        cluster: name.
        ask: the question, with instants on the clock of the cluster it is given.

    Raises:
        UnknownCluster: if there is none of that name.
        Conflict: if the cluster has no inventory, `at_s` lies before the last fact or ahead of the clock, or
            what is decided goes out to executors and somebody has to approve it first.
        DecisionUnavailable: if there is no answer in time.
    """
    asked = _ask(engine, clock, cluster, ask)
    answer = deciders.ask(cluster, asked.epoch, asked.seq, explain=asked.explain)
    waits = answer.pop("waits", None)
    ask_again_s = answer.pop("ask_again_s")
    took_ms = answer.pop("took_ms")
    with transaction(engine) as session:
        row = lock_cluster(session, cluster)
        if (row.epoch, row.mode) != (asked.epoch, asked.mode):
            # What it rests on is no longer so: nothing is done, ask again.
            answer, ask_again_s, waits = _NOTHING, asked.at_s, None
        else:
            answer = _carry_out(session, row, asked, answer, clock)
        made = DecisionRow(
            cluster=cluster,
            seq=asked.seq,
            epoch=asked.epoch,
            at_s=asked.at_s,
            idle_gpus=asked.idle_gpus,
            answer=answer,
            took_ms=took_ms,
            decided_at=clock.now(),
        )
        session.add(made)
    return Decision(asked.cluster, made, ask_again_s, asked.recorded, waits)


def _carry_out(session: Session, row: ClusterRow, asked: _Asked, answer: Json, clock: Clock) -> Json:
    """What the answer comes to; where executors enforce, it is so from now on."""
    said: Json = {name: answer.pop(name) for name in _SAID if name in answer}
    if "proposed" in said:
        actions.note(session, row, said["proposed"], asked.seq, clock)
    if modes.is_pushed(row):
        applied = applying.apply(
            session, row, answer, seq_seen=asked.seq, at_s=asked.at_s, clock=clock, plan_id=None
        )
        return {**applied, **said}
    done = applying.convert(session, row, answer["conversions"], at_s=asked.at_s, clock=clock)
    answer = {**answer, "conversions": done}
    if not modes.lends(row):  # the kill switch may have been thrown since it was asked
        answer = modes.without_guests(answer)
    return {**answer, **said}


def _ask(engine: Engine, clock: Clock, cluster: str, ask: Callable[[ClusterRow], Question]) -> _Asked:
    with transaction(engine) as session:
        row = require_cluster(lock_cluster(session, cluster), cluster)
        if modes.is_pushed(row) and modes.waits_for_approval(row):
            raise Conflict(f"plans of cluster {cluster} have to be approved: ask for one, POST .../replans")
        question = ask(row)
        recorded = record(session, row, question.facts, source=question.source, clock=clock)
        if recorded.accepted and row.enforced_by == EnforcedBy.EXECUTORS:
            applying.stop_what_left(session, row, clock)
        now_s, last_s, at_s = to_s(row, clock.now()), recorded.last_s, question.at_s
        if at_s is None:
            at_s = now_s if last_s is None else max(now_s, last_s)
        if last_s is not None and at_s < last_s:
            raise Conflict(f"the decision is asked for {at_s} s, but the last fact is of {last_s} s")
        if at_s > now_s + FUTURE_S:
            raise Conflict(f"the decision is asked for {at_s - now_s:.0f} s ahead of the service's clock")
        idle = live.idle_gpus(session, row) if question.idle_gpus is None else question.idle_gpus
        seq = applying.log_decision(
            session, row, at_s=at_s, idle_gpus=idle, source=question.source, clock=clock
        )
        return _Asked(row, seq, row.epoch, row.mode, at_s, idle, recorded, question.explain)


def look_up(engine: Engine, cluster: str, seq: int) -> DecisionRow | None:
    """A decision made earlier."""
    with reading(engine) as session:
        return plans.decision(session, cluster, seq)
