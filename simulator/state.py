"""The one owner of the cluster's state: it conserves GPUs, whatever a policy asks for."""

from typing import NamedTuple

from domain.checkpoints import KeptWork
from domain.cluster import Gpu
from domain.errors import PlanError
from domain.jobs import Job
from domain.schedules import NOTHING_KEPT_RATE, Stretch


class Attempt(NamedTuple):
    """A job that runs now."""

    job: Job
    start_s: float
    is_guest: bool
    serial: int
    own_from_s: float | None
    gpus: tuple[Gpu, ...] = ()


class ClusterState:
    """Which jobs wait, which run, and how many GPUs are idle. Every change is checked and O(1).

    Args:
        capacity_gpus: GPUs of the cluster.
    """

    __slots__ = ("_kept", "_serial", "capacity_gpus", "idle_gpus", "pending", "running", "stretches")

    def __init__(self, capacity_gpus: int) -> None:
        self.capacity_gpus = capacity_gpus
        self.idle_gpus = capacity_gpus
        self.pending: dict[str, Job] = {}
        self.running: dict[str, Attempt] = {}
        self.stretches: list[Stretch] = []
        self._serial = 0
        self._kept = KeptWork()

    def submit(self, job: Job) -> None:
        """A job has become eligible."""
        self.pending[job.job_id] = job

    def start(self, job: Job, now_s: float, *, is_guest: bool, gpus: tuple[Gpu, ...] = ()) -> int:
        """Start a pending job.

        Returns:
            The attempt's serial number, by which a later ending is told from that of an attempt sent back.

        Raises:
            PlanError: if the job does not wait, or is wider than what is idle.
        """
        if self.pending.pop(job.job_id, None) is None:
            raise PlanError(f"job {job.job_id} is to start at {now_s} s, but it is not pending")
        if job.num_gpus > self.idle_gpus:
            raise PlanError(
                f"job {job.job_id} is to start at {now_s} s on {job.num_gpus} GPUs, {self.idle_gpus} are idle"
            )
        self.idle_gpus -= job.num_gpus
        self._serial += 1
        self._kept.started(job, now_s)
        own_from_s = None if is_guest else now_s
        self.running[job.job_id] = Attempt(job, now_s, is_guest, self._serial, own_from_s, gpus)
        return self._serial

    def convert(self, job: Job, now_s: float) -> None:
        """A running guest has become its pool's own.

        Raises:
            PlanError: if it does not run as a guest.
        """
        attempt = self._guest(job, now_s, "is to become own")
        self.running[job.job_id] = attempt._replace(own_from_s=now_s)

    def finish(self, job_id: str, now_s: float) -> Job:
        """A running job has ended."""
        job = self._stop(self.running.pop(job_id), now_s)
        self._kept.ended(job)
        return job

    def kept_s(self, job: Job) -> float:
        """Work kept of a job's attempts that were sent back, seconds."""
        return self._kept.kept_s(job)

    def free(self, num_gpus: int) -> None:
        """GPUs of a guest that was sent back a while ago are idle now."""
        self.idle_gpus += num_gpus

    def send_back(self, job: Job, now_s: float, *, frees_now: bool = True) -> None:
        """Stop a guest and throw away its work since its last checkpoint; it waits again.

        Without checkpoints all of its work is thrown away. `Stretch` says how either is written down.
        Its GPUs are idle at once, or when `free` is called.

        Raises:
            PlanError: if it does not run, or is its pool's own.
        """
        attempt = self._guest(job, now_s, "is to be sent back")
        had_kept = self._kept.kept_s(job) > 0.0
        added_s = self._kept.sent_back(job, now_s)
        if added_s > 0.0:
            self._stop(attempt, now_s, rate=added_s / (now_s - attempt.start_s), is_stopped=True)
        elif had_kept:
            self._stop(attempt, now_s, rate=NOTHING_KEPT_RATE, is_stopped=True)
        else:
            self._stop(attempt, now_s, is_lost=True)
        del self.running[job.job_id]
        self.pending[job.job_id] = job
        if not frees_now:
            self.idle_gpus -= job.num_gpus

    def _guest(self, job: Job, now_s: float, what: str) -> Attempt:
        attempt = self.running.get(job.job_id)
        if attempt is None or attempt.own_from_s is not None:
            raise PlanError(f"job {job.job_id} {what} at {now_s} s, but it does not run as a guest")
        return attempt

    def _stop(
        self,
        attempt: Attempt,
        now_s: float,
        *,
        rate: float = 1.0,
        is_lost: bool = False,
        is_stopped: bool = False,
    ) -> Job:
        self.idle_gpus += attempt.job.num_gpus
        self.stretches.append(
            Stretch(
                attempt.job.job_id,
                attempt.start_s,
                now_s,
                attempt.is_guest,
                is_lost,
                rate,
                own_from_s=attempt.own_from_s,
                gpus=attempt.gpus,
                is_stopped=is_stopped,
            )
        )
        return attempt.job
