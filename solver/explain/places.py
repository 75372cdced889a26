"""Why a job has no place on the nodes although GPUs are idle, and which nodes or which move would do."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from domain.jobs import Job
from solver.explain.words import Change, Lever, Waiting, Why
from solver.placement.fit import Missing, TypeRoom, rooms_for, rooms_of, usable
from solver.plan_rules import Known, PlanState

_NAMED: Final = 3
"""Nodes and jobs that a sentence names."""


class Places:
    """The nodes of a cluster as they are: what is idle where, and who runs there.

    Args:
        state: the cluster; without nodes every job has a place.
    """

    def __init__(self, state: PlanState) -> None:
        self._idle_gpus = state.idle_gpus
        self._tenants: dict[str, dict[str, Known]] = {}
        self._workers: Counter[tuple[str, int]] = Counter()
        for one in state.known.values():
            for gpu in one.gpus:
                self._workers[gpu.node, gpu.index] += 1
                self._tenants.setdefault(gpu.node, {})[one.job.job_id] = one
        free = {
            node.name: sum((node.name, k) not in self._workers for k in range(node.num_gpus))
            for node in state.nodes
        }
        self._rooms = rooms_of(free, state.nodes)
        self._found: dict[tuple[int, str | None], tuple[Change, ...]] = {}

    def hold(self, job: Job) -> bool:
        """Whether a job finds GPUs on the nodes, as the placing rule gives them."""
        if not self._rooms:
            return True
        return any(room.holds(job.num_gpus) for room in rooms_for(self._rooms, job.num_gpus, job.gpu_type))

    def no_node_fits(self, job: Job, *, would_start: bool) -> Waiting | None:
        """That a job fits no node although enough GPUs are idle in sum; None if that is not so.

        Args:
            job: it waits.
            would_start: whether it would start at once if it had a place.
        """
        if job.num_gpus > self._idle_gpus or self.hold(job):
            return None
        rooms = usable(self._rooms, job.gpu_type)
        fit = rooms_for(rooms, job.num_gpus, job.gpu_type)
        widest = max((room.widest_gpus() for room in fit), default=0)
        idle = sum(room.idle_gpus for room in rooms)
        kind = "" if job.gpu_type is None else f" ({idle} of type {job.gpu_type})"
        text = (
            f"does not fit any node although {self._idle_gpus} GPUs are idle{kind}: "
            f"it needs {_needs(job, fit)}, the widest gang that fits has {widest}"
        )
        evidence: dict[str, float | str] = {
            "idle_gpus": self._idle_gpus,
            "width_gpus": job.num_gpus,
            "usable_gpus": idle,
            "widest_gpus": widest,
            "by_type": _by_type(self._rooms),
        }
        key = (job.num_gpus, job.gpu_type)
        if key not in self._found:
            self._found[key] = tuple(self._changes(job, fit))
        begins = "starts at once" if would_start else "has a place"
        changes = tuple(replace(one, text=f"{begins} if {one.text}") for one in self._found[key])
        return Waiting(job, Why.NO_NODE_FITS, text, evidence, changes)

    def _changes(self, job: Job, fit: Sequence[TypeRoom]) -> Iterator[Change]:
        """The nodes that lack the fewest GPUs, and the narrowest running gang whose move would do."""
        ways = [way for room in fit if (way := room.nearest(job.num_gpus))]
        if not ways:
            return
        best = min(ways, key=lambda way: sum(one.gpus for one in way))
        short = [one for one in best if one.gpus]
        missing = sum(one.gpus for one in short)
        text = ", ".join(map(self._freed, short[:_NAMED]))
        if len(short) > _NAMED:
            text += f" and so on ({missing} GPUs of {len(short)} nodes)"
        yield Change(Lever.NODE_FREED, missing, text)
        for room in fit:
            move = self._move(job, room)
            if move is not None:
                yield move
                return

    def _freed(self, one: Missing) -> str:
        names = sorted(self._tenants.get(one.node, {}))
        listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        return f"{one.gpus} more GPUs of node {one.node} were idle" + (f" ({listed} there)" if names else "")

    def _move(self, job: Job, room: TypeRoom) -> Change | None:
        """The narrowest gang on one node that, moved to another, leaves a place for the job."""
        trial = _Trial(job, room)
        tried = sorted(
            (len(one.gpus), name, node)
            for node in room.sizes
            for name, one in self._tenants.get(node, {}).items()
            if self._is_alone_on_one_node(one)
        )
        for gpus, name, node in tried:
            to = trial.target(node, gpus)
            if to is not None:
                text = f"job {name} ({gpus} GPUs) ran on node {to} instead of {node}"
                return Change(Lever.MOVE, gpus, text)
        return None

    def _is_alone_on_one_node(self, one: Known) -> bool:
        nodes = {gpu.node for gpu in one.gpus}
        return len(nodes) == 1 and all(self._workers[gpu.node, gpu.index] == 1 for gpu in one.gpus)


class _Trial:
    """Whether a gang has a place once another has gone from one node to another; O(1) a try."""

    def __init__(self, job: Job, room: TypeRoom) -> None:
        self._room = room
        self._whole, self._rest = divmod(job.num_gpus, room.node_gpus)
        free = room.free.values()
        self._num_whole = sum(map(self._is_whole, free))
        self._num_rest = sum(map(self._has_rest, free))
        alike: dict[int, list[str]] = {}
        for node, gpus in room.free.items():
            alike.setdefault(gpus, []).append(node)
        self._targets = [node for gpus in sorted(alike) for node in alike[gpus][:2]]

    def target(self, old: str, gpus: int) -> str | None:
        """A node to which so many GPUs could go so that the gang has a place; the one with the fewest free.

        Nodes with equally many free GPUs are alike, so that two of each number are enough to try.
        """
        free = self._room.free
        return next(
            (
                new
                for new in self._targets
                if new != old and free[new] >= gpus and self._works(free[old], free[new], gpus)
            ),
            None,
        )

    def _works(self, old: int, new: int, gpus: int) -> bool:
        before, after = (old, new), (old + gpus, new - gpus)
        whole = self._num_whole + sum(map(self._is_whole, after)) - sum(map(self._is_whole, before))
        rest = self._num_rest + sum(map(self._has_rest, after)) - sum(map(self._has_rest, before))
        return whole >= self._whole and (not self._rest or rest > self._whole)

    def _is_whole(self, free: int) -> bool:
        return free >= self._room.node_gpus

    def _has_rest(self, free: int) -> bool:
        return free >= self._rest


def _needs(job: Job, fit: Sequence[TypeRoom]) -> str:
    """What a gang needs of the nodes."""
    if not fit:
        return "GPUs of a type that no node has"
    whole, rest = divmod(job.num_gpus, max(room.node_gpus for room in fit))
    parts = [f"{whole} whole node{'s' if whole > 1 else ''}"] if whole else []
    parts += [f"{rest} GPUs of one node"] if rest else []
    return " and ".join(parts)


def _by_type(rooms: Sequence[TypeRoom]) -> str:
    """Idle GPUs and the widest gang that fits, of each type."""
    return "; ".join(
        f"{room.gpu_type}: {room.idle_gpus} idle, widest gang {room.widest_gpus()}" for room in rooms
    )
