"""Which running job is the best host of one that waits, and why others are none."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.services.packing_advice import LEFT_S, OBJECTIVES, Advice, AskedJob, Question, advise
from app.services.packing_rates import PairKnowledge
from data.readers.benchmark_csv import read_nodes
from data.readers.packing_csv import RunningJob, read_running_jobs


@dataclass(frozen=True, slots=True)
class Hosts:
    """The candidates for one rider.

    Attributes:
        ranked: advice for each possible host, the best first.
        excluded: name of a job and why it can be none, in the order of the file.
        notes: what was assumed, one sentence each.
    """

    ranked: tuple[Advice, ...]
    excluded: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def read_candidates(jobs: Path, nodes: Path) -> tuple[RunningJob, ...]:
    """Running jobs on the nodes.

    Raises:
        InputError: with every fault found in a file.
    """
    return read_running_jobs(jobs, read_nodes(nodes))


def rank_hosts(
    rider: AskedJob, running: Sequence[RunningJob], knowledge: PairKnowledge, question: Question
) -> Hosts:
    """Advice for the rider beside each running job: who is advised first, then by what the objective gains.

    A host has to have consented, to be as wide as the rider, and to share none of its GPUs yet (at most two
    workers on a GPU).
    """
    taken = Counter(gpu for job in running for gpu in job.gpus)
    excluded: list[tuple[str, str]] = []
    found: list[Advice] = []
    for job in running:
        reason = _no_host(job, rider, is_shared=any(taken[gpu] > 1 for gpu in job.gpus))
        if reason is not None:
            excluded.append((job.job_id, reason))
            continue
        host = AskedJob(
            job.job_id,
            job.model,
            len(job.gpus),
            job.memory_mib,
            LEFT_S if job.left_s is None else job.left_s,
            job.deadline_s,
        )
        memory = question.gpu_memory_mib if job.gpu_memory_mib is None else job.gpu_memory_mib
        found.append(advise(host, rider, knowledge, replace(question, gpu_memory_mib=memory)))
    unsaid = sum(job.left_s is None for job in running)
    notes = [f"{unsaid} jobs name no left_s: taken to be {LEFT_S:.0f} s"] if unsaid else []
    score = OBJECTIVES[question.objective]

    def rank(one: Advice) -> tuple[bool, tuple[float, ...], str]:
        if one.packed is None:
            return True, (), one.host.name
        pairs = zip(
            score(one.packed, one.host, one.rider), score(one.apart, one.host, one.rider), strict=True
        )
        return not one.is_advised, tuple(packed - apart for packed, apart in pairs), one.host.name

    return Hosts(tuple(sorted(found, key=rank)), tuple(excluded), tuple(notes))


def _no_host(job: RunningJob, rider: AskedJob, *, is_shared: bool) -> str | None:
    if not job.may_host:
        return "has not consented to share"
    if is_shared:
        return "shares a GPU already"
    if len(job.gpus) < rider.width:
        return f"is narrower ({len(job.gpus)} GPUs) than the rider ({rider.width})"
    return None
