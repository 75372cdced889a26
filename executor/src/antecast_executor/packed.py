"""From the placements of a node to the packed set that they are."""

from collections.abc import Sequence
from dataclasses import dataclass

from antecast_executor.calibration import Member, PackedSet, Worker
from antecast_executor.document import Placement, Role


class NotPackedError(ValueError):
    """These placements cannot be coordinated here, and why."""


@dataclass(frozen=True, slots=True)
class PackedPlacements:
    """A packed set, and which placement each of its workers is.

    Attributes:
        names: placement ids, by member and worker.
    """

    packed: PackedSet
    names: tuple[tuple[str, ...], ...]

    @property
    def placement_ids(self) -> frozenset[str]:
        """All of them."""
        return frozenset(name for row in self.names for name in row)


def packed_placements(placements: Sequence[Placement]) -> PackedPlacements:
    """The packed set that these placements are, one worker each.

    The widest job is the host; of equally wide ones that in the role of the host, then by job id.

    Raises:
        NotPackedError: if a worker has several GPUs, a job has workers elsewhere, or the star rule is broken.
    """
    ranks: dict[str, dict[int, Placement]] = {}
    for item in placements:
        if len(item.gpus) != 1:
            raise NotPackedError(
                f"{item.placement_id} has {len(item.gpus)} GPUs: shares are for workers on one"
            )
        if item.rank in ranks.setdefault(item.job_id, {}):
            raise NotPackedError(f"rank {item.rank} of {item.job_id} is there twice")
        ranks[item.job_id][item.rank] = item
    for job_id, workers in ranks.items():
        width = next(iter(workers.values())).num_ranks
        if len(workers) != width:
            raise NotPackedError(f"{len(workers)} of {width} workers of {job_id} are on this node")
    order = sorted(ranks, key=lambda job_id: _rank_of(job_id, ranks[job_id]))
    partners = _partners(ranks, order[0]) if order else ()
    members = [Member(job_id, len(ranks[job_id])) for job_id in order]
    try:
        packed = PackedSet(members[0], tuple(members[1:]), partners)
    except (ValueError, IndexError) as error:
        raise NotPackedError(f"no packed set: {error}") from error
    names = tuple(
        tuple(ranks[job_id][rank].placement_id for rank in sorted(ranks[job_id])) for job_id in order
    )
    return PackedPlacements(packed, names)


def _rank_of(job_id: str, workers: dict[int, Placement]) -> tuple[int, bool, str]:
    return (-len(workers), all(item.role is not Role.HOST for item in workers.values()), job_id)


def _partners(ranks: dict[str, dict[int, Placement]], host: str) -> tuple[Worker | None, ...]:
    """Who shares with each worker of the host."""
    beside: dict[str, Worker] = {}
    for job_id in sorted(ranks):
        for rank, item in sorted(ranks[job_id].items()):
            uuid = item.gpus[0]
            if job_id == host:
                continue
            if uuid in beside:
                raise NotPackedError(f"GPU {uuid} has two workers besides that of {host}")
            beside[uuid] = Worker(job_id, rank)
    own = [item.gpus[0] for _, item in sorted(ranks[host].items())]
    if len(set(own)) != len(own):
        raise NotPackedError(f"two workers of {host} are on one GPU")
    return tuple(beside.get(uuid) for uuid in own)
