"""The one owner of the cluster's state: it conserves GPUs, whatever a policy asks for."""

from typing import NamedTuple

from domain.checkpoints import KeptWork
from domain.cluster import Gpu
from domain.errors import PlanError
from domain.jobs import Job
from domain.schedules import NOTHING_KEPT_RATE, Stretch


class Attempt(NamedTuple):
    """A job that runs now.

    Attributes:
        start_s: start of its present stretch: it runs at one rate since then.
        serial: told anew with each change of rate, so that an ending foreseen before means nothing.
        rate: work done per second relative to running alone.
        work_s: done in this attempt before the present stretch, seconds of running alone.
        earlier: places in the list of stretches of this attempt's stretches before the present one.
    """

    job: Job
    start_s: float
    is_guest: bool
    serial: int
    own_from_s: float | None
    gpus: tuple[Gpu, ...] = ()
    rate: float = 1.0
    work_s: float = 0.0
    earlier: tuple[int, ...] = ()

    def work_at(self, now_s: float) -> float:
        """Work done in this attempt by now, seconds of running alone."""
        return self.work_s + self.rate * (now_s - self.start_s)


class ClusterState:
    """Which jobs wait, which run, and how many GPUs are idle. Every change is checked and O(1).

    Args:
        capacity_gpus: GPUs of the cluster.
    """

    __slots__ = (
        "_kept",
        "_serial",
        "_suspended_s",
        "capacity_gpus",
        "idle_gpus",
        "pending",
        "running",
        "stretches",
    )

    def __init__(self, capacity_gpus: int) -> None:
        self.capacity_gpus = capacity_gpus
        self.idle_gpus = capacity_gpus
        self.pending: dict[str, Job] = {}
        self.running: dict[str, Attempt] = {}
        self.stretches: list[Stretch] = []
        self._serial = 0
        self._kept = KeptWork()
        self._suspended_s: dict[str, float] = {}

    def submit(self, job: Job) -> None:
        """A job has become eligible."""
        self.pending[job.job_id] = job

    def start(
        self,
        job: Job,
        now_s: float,
        *,
        is_guest: bool,
        gpus: tuple[Gpu, ...] = (),
        takes_gpus: int | None = None,
    ) -> int:
        """Start a pending job.

        Args:
            job: that waits.
            now_s: the instant.
            is_guest: whether it runs on lent GPUs.
            gpus: where it runs; empty where GPUs are only counted.
            takes_gpus: idle GPUs that it takes, where it shares some of its own; None: as many as it is wide.

        Returns:
            The attempt's serial number, by which a later ending is told from that of an attempt sent back.

        Raises:
            PlanError: if the job does not wait, or is wider than what is idle.
        """
        if self.pending.pop(job.job_id, None) is None:
            raise PlanError(f"job {job.job_id} is to start at {now_s} s, but it is not pending")
        takes_gpus = job.num_gpus if takes_gpus is None else takes_gpus
        if takes_gpus > self.idle_gpus:
            raise PlanError(
                f"job {job.job_id} is to start at {now_s} s on {takes_gpus} GPUs, {self.idle_gpus} are idle"
            )
        self.idle_gpus -= takes_gpus
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

    def finish(self, job_id: str, now_s: float, *, frees_gpus: int | None = None) -> Job:
        """A running job has ended; `frees_gpus` of its GPUs are idle now (None: all of them)."""
        attempt = self.running.pop(job_id)
        job = self._stop(attempt, now_s, frees_gpus=frees_gpus, rate=attempt.rate)
        self._kept.ended(job)
        self._suspended_s.pop(job_id, None)
        return job

    def suspend(self, job: Job, now_s: float, *, frees_gpus: int | None = None) -> None:
        """Stop a running job; all of its work is kept, and it waits again.

        Raises:
            PlanError: if it does not run.
        """
        attempt = self.running.pop(job.job_id, None)
        if attempt is None:
            raise PlanError(f"job {job.job_id} is to be suspended at {now_s} s, but it does not run")
        self._stop(attempt, now_s, frees_gpus=frees_gpus, rate=attempt.rate)
        done_s = self._suspended_s.get(job.job_id, 0.0)
        self._suspended_s[job.job_id] = done_s + attempt.work_at(now_s)
        self.pending[job.job_id] = job

    def change_rate(self, job_id: str, now_s: float, rate: float) -> int:
        """A running job goes on at another rate: a new stretch begins, with a new serial number."""
        attempt = self.running[job_id]
        earlier = attempt.earlier
        if now_s > attempt.start_s:
            earlier = (*earlier, len(self.stretches))
            self._write(attempt, now_s, rate=attempt.rate)
        self._serial += 1
        self._kept.rate_changed(attempt.job, rate)
        self.running[job_id] = attempt._replace(
            start_s=now_s,
            serial=self._serial,
            rate=rate,
            work_s=attempt.work_at(now_s),
            earlier=earlier,
        )
        return self._serial

    def kept_s(self, job: Job) -> float:
        """Work kept of a job's attempts that were stopped, seconds."""
        return self._kept.kept_s(job) + self._suspended_s.get(job.job_id, 0.0)

    def free(self, num_gpus: int) -> None:
        """GPUs of a guest that was sent back a while ago are idle now."""
        self.idle_gpus += num_gpus

    def send_back(
        self, job: Job, now_s: float, *, frees_now: bool = True, frees_gpus: int | None = None
    ) -> None:
        """Stop a guest and throw away its work since its last checkpoint; it waits again.

        Without checkpoints all of its work is thrown away, and so it is where its rate has been below 1:
        checkpoints are counted in seconds of running alone. `Stretch` says how either is written down.

        Args:
            job: the guest.
            now_s: the instant.
            frees_now: whether its GPUs are idle at once; else when `free` is called.
            frees_gpus: how many of them nobody else has; None: all of them.

        Raises:
            PlanError: if it does not run, or is its pool's own.
        """
        attempt = self._guest(job, now_s, "is to be sent back")
        had_kept = self._kept.kept_s(job) > 0.0
        added_s = self._kept.sent_back(job, now_s)
        if added_s > 0.0 or had_kept:
            rate = added_s / (now_s - self._began_s(attempt)) if added_s > 0.0 else NOTHING_KEPT_RATE
            self._rewrite(attempt, now_s, rate)
            self._stop(attempt, now_s, rate=rate, is_stopped=True, frees_gpus=frees_gpus)
        else:
            for place in attempt.earlier:
                self.stretches[place] = self.stretches[place]._replace(is_lost=True)
            self._stop(attempt, now_s, rate=attempt.rate, is_lost=True, frees_gpus=frees_gpus)
        del self.running[job.job_id]
        self.pending[job.job_id] = job
        if not frees_now:
            self.idle_gpus -= job.num_gpus if frees_gpus is None else frees_gpus

    def _guest(self, job: Job, now_s: float, what: str) -> Attempt:
        attempt = self.running.get(job.job_id)
        if attempt is None or attempt.own_from_s is not None:
            raise PlanError(f"job {job.job_id} {what} at {now_s} s, but it does not run as a guest")
        return attempt

    def _began_s(self, attempt: Attempt) -> float:
        return self.stretches[attempt.earlier[0]].start_s if attempt.earlier else attempt.start_s

    def _rewrite(self, attempt: Attempt, now_s: float, rate: float) -> None:
        """What is written of an attempt that is stopped counts for less; its last stretch is stopped."""
        for place in attempt.earlier:
            is_last = place == attempt.earlier[-1] and now_s == attempt.start_s
            self.stretches[place] = self.stretches[place]._replace(rate=rate, is_stopped=is_last)

    def _stop(
        self,
        attempt: Attempt,
        now_s: float,
        *,
        frees_gpus: int | None = None,
        rate: float = 1.0,
        is_lost: bool = False,
        is_stopped: bool = False,
    ) -> Job:
        self.idle_gpus += attempt.job.num_gpus if frees_gpus is None else frees_gpus
        if now_s > attempt.start_s or not attempt.earlier:
            self._write(attempt, now_s, rate=rate, is_lost=is_lost, is_stopped=is_stopped)
        return attempt.job

    def _write(
        self,
        attempt: Attempt,
        now_s: float,
        *,
        rate: float,
        is_lost: bool = False,
        is_stopped: bool = False,
    ) -> None:
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
