"""Why things ended, in the words of Kubernetes, Kueue, Volcano, Ray and Kubeflow; each word by itself."""

from types import MappingProxyType
from typing import Final

from domain.attempts import EndCause

EVICTED: Final = MappingProxyType(
    {
        "Preempted": EndCause.PREEMPTED,
        "PodsReadyTimeout": EndCause.BOOT_FAIL,
        "AdmissionCheck": EndCause.REQUEUED,
        "ClusterQueueStopped": EndCause.REQUEUED,
        "LocalQueueStopped": EndCause.REQUEUED,
        "NodeFailures": EndCause.NODE_FAIL,
        "WorkloadSliceReplaced": EndCause.REQUEUED,
        "Deactivated": EndCause.CANCELLED,
        "InactiveWorkload": EndCause.CANCELLED,
        "DeactivatedDueToAdmissionCheck": EndCause.CANCELLED,
        "DeactivatedDueToRequeuingLimitExceeded": EndCause.BOOT_FAIL,
        "DeactivatedDueToMaximumExecutionTimeExceeded": EndCause.TIMEOUT,
    }
)
"""Reasons of the condition Evicted of a Workload of Kueue.

Its pods not being ready in time is a failed start; an admission check that takes back its word, and a queue
that an operator stops, put the workload back; only `Preempted` is preemption.
"""

POD_REASONS: Final = MappingProxyType(
    {
        "Preempted": EndCause.PREEMPTED,
        "Preempting": EndCause.PREEMPTED,
        "Evicted": EndCause.NODE_FAIL,
        "NodeLost": EndCause.NODE_FAIL,
        "NodeShutdown": EndCause.NODE_FAIL,
        "NodeAffinity": EndCause.BOOT_FAIL,
        "Shutdown": EndCause.NODE_FAIL,
        "Terminated": EndCause.NODE_FAIL,
        "DeadlineExceeded": EndCause.TIMEOUT,
        "UnexpectedAdmissionError": EndCause.BOOT_FAIL,
        "OutOfcpu": EndCause.BOOT_FAIL,
        "OutOfmemory": EndCause.BOOT_FAIL,
        "OutOfpods": EndCause.BOOT_FAIL,
        "OutOfnvidia.com/gpu": EndCause.BOOT_FAIL,
    }
)
"""Reasons of a pod's status, where the kubelet or the scheduler ended it."""

DISRUPTIONS: Final = MappingProxyType(
    {
        "PreemptionByScheduler": EndCause.PREEMPTED,
        "PreemptionByKubeScheduler": EndCause.PREEMPTED,
        "DeletionByTaintManager": EndCause.NODE_FAIL,
        "DeletionByPodGC": EndCause.NODE_FAIL,
        "TerminationByKubelet": EndCause.NODE_FAIL,
        "EvictionByEvictionAPI": EndCause.REQUEUED,
    }
)
"""Reasons of a pod's condition DisruptionTarget; an eviction by the API is a drain or an autoscaler."""

JOB_FAILED: Final = MappingProxyType({"DeadlineExceeded": EndCause.TIMEOUT})
"""Reasons of a Job's condition Failed that are no failure of its own; all others are."""

VOLCANO_PHASES: Final = MappingProxyType(
    {
        "Pending": EndCause.NOT_ENDED,
        "Inqueue": EndCause.NOT_ENDED,
        "Running": EndCause.NOT_ENDED,
        "Unknown": EndCause.NOT_ENDED,
        "Restarting": EndCause.NOT_ENDED,
        "Completing": EndCause.NOT_ENDED,
        "Aborting": EndCause.NOT_ENDED,
        "Terminating": EndCause.NOT_ENDED,
        "Completed": EndCause.COMPLETED,
        "Aborted": EndCause.CANCELLED,
        "Terminated": EndCause.CANCELLED,
        "Failed": EndCause.FAILED,
        # PodGroups of the coscheduling plugin
        "PreScheduling": EndCause.NOT_ENDED,
        "Scheduling": EndCause.NOT_ENDED,
        "Scheduled": EndCause.NOT_ENDED,
        "Finished": EndCause.COMPLETED,
    }
)
"""Phases of Volcano's Jobs and of PodGroups."""

RAY_STATUS: Final = MappingProxyType(
    {
        "PENDING": EndCause.NOT_ENDED,
        "RUNNING": EndCause.NOT_ENDED,
        "SUCCEEDED": EndCause.COMPLETED,
        "FAILED": EndCause.FAILED,
        "STOPPED": EndCause.CANCELLED,
    }
)
"""`jobStatus` of a RayJob."""

KILLED: Final = frozenset({137, 143})
"""Exit codes of SIGKILL and SIGTERM: something else ended it."""
