"""Why a job of a record is forecast to live as long as it is, as of its submit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from data.history import History
from domain.errors import SettingError
from domain.jobs import Job
from models.backtest import Fact, Kind, Progress, Record, facts, learn, record_of, tell
from models.calibration.life_monitor import LifeMonitor
from models.calibration.monitor import ForecastMonitor
from models.explain.life import LifeExplanation, explain_life
from models.explain.similar import PastJobs
from models.lifetime.hazard import HazardLifetimes

_TICK_FACTS: Final = 500


@dataclass(frozen=True)
class Asked:
    """Of which job, and what.

    Attributes:
        job_id: the job.
        watch_s: how long before its submit the model is watched, to say how such forecasts have done.
        longer_than_s: explain the chance to run longer than this; None: the typical life.
        seed: of the training.
    """

    job_id: str
    watch_s: float
    longer_than_s: float | None = None
    seed: int = 0


def explain(history: History, asked: Asked, bar_for: Callable[[str], Progress]) -> LifeExplanation:
    """Train on what had ended before the job, watch how the forecasts do, and explain the one of the job.

    Nothing after the job's submit is used.

    Raises:
        SettingError: if the record has no such job, or nothing had ended before the watch began.
    """
    job, at_s = _find(history, asked.job_id)
    record = record_of(history.frame, at_s)
    begin_s = at_s - asked.watch_s
    model = HazardLifetimes(seed=asked.seed)
    learn(model, record, begin_s)
    past = _past_until(record, begin_s)
    watched = LifeMonitor(model, ForecastMonitor())
    for told in _with_progress(record, begin_s, at_s, bar_for("facts")):
        tell(watched, record, told)
        tell(past, record, told)
    watched.submitted(job, at_s)
    if not past.similar(job, at_s, most=1) and not any(record.has_ended):
        raise SettingError(f"nothing had ended before job {job.job_id}: there is nothing to go by")
    return explain_life(watched, job, at_s, past=past, longer_than_s=asked.longer_than_s)


def _find(history: History, job_id: str) -> tuple[Job, float]:
    rows = history.frame[history.frame["job_id"] == job_id]
    if rows.empty:
        raise SettingError(f"there is no job {job_id!r} in {history.source}")
    whole = record_of(rows, float("inf"))
    return whole.jobs[0], whole.jobs[0].submit_s


def _past_until(record: Record, until_s: float) -> PastJobs:
    past = PastJobs()
    for fact in facts(record, until_s=until_s):
        if fact.kind is Kind.ENDED:
            tell(past, record, fact)
    return past


def _with_progress(record: Record, from_s: float, until_s: float, tick: Progress) -> Iterator[Fact]:
    told = list(facts(record, from_s, until_s))
    for number, fact in enumerate(told):
        if number % _TICK_FACTS == 0:
            tick(number, len(told))
        yield fact
    tick(len(told), len(told))
