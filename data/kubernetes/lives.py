"""When something ran and why it ended: pods from their containers, all else from status and conditions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from data.intake.rows import Notes, quoted
from data.intake.rules import ImportRule
from data.kubernetes.conditions import (
    DISRUPTIONS,
    EVICTED,
    JOB_FAILED,
    KILLED,
    POD_REASONS,
    RAY_STATUS,
    VOLCANO_PHASES,
)
from data.kubernetes.objects import Condition, Object, conditions, count, instant_s, mapping, objects, text
from domain.attempts import EndCause


@dataclass(frozen=True, slots=True)
class Life:
    """A life as far as an object tells it.

    Attributes:
        start_s, end_s: None where it has not come to that, or the object does not say.
        cause: why it ended.
        reason: in the source's words.
        is_eviction: whether Kueue put it back, so that another attempt may follow.
    """

    start_s: float | None = None
    end_s: float | None = None
    cause: EndCause = EndCause.NOT_ENDED
    reason: str | None = None
    is_eviction: bool = False


def pod_life(found: Object, notes: Notes) -> Life:
    """The life of a pod."""
    status = mapping(found.get("status"))
    phase = text(status.get("phase")) or "Pending"
    ended = [one for one in _terminated(status) if one]
    start_s = _pod_start_s(status, phase)
    if phase in {"Pending", "Running", "Unknown"}:
        return Life(start_s, reason=_waiting(status) if start_s is None else text(status.get("reason")))
    if phase not in {"Succeeded", "Failed"}:
        notes.add(
            ImportRule.UNKNOWN_STATE, f"the phase {quoted(phase)} is none of a pod's; taken as not ended"
        )
        return Life(start_s, reason=phase)
    ends = [at_s for one in ended if (at_s := instant_s(one.get("finishedAt"), "finishedAt")) is not None]
    end_s = max(ends) if ends else _disrupted_at(status)
    if phase == "Succeeded":
        return Life(start_s, end_s, EndCause.COMPLETED, "Completed")
    cause, reason = _pod_cause(found, status, ended, notes)
    return Life(start_s, end_s, cause, reason)


def _terminated(status: Object) -> list[Object]:
    return [
        mapping(mapping(one.get("state")).get("terminated"))
        for one in objects(status.get("containerStatuses"))
    ]


def _pod_start_s(status: Object, phase: str) -> float | None:
    """When its first container started; of one that started anew, when the pod came to its node."""
    statuses = list(objects(status.get("containerStatuses")))
    began = instant_s(status.get("startTime"), "startTime")
    starts = []
    for one in statuses:
        state = mapping(one.get("state"))
        at = mapping(state.get("running")).get("startedAt") or mapping(state.get("terminated")).get(
            "startedAt"
        )
        at_s = instant_s(at, "startedAt")
        if at_s is not None:
            starts.append(at_s)
    if starts and not any(count(one.get("restartCount"), 0) for one in statuses):
        return min(starts)
    if starts and began is None:
        return min(starts)
    return began if starts or phase in {"Running", "Succeeded"} else None


def _waiting(status: Object) -> str | None:
    scheduled = conditions(status).get("PodScheduled")
    if scheduled is not None and not scheduled.is_true:
        return scheduled.reason or None
    waits = (
        mapping(mapping(one.get("state")).get("waiting")) for one in objects(status.get("containerStatuses"))
    )
    return next((reason for one in waits if (reason := text(one.get("reason")))), None)


def _disrupted_at(status: Object) -> float | None:
    target = conditions(status).get("DisruptionTarget")
    return target.at_s if target is not None and target.is_true else None


def _pod_cause(
    found: Object, status: Object, ended: list[Object], notes: Notes
) -> tuple[EndCause, str | None]:
    """Why a pod failed: what was done to it, then what its containers say."""
    target = conditions(status).get("DisruptionTarget")
    if target is not None and target.is_true and target.reason in DISRUPTIONS:
        return DISRUPTIONS[target.reason], target.reason
    reason = text(status.get("reason"))
    if reason is not None and reason in POD_REASONS:
        return POD_REASONS[reason], reason
    failed = [one for one in ended if count(one.get("exitCode"), 0)]
    for one in failed:
        if one.get("reason") == "OOMKilled":
            return EndCause.OUT_OF_MEMORY, "OOMKilled"
    code = count(failed[0].get("exitCode"), 1) if failed else 1
    if code in KILLED:
        if mapping(found.get("metadata")).get("deletionTimestamp"):
            return EndCause.CANCELLED, f"deleted, exit code {code}"
        notes.add(ImportRule.KILLED_FROM_OUTSIDE, f"exit code {code} and no word of who ended it")
        return EndCause.CANCELLED, f"exit code {code}"
    return EndCause.FAILED, f"{reason or 'Error'}, exit code {code}" if failed else reason


def job_life(found: Object, notes: Notes) -> Life:
    """The life of a Job of the batch API, or of anything with its conditions (Kubeflow, JobSet)."""
    del notes
    status = mapping(found.get("status"))
    known = conditions(status)
    running = known.get("Running")
    start_s = instant_s(status.get("startTime"), "startTime")
    start_s = running.at_s if running is not None and running.is_true and start_s is None else start_s
    completed_s = instant_s(status.get("completionTime"), "completionTime")
    done = _first(known, "Complete", "Completed", "Succeeded")
    if done is not None:
        return Life(
            start_s,
            completed_s if completed_s is not None else done.at_s,
            EndCause.COMPLETED,
            done.reason or None,
        )
    failed = _first(known, "Failed")
    if failed is not None:
        end_s = completed_s if completed_s is not None else failed.at_s
        return Life(start_s, end_s, JOB_FAILED.get(failed.reason, EndCause.FAILED), failed.reason or None)
    suspended = _first(known, "Suspended")
    return Life(
        None if suspended is not None else start_s, reason="Suspended" if suspended is not None else None
    )


def workload_life(found: Object, notes: Notes) -> Life:
    """The life of a Workload of Kueue: from admission to its end or its eviction."""
    known = conditions(mapping(found.get("status")))
    admitted = _first(known, "Admitted")
    start_s = None if admitted is None else admitted.at_s
    finished = _first(known, "Finished")
    if finished is not None:
        return Life(start_s, finished.at_s, _finished(finished), finished.reason or None)
    evicted = _first(known, "Evicted")
    if evicted is None:
        waiting = known.get("QuotaReserved")
        is_waiting = waiting is not None and not waiting.is_true
        return Life(start_s, reason=waiting.reason or None if waiting is not None and is_waiting else None)
    cause = EVICTED.get(evicted.reason)
    if cause is None:
        notes.add(
            ImportRule.UNKNOWN_STATE,
            f"evicted for {quoted(evicted.reason)}, which is no reason of Kueue; taken as requeued",
        )
    return Life(start_s, evicted.at_s, cause or EndCause.REQUEUED, evicted.reason or None, is_eviction=True)


def _finished(finished: Condition) -> EndCause:
    """Kueue writes that a job finished by its reason, before v0.7 by its message only."""
    said = f"{finished.reason} {finished.message}".casefold()
    return EndCause.FAILED if "fail" in said or "error" in said else EndCause.COMPLETED


def volcano_life(found: Object, notes: Notes) -> Life:
    """The life of a Job of Volcano or of a PodGroup, by its phase."""
    status = mapping(found.get("status"))
    state = mapping(status.get("state"))
    phase = text(state.get("phase")) or text(status.get("phase")) or "Pending"
    cause = VOLCANO_PHASES.get(phase)
    if cause is None:
        notes.add(ImportRule.UNKNOWN_STATE, f"the phase {quoted(phase)} is not known; taken as not ended")
        cause = EndCause.NOT_ENDED
    changed_s = instant_s(state.get("lastTransitionTime"), "lastTransitionTime")
    starts = [
        at_s
        for one in objects(status.get("conditions"))
        if one.get("status") == "Running"
        and (at_s := instant_s(one.get("lastTransitionTime"), "lastTransitionTime")) is not None
    ]
    start_s = min(starts) if starts else (changed_s if phase == "Running" else None)
    return Life(
        start_s, changed_s if cause.is_end_of_attempt else None, cause, text(state.get("reason")) or phase
    )


def ray_life(found: Object, notes: Notes) -> Life:
    """The life of a RayJob."""
    status = mapping(found.get("status"))
    word = text(status.get("jobStatus")) or "PENDING"
    cause = RAY_STATUS.get(word)
    if cause is None:
        notes.add(ImportRule.UNKNOWN_STATE, f"the job status {quoted(word)} is not Ray's; taken as not ended")
        cause = EndCause.NOT_ENDED
    if status.get("jobDeploymentStatus") == "Failed":
        reason = text(status.get("reason")) or ""
        cause = (
            EndCause.TIMEOUT
            if reason == "DeadlineExceeded"
            else (EndCause.FAILED if cause is EndCause.NOT_ENDED else cause)
        )
    start_s = instant_s(status.get("startTime"), "startTime")
    end_s = instant_s(status.get("endTime"), "endTime") if cause.is_end_of_attempt else None
    return Life(
        None if word == "PENDING" and end_s is None else start_s,
        end_s,
        cause,
        text(status.get("reason")) or word,
    )


def cluster_life(found: Object, notes: Notes) -> Life:
    """The life of a RayCluster: it has no end of its own."""
    del notes
    state = text(mapping(found.get("status")).get("state"))
    known = conditions(mapping(found.get("status")))
    ready = _first(known, "HeadPodReady", "RayClusterProvisioned")
    return Life(None if ready is None else ready.at_s, reason=state)


ReadLife = Callable[[Object, Notes], Life]

LIVES: Final[Mapping[str, ReadLife]] = {
    "Workload": workload_life,
    "RayJob": ray_life,
    "RayCluster": cluster_life,
    "VolcanoJob": volcano_life,
    "PodGroup": volcano_life,
    "Job": job_life,
    "JobSet": job_life,
    "KubeflowJob": job_life,
}
"""How each kind of gang tells its life, by the names of `data.kubernetes.gangs`."""


def _first(known: Mapping[str, Condition], *types: str) -> Condition | None:
    """The first condition of some types that is true."""
    return next((known[one] for one in types if one in known and known[one].is_true), None)
