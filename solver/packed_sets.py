"""Packed sets as the checkers see them: who shares with whom, and whether that is a star.

The rules are Gimbal's (ACM TACO 2025, section 4): at most two workers a GPU; in a packed set all others are
packed with its widest job only (equal widths share all their GPUs, one to one); at most five jobs in a set;
each job on the fewest nodes.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from domain.cluster import ANY_TYPE, Node
from domain.jobs import Job

GpuKey = tuple[str, int]
"""A GPU: the name of its node, its index there."""


def packed_set(
    job_id: str, gpus_of: Callable[[str], Iterable[GpuKey]], workers: Mapping[GpuKey, Collection[str]]
) -> dict[str, set[str]]:
    """The set that a job is in: of each member, itself among them, those that it shares GPUs with.

    Args:
        job_id: one member.
        gpus_of: the GPUs of a job.
        workers: ids of the jobs on each GPU.
    """
    partners: dict[str, set[str]] = {}
    edge = [job_id]
    while edge:
        one = edge.pop()
        if one not in partners:
            partners[one] = {other for key in gpus_of(one) for other in workers.get(key, ())} - {one}
            edge += partners[one] - partners.keys()
    return partners


def is_star(
    partners: Mapping[str, set[str]],
    widths: Mapping[str, int],
    gpus_of: Callable[[str], Iterable[GpuKey]],
    workers: Mapping[GpuKey, Collection[str]],
) -> bool:
    """Whether all share with the widest job only; one as wide as it shares all its GPUs, one to one.

    Args:
        partners: a whole packed set.
        widths: GPUs of each member.
        gpus_of: the GPUs of a job.
        workers: ids of the jobs on each GPU.
    """
    widest = max(widths[job_id] for job_id in partners)
    centres = {job_id for job_id in partners if widths[job_id] == widest}
    if len(partners) == 1:
        return True
    if len(centres) > 1:
        is_pair = len(partners) == 2
        return is_pair and all(set(workers[key]) == set(partners) for one in partners for key in gpus_of(one))
    return all(mates == centres for job_id, mates in partners.items() if job_id not in centres)


def fits_type(job: Job, gpu_type: str) -> bool:
    """Whether a job may have GPUs of a type."""
    return job.gpu_type in (None, ANY_TYPE, gpu_type) or gpu_type == ANY_TYPE


def fewest_nodes(job: Job, nodes: Iterable[Node]) -> int:
    """On how few nodes a gang could be, were they empty; 0 if none is of a type that it may have."""
    largest = max((node.num_gpus for node in nodes if fits_type(job, node.gpu_type)), default=0)
    return -(-job.num_gpus // largest) if largest else 0
