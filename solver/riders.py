"""Which running jobs are on the GPUs of another one: riders, and their hosts."""

from collections.abc import Container, Iterable

from domain.jobs import Job


class Riders:
    """Who rides with whom. A host may have several riders, each on other GPUs of it; none rides itself."""

    __slots__ = ("_host", "_riders")

    def __init__(self) -> None:
        self._host: dict[str, Job] = {}
        self._riders: dict[str, dict[str, Job]] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._host

    def rides(self, job: Job, host: Job) -> None:
        """A job is on GPUs of a host from now on.

        Raises:
            ValueError: if one of the two rides already, the job is a host, or the host has too few GPUs that
                nobody shares.
        """
        here = self._riders.get(host.job_id, {})
        left_gpus = host.num_gpus - sum(one.num_gpus for one in here.values())
        if job.job_id in self._host or host.job_id in self._host or job.job_id in self._riders:
            raise ValueError(f"job {job.job_id} cannot ride with {host.job_id}: no rider has riders")
        if job.num_gpus > left_gpus:
            raise ValueError(
                f"job {job.job_id} cannot ride with {host.job_id}, of whose GPUs {left_gpus} are left"
            )
        self._host[job.job_id] = host
        self._riders.setdefault(host.job_id, here)[job.job_id] = job

    def alone(self, job: Job) -> Job | None:
        """A job rides no more; its host, if it had one."""
        host = self._host.pop(job.job_id, None)
        if host is not None:
            here = self._riders[host.job_id]
            del here[job.job_id]
            if not here:
                del self._riders[host.job_id]
        return host

    def host_of(self, job: Job) -> Job | None:
        """With whom a job rides."""
        return self._host.get(job.job_id)

    def of(self, host: Job) -> list[Job]:
        """The riders of a host, in the order in which they came."""
        return list(self._riders.get(host.job_id, {}).values())

    def party(self, host: Job) -> list[Job]:
        """The riders of a job, and the job."""
        return [*self.of(host), host]

    def shared_gpus(self, job: Job) -> int:
        """How many GPUs of a running job are not idle when it stops."""
        return job.num_gpus if job.job_id in self._host else sum(one.num_gpus for one in self.of(job))

    def freed_gpus(self, parties: Iterable[Job]) -> int:
        """GPUs that are idle when jobs stop, each host of them with all of its riders."""
        return sum(job.num_gpus for job in parties if job.job_id not in self._host)

    def gpus_outside(self, ids: Container[str]) -> int:
        """Width of the riders that are not among some jobs."""
        hosts = self._riders.values()
        return sum(job.num_gpus for here in hosts for job in here.values() if job.job_id not in ids)
