"""The last accepted document, and what was refused since."""

import json
import logging
from dataclasses import dataclass, replace

from antecast_executor.admission import NodeFacts, refusals
from antecast_executor.clock import Clock
from antecast_executor.document import Document, DocumentError, Refusal, parse
from antecast_executor.journal import Accepted, Journal

CONTACT_KEPT_EVERY_S = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Arrival:
    document: Document
    raw: bytes


class Intake:
    """Takes documents whole or refuses them whole. What it takes is in the journal before it is in force.

    Attributes:
        document: the one in force; None if there is none (before the first, or after a reboot).
        refusals: why the last one that came is not in force; empty if it is.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._accepted = journal.accepted()
        self._contact_s = clock.monotonic()
        self._refused: _Arrival | None = None
        self._last_seen: tuple[int, int] | None = None
        self.document: Document | None = None
        self.refusals: tuple[Refusal, ...] = ()
        if self._accepted is not None and self._accepted.raw is not None:
            self._contact_s = self._accepted.contact_s
            self.document = _reread(self._accepted.raw)

    @property
    def reported(self) -> tuple[int, int]:
        """(epoch, generation) that the status speaks of: the last one that came, else the one in force."""
        if self._last_seen is not None:
            return self._last_seen
        return (0, 0) if self.document is None else self.document.version

    @property
    def is_accepted(self) -> bool:
        """Whether the document that the status speaks of is in force."""
        return self.document is not None and not self.refusals

    @property
    def after(self) -> int:
        """Generation to ask for newer ones than.

        One that was refused need not come again, it is kept; one that was garbled on its way has to.
        """
        kept = (self.document, None if self._refused is None else self._refused.document)
        return max(0 if item is None else item.generation for item in kept)

    def offer(self, raw: bytes, facts: NodeFacts) -> bool:
        """Take a document or refuse it; whether it is in force now."""
        try:
            document = parse(raw)
        except DocumentError as error:
            self._refuse(error.refusals, _version_of(raw) or self.reported)
            return False
        return self._weigh(_Arrival(document, raw), facts)

    def recheck(self, facts: NodeFacts) -> bool:
        """Weigh again what was refused, for the node may have changed; whether it is in force now."""
        return self._refused is not None and self._weigh(self._refused, facts)

    def _weigh(self, arrival: _Arrival, facts: NodeFacts) -> bool:
        before = self._accepted
        last = None if before is None else ((before.epoch, before.generation), before.hash)
        found = refusals(arrival.document, last=last, node=facts)
        if found:
            self._refuse(found, arrival.document.version)
            self._refused = arrival
            return False
        self._take(arrival)
        return True

    def _refuse(self, found: tuple[Refusal, ...], version: tuple[int, int]) -> None:
        if found != self.refusals or version != self._last_seen:
            _log.warning("document %s refused: %s", version, "; ".join(item.message for item in found[:8]))
        self._refused = None
        self.refusals, self._last_seen = found, version

    def _take(self, arrival: _Arrival) -> None:
        document = arrival.document
        self._contact_s = self._clock.monotonic()
        self._keep(
            Accepted(
                document.epoch, document.generation, document.hash, arrival.raw.decode(), self._contact_s
            )
        )
        self.document, self.refusals, self._refused = document, (), None
        self._last_seen = document.version
        _log.info("document %s in force: %d placements", document.version, len(document.placements))

    def _keep(self, accepted: Accepted) -> None:
        self._journal.accept(accepted)
        self._accepted = accepted

    def contact(self) -> None:
        """The control plane has answered: what is in force holds for another `valid_for_s`."""
        self._contact_s = self._clock.monotonic()
        before = self._accepted
        if before is None or self.document is None:
            return
        if self._contact_s - before.contact_s >= CONTACT_KEPT_EVERY_S:
            self._keep(replace(before, contact_s=self._contact_s))

    @property
    def is_expired(self) -> bool:
        """Whether the control plane has been away for longer than the document holds."""
        if self.document is None:
            return False
        return self._clock.monotonic() - self._contact_s > self.document.valid_for_s


def _reread(raw: str) -> Document | None:
    try:
        return parse(raw.encode())
    except DocumentError as error:
        _log.error("the document in the journal is not understood any more: %s", error)
        return None


def _version_of(raw: bytes) -> tuple[int, int] | None:
    """(epoch, generation) of a document that is otherwise not understood."""
    try:
        body = json.loads(raw)
        version = (body["epoch"], body["generation"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if all(type(number) is int and 0 <= number <= 2**53 for number in version) else None
