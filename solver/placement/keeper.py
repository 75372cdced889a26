"""Who runs on which GPUs, told by facts: the room a live policy asks for, and which guests make room.

Where the starts of a decision go is the business of `solver.placement.decision`; the same rule says here what
it will leave for guests.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Plan
from solver.placement.board import Board, Tenant
from solver.placement.decision import Starts, place_starts
from solver.placement.room import GuestRoom
from solver.placement.settle import Settled, settle

_NEVER_S = 0.0
"""When gangs end is not looked at: only what is free and what can be vacated decides."""


class Keeper:
    """The running jobs of a cluster on its nodes (`solver.placement.room.NodeKeeper`).

    A GPU is whose it was first; who shares it (a rider) has it alone once the others are gone.

    Args:
        nodes: those that are there.
        may_go: whether a running job is a guest that may be sent back, now.
    """

    def __init__(self, nodes: Sequence[Node], may_go: Callable[[Job], bool]) -> None:
        self._board = Board(nodes)
        self._may_go = may_go
        self._types = {node.name: node.gpu_type for node in nodes}
        self._claims: dict[str, tuple[Job, tuple[Gpu, ...]]] = {}
        self._sharing: dict[str, None] = {}

    def started(self, job: Job, gpus: Iterable[tuple[str, int]]) -> None:
        """A job runs on GPUs (node, index); those of nodes that are not there count for nothing."""
        known = (Gpu(node, index, self._types[node]) for node, index in gpus if node in self._types)
        self._claims[job.job_id] = (job, tuple(known))
        self._settle_down(job.job_id)

    def left(self, job_id: str) -> None:
        """A job runs no more, if it did."""
        if self._claims.pop(job_id, None) is None:
            return
        self._board.remove(job_id)
        self._sharing.pop(job_id, None)
        for other in list(self._sharing):
            self._board.remove(other)
            self._settle_down(other)

    def room(self, own: Plan, now_s: float) -> GuestRoom:
        """What is left for guests once a plan's own part is carried out; nothing is changed by asking.

        Args:
            own: the plan without its guests.
            now_s: instant of the plan.
        """
        del now_s
        due = [start.job for start in own.starts if not start.is_guest]
        if not (due or own.send_backs):
            return GuestRoom(self._board.free_nodes())
        board = self._board.copy()
        for job in self.by_node(own).send_backs:
            if job.job_id in board.tenants:
                board.remove(job.job_id)
        dealt = place_starts(Starts(own=due), board.idle(), board.nodes, self._widths(due))
        for job in due:
            gone = dealt.places.get(job.job_id) or dealt.kept.get(job.job_id, ())
            board.put(Tenant(job, tuple(gone), _NEVER_S))
        return GuestRoom(board.free_nodes())

    def gpus_of(self, job_id: str) -> tuple[Gpu, ...]:
        """GPUs of a running job, alone or shared; none of one that does not run."""
        return self._claims[job_id][1] if job_id in self._claims else ()

    def by_node(self, plan: Plan) -> Plan:
        """The plan, with other guests sent back where those it names leave an own start without nodes.

        Its own choice stands where that gives nodes to as many. Else guests go whose nodes hold what starts
        (`solver.placement.settle`), none whose GPUs nobody takes in the end. Where GPUs do not suffice in sum
        for the own starts then, since no guests could make room for one of them, those go besides whom the
        plan names, as far as they are needed: others must not wait for a job that waits for a node.
        """
        due = [start.job for start in plan.starts if not start.is_guest]
        named = [job.job_id for job in plan.send_backs if job.job_id in self._board.tenants]
        blocked = _settled(self._board, due, gone=named)[1].blocked
        if not blocked:
            return plan
        board, done = _settled(self._board, due, may_go=self._can_go(plan.conversions))
        if len(done.blocked) >= len(blocked):
            return plan
        victims = done.send_backs
        for job in list(victims):
            gpus = self._board.tenants[job.job_id].gpus
            if board.are_free(gpus):
                board.put(Tenant(job, gpus, _NEVER_S))
                victims.remove(job)
        return replace(plan, send_backs=(*victims, *self._more(plan, victims)))

    def _more(self, plan: Plan, victims: Sequence[Job]) -> list[Job]:
        """Guests of the plan that go besides, so that GPUs suffice for its own starts in sum."""
        last = max(place for place, start in enumerate(plan.starts) if not start.is_guest)
        missing = sum(start.job.num_gpus for start in plan.starts[: last + 1])
        missing -= self._board.free_gpus() + sum(job.num_gpus for job in victims)
        chosen = {job.job_id for job in victims}
        more: list[Job] = []
        for job in plan.send_backs:
            if missing <= 0:
                break
            if job.job_id not in chosen:
                more.append(job)
                missing -= job.num_gpus
        return more

    def _can_go(self, conversions: Iterable[Job]) -> list[str]:
        stay = {job.job_id for job in conversions}
        tenants = self._board.tenants.items()
        return [name for name, one in tenants if name not in stay and self._may_go(one.job)]

    def _widths(self, due: Iterable[Job]) -> list[int]:
        return [job.num_gpus for job, _ in self._claims.values()] + [job.num_gpus for job in due]

    def _settle_down(self, job_id: str) -> None:
        """Give a job those of its GPUs that nobody else has."""
        job, gpus = self._claims[job_id]
        free = tuple(gpu for gpu in gpus if self._board.are_free([gpu]))
        self._board.put(Tenant(job, free, _NEVER_S))
        self._sharing.pop(job_id, None)
        if len(free) < len(gpus):
            self._sharing[job_id] = None


def _settled(
    board: Board, due: Sequence[Job], *, gone: Iterable[str] = (), may_go: Iterable[str] = ()
) -> tuple[Board, Settled]:
    """A board, and what becomes of own jobs on it, once some gangs are gone and others may go."""
    if not due:
        return board, Settled()
    trial = board.copy()
    for job_id in gone:
        trial.remove(job_id)
    trial.let_go(may_go)
    return trial, settle(trial, due, _NEVER_S, lambda _: _NEVER_S, drains=0)
