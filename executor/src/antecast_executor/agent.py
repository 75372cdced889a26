"""The loop: observe, reconcile, act. Everything it needs to know is on the node or in the journal."""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

from antecast_executor import __version__, happenings
from antecast_executor.actuator import Actuator
from antecast_executor.admission import NodeFacts
from antecast_executor.adoption import adopt
from antecast_executor.calibrations import Calibrations
from antecast_executor.clock import to_text
from antecast_executor.document import Placement
from antecast_executor.intake import Intake
from antecast_executor.journal import Journal
from antecast_executor.observer import Observer, Waker
from antecast_executor.primitives import Node
from antecast_executor.primitives.sharing import has_mps
from antecast_executor.reconciler import Action, Limits, Observed, Steps, reconcile
from antecast_executor.record import Record, RunState
from antecast_executor.telemetry import TelemetryMaker

PROBE_EVERY_S = 30.0
_log = logging.getLogger(__name__)


class Agent:
    """Holds the node in the state that the last accepted document describes.

    Its methods may be called from several threads; one lock makes them take turns. It never talks to the
    network: a link brings documents in (`offer`) and takes reports and events out.
    """

    def __init__(
        self, node: Node, journal: Journal, *, boot_id: str, telemetry: TelemetryMaker | None = None
    ) -> None:
        """Be ready to start. Without `telemetry`, which tells the steps of jobs, nothing is calibrated."""
        self._node = node
        self._journal = journal
        self._boot_id = boot_id
        self._lock = threading.RLock()
        self._waker = Waker()
        self._observer = Observer(node)
        self._actuator = Actuator(node, journal)
        self._intake = Intake(journal, node.clock)
        self._records: dict[str, Record] = {}
        steps = None if telemetry is None else telemetry(node.clock.monotonic, self._records.values)
        self._calibrations = Calibrations(self._actuator, self._records, steps, node.clock)
        self._spent = journal.spent()
        self._reported_over: set[str] = set()
        self._told = ""
        self._probed_s = float("-inf")
        self._is_stopped = False
        self.on_change: Callable[[], None] = lambda: None

    # Life

    def start(self) -> None:
        """Look at the node and adopt what runs."""
        with self._lock:
            self._look()
            self._records.update(adopt(self._journal, self._node))
            self._spent = self._journal.spent()
            # The last life may have ended right after it had accepted a document.
            self._follow()

    def run(self, tick_s: float) -> None:
        """Until `stop`. Placements go on running afterwards."""
        while not self._is_stopped:
            try:
                self.step()
            except Exception:  # noqa: BLE001 - the outermost loop: the next tick sees the same node and tries again
                _log.exception("this tick failed")
            self._waker.sleep(tick_s)

    def stop(self) -> None:
        """End `run`; safe in a signal handler."""
        self._is_stopped = True
        self._waker.ring()

    def close(self) -> None:
        """Let all handles go."""
        with self._lock:
            self._waker.close()

    # For the link

    def offer(self, raw: bytes) -> bool:
        """A document has come; whether it is in force now."""
        with self._lock:
            is_taken = self._intake.offer(raw, self._facts())
            if is_taken:
                self._actuator.forgive()
                self._follow()
        self._waker.ring()
        self.on_change()
        return is_taken

    def contact(self) -> None:
        """The control plane has answered."""
        with self._lock:
            self._intake.contact()

    @property
    def after(self) -> int:
        """Generation to ask for newer ones than."""
        with self._lock:
            return self._intake.after

    def introduction(self) -> dict[str, Any]:
        """The body of a new session."""
        with self._lock:
            return {
                "boot_id": self._boot_id,
                "version": __version__,
                "devices": happenings.devices(self._observer.devices.values()),
                "capabilities": happenings.capabilities(self._observer.capabilities),
                "placements": sorted(item.placement_id for item in self._records.values() if _runs(item)),
            }

    def report(self) -> dict[str, Any]:
        """The body of a status, without its session."""
        with self._lock:
            return {
                **self._essence(),
                "devices": happenings.devices(self._observer.devices.values()),
                "capabilities": happenings.capabilities(self._observer.capabilities),
                "sent_at": to_text(self._node.clock.wall()),
            }

    def reported(self, report: dict[str, Any]) -> None:
        """The control plane has this report: what it calls over may be forgotten."""
        over = {item["placement_id"] for item in report["placements"] if item["state"] in {"ended", "lost"}}
        with self._lock:
            self._reported_over |= over & self._records.keys()

    def _essence(self) -> dict[str, Any]:
        """What makes a report worth sending at once when it changes."""
        epoch, generation = self._intake.reported
        calibrations = self._calibrations.to_json()
        # A control plane that asks for none need not know of them.
        more = {"calibrations": calibrations} if calibrations else {}
        return {
            **more,
            "epoch": epoch,
            "generation": generation,
            "accepted": self._intake.is_accepted,
            "refusals": [
                {"placement_id": item.placement_id, "reason": item.reason, "message": item.message}
                for item in self._intake.refusals[:100]
            ],
            "placements": [happenings.placement(item) for item in self._records.values()],
        }

    # One tick

    def step(self) -> None:
        """Observe, reconcile, act."""
        with self._lock:
            self._look()
            if self._intake.recheck(self._facts()):
                self._actuator.forgive()
                self._follow()
            self._note_ends()
            events = self._calibrations.step(self._wanted())
            if events:
                self._journal.emit(events)
            steps = self.plan()
            for action in steps.actions:
                self._actuator.act(self._records[action.placement_id], action)
            for placement_id, reason in steps.waiting.items():
                self._actuator.wait(self._records[placement_id], reason)
            for record in self._records.values():
                if not record.is_over:
                    self._actuator.verify(record)
            self._spent.update(name for name, item in self._records.items() if item.is_over)
            self._forget()
            self._waker.watch(item.process for item in self._records.values() if item.process and _runs(item))
            told = json.dumps([self._essence(), sorted(self._observer.lost)])
            is_news, self._told = told != self._told, told
        if is_news:
            self.on_change()

    def plan(self) -> Steps:
        """What a tick would do now."""
        with self._lock:
            document = self._intake.document
            if document is None:
                # Nothing is known of what is wanted: what runs, runs on; a stop that has begun goes on.
                return Steps()
            is_expired = self._intake.is_expired
            limits = Limits(
                may_launch=not is_expired,
                is_cut_off=is_expired,
                lost_gpus=self._observer.lost,
                blocked=self._actuator.blocked(),
            )
            wanted = self._calibrations.held(
                item for item in document.placements if item.placement_id in self._records
            )
            return reconcile(
                wanted, [_observed(item) for item in self._records.values() if _began(item)], limits
            )

    def describe(self, action: Action) -> dict[str, Any]:
        """An action with all that it would be done with, for people."""
        with self._lock:
            placement = self._records[action.placement_id].placement
        body: dict[str, Any] = {"action": action.primitive, "placement_id": action.placement_id}
        body["value"] = action.value
        if action.primitive == "launch":
            # Values of the environment can be secrets.
            body["argv"], body["env"], body["gpus"] = placement.argv, sorted(placement.env), placement.gpus
            body["memory_mib"], body["priority"] = placement.memory_mib, placement.priority
        return body

    def _wanted(self) -> list[Placement]:
        """The placements of the document in force that are not over."""
        document = self._intake.document
        records = self._records
        return [
            item
            for item in (() if document is None else document.placements)
            if item.placement_id in records and not records[item.placement_id].is_over
        ]

    def _look(self) -> None:
        now_s = self._node.clock.monotonic()
        changes = self._observer.look()
        if changes or now_s - self._probed_s >= PROBE_EVERY_S:
            self._observer.probe()
            self._probed_s = now_s
        wall_s = self._node.clock.wall()
        if changes:
            self._journal.emit([happenings.of_device(kind, device, wall_s) for kind, device in changes])

    def _facts(self) -> NodeFacts:
        started = {name: item.placement for name, item in self._records.items() if _began(item)}
        return NodeFacts(
            devices=self._observer.devices,
            can=self._observer.can,
            has_mps=has_mps(self._node),
            started={name: item for name, item in started.items() if name not in self._spent},
            spent=frozenset(self._spent),
        )

    def _follow(self) -> None:
        """Bring the records in line with the document that is in force now."""
        document = self._intake.document
        if document is None:
            return
        wanted = {item.placement_id: item for item in document.placements}
        for name in [name for name, item in self._records.items() if not _began(item) and name not in wanted]:
            self._journal.forget(name)
            del self._records[name]
        for name, placement in wanted.items():
            record = self._records.get(name)
            if record is None and name in self._spent:
                _log.warning("%s has run before and is not started again", name)
            elif record is None or not _began(record):
                self._records[name] = Record(placement)
                self._journal.save(self._records[name])
            elif record.placement != placement:
                record.placement = placement
                self._journal.save(record)

    def _note_ends(self) -> None:
        for record in self._records.values():
            process = record.process
            if process is None or record.is_over:
                continue
            end = self._node.processes.exit_of(record.placement_id, process)
            if end is None and not self._node.processes.is_alive(process):
                _log.warning("%s has lost its supervisor: what is left of it is ended", record.placement_id)
                self._node.processes.kill(record.placement_id, process)
                end = self._node.processes.exit_of(record.placement_id, process)
            if end is None:
                continue
            reason = "exited" if end.is_known else "vanished"
            record.end_reason = "stopped" if record.state is RunState.STOPPING else reason
            record.state, record.end, record.intent = RunState.ENDED, end, None
            self._actuator.finish(record)
            event = happenings.of_end(record, self._node.clock.wall())
            self._journal.save(record, [event])
            _log.info("%s ended: %s", record.placement_id, event.data)

    def _forget(self) -> None:
        """Drop what is over once the control plane knows it and no longer names it."""
        document = self._intake.document
        if document is None:
            return
        wanted = {item.placement_id for item in document.placements}
        for name in [name for name, item in self._records.items() if item.is_over and name not in wanted]:
            if name not in self._reported_over:
                continue
            process = self._records[name].process
            if process is not None:
                self._node.processes.forget(name, process)
            self._journal.forget(name)
            del self._records[name]
            self._reported_over.discard(name)
            self._actuator.forget(name)


def _began(record: Record) -> bool:
    """Whether a launch was carried out, or at least has come to its end."""
    return record.process is not None or record.is_over


def _runs(record: Record) -> bool:
    return record.process is not None and not record.is_over


def _observed(record: Record) -> Observed:
    gpus = record.placement.gpus
    return Observed(record.placement_id, gpus, record.state, record.share_pct, record.is_hold_known)
