"""Where gangs go: each on the fewest nodes, on the fullest that hold it. A first rule; no model yet."""

from collections.abc import Iterable, Mapping, Sequence

from domain.cluster import Gpu
from domain.jobs import Job
from domain.plans import Placement


def place(jobs: Iterable[Job], idle: Mapping[str, Sequence[Gpu]]) -> tuple[Placement, ...]:
    """Give each job whole GPUs, in the order of the jobs; one that finds too few is left out.

    A gang that fits on one node gets the node with the fewest idle GPUs that hold it. A wider one takes the
    emptiest nodes first and puts its rest on the fullest node that holds it. Ties go to the node listed
    first. Each job costs O(nodes).

    Args:
        jobs: who is to start.
        idle: idle GPUs of each node.
    """
    left = {node: list(gpus) for node, gpus in idle.items()}
    placed: list[Placement] = []
    for job in jobs:
        gpus = _take(left, job.num_gpus)
        if gpus is not None:
            placed.append(Placement(job.job_id, gpus))
    return tuple(placed)


def _take(left: dict[str, list[Gpu]], num_gpus: int) -> tuple[Gpu, ...] | None:
    if sum(map(len, left.values())) < num_gpus:
        return None
    taken: list[Gpu] = []
    while len(taken) < num_gpus:
        rest = num_gpus - len(taken)
        tight = [node for node, gpus in left.items() if len(gpus) >= rest]
        node = (
            min(tight, key=lambda one: len(left[one])) if tight else max(left, key=lambda one: len(left[one]))
        )
        taken += left[node][:rest]
        del left[node][:rest]
    return tuple(taken)
