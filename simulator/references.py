"""The worlds without sharing that a replay may be measured against, with the estimates they rest on."""

from collections.abc import Mapping, Sequence

from domain.errors import SettingError
from domain.forecasts import LifetimeForecaster
from domain.jobs import Job
from simulator.engine import Engine
from simulator.forecasting import build, choose, training_of
from simulator.report import Lived
from simulator.workload import Workload
from solver.policies import POLICIES
from solver.policies.base import LevelSettings, PolicyContext
from solver.references import REFERENCES

_ESTIMATED_BY = "backfill"


def reference_world(workload: Workload, name: str, *, may_see_truth: bool = False, seed: int = 0) -> Lived:
    """When each job would have run in a reference.

    Args:
        workload: what happens.
        name: in `solver.references.REFERENCES`.
        may_see_truth: where the reference rests on estimates, whether they are the true lives; else they
            are what the policy `backfill` is given: medians of a model that learns on the way.
        seed: of everything that is drawn.

    Raises:
        SettingError: if there is no such reference.
    """
    check_reference(name)
    spec = REFERENCES[name]
    durations_s = workload.durations_s()
    estimates_s: Mapping[str, float] = durations_s
    if spec.uses_estimates and not may_see_truth:
        estimates_s = learned_estimates_s(workload, seed)
    starts = spec.starts(workload.jobs, durations_s, workload.cluster.quotas(), estimates_s)
    return Lived(starts, {job_id: start_s + durations_s[job_id] for job_id, start_s in starts.items()})


def check_reference(name: str) -> None:
    """Refuse what is no reference.

    Raises:
        SettingError: if there is no such reference.
    """
    if name not in REFERENCES:
        raise SettingError(f"there is no reference {name!r}; there are: {', '.join(REFERENCES)}")


def learned_estimates_s(workload: Workload, seed: int = 0) -> dict[str, float]:
    """What was believed of each job's length when it was submitted, in a world that backfills."""
    spec = POLICIES[_ESTIMATED_BY]
    choice = choose(_ESTIMATED_BY, spec, {}, may_see_truth=False)
    forecasters = build(choice, training_of(workload, choice, seed))
    lives = _Noted(forecasters.lives)
    quotas = workload.cluster.quotas()
    Engine(
        jobs=workload.jobs,
        outcomes=workload.outcomes,
        capacity_gpus=sum(quotas.values()),
        policy=spec.build(PolicyContext(quotas, lives), LevelSettings()),
        observers=forecasters.observers,
    ).run()
    return lives.said_s


class _Noted:
    """A forecaster of which is noted what it said first of each job."""

    def __init__(self, lives: LifetimeForecaster) -> None:
        self._lives = lives
        self.said_s: dict[str, float] = {}

    @property
    def is_clairvoyant(self) -> bool:
        return self._lives.is_clairvoyant

    def quantile_s(self, job: Job, level: float) -> float:
        said_s = self._lives.quantile_s(job, level)
        self.said_s.setdefault(job.job_id, said_s)
        return said_s

    def survival(self, job: Job) -> Sequence[float]:
        return self._lives.survival(job)
