"""Episodes of a replay that was written down: the schedule, the report and the inputs it came from."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from app.services.ingest import PAIRS_HASH, Inputs
from data.schedule_csv import read_schedule
from domain.errors import SettingError
from domain.schedules import Schedule, as_attempts
from models import LIFETIME_MODELS
from simulator.episodes import Episode, episodes, grouped, slowed_jobs, wanted_curves
from simulator.forecasting import TRUE, ForecastChoice, build, training_of
from simulator.lent import guests_of
from simulator.report import Lived, finite, reference_of
from simulator.retold import Curves, curves_at_submit
from simulator.workload import Workload

EPISODES_JSON: Final = "episodes.json"


def read_report(folder: Path) -> dict[str, Any]:
    """The report of a replay's folder.

    Raises:
        SettingError: if there is none.
    """
    path = folder / "report.json"
    if not path.is_file():
        raise SettingError(f"{folder} holds no report.json: give the folder of a replay (its --out)")
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def find_episodes(inputs: Inputs, folder: Path, report: Mapping[str, Any]) -> list[Episode]:
    """Tell the episodes of the replay in a folder, in the order of time.

    The forecasts of lives are made anew, as the policy was given them.

    Args:
        inputs: what was replayed.
        folder: holds `schedule.csv`.
        report: the replay's report.

    Raises:
        InputError: if the schedule cannot be read.
        SettingError: if the replay was one of other jobs.
    """
    replayed = {role: value for role, value in report["inputs"].items() if role != PAIRS_HASH}
    if replayed != {role: value for role, value in inputs.hashes.items() if role != PAIRS_HASH}:
        raise SettingError(f"the schedule in {folder} is one of other jobs than those given")
    schedule = Schedule(read_schedule(folder / "schedule.csv"))
    return episodes_of(inputs.workload, schedule, report["settings"], seed=int(report["seed"]))


def episodes_of(
    workload: Workload, schedule: Schedule, settings: Mapping[str, Any], *, seed: int
) -> list[Episode]:
    """Tell the episodes of a replay under a policy with these settings in force; by attempts, not rates."""
    told, schedule = schedule, replace(schedule, stretches=as_attempts(schedule.stretches))
    reference = reference_of(workload)
    groups = grouped(slowed_jobs(workload, Lived.of(schedule), reference))
    if not groups:
        return []
    wanted = wanted_curves(groups, guests_of(workload, schedule), reference)
    return episodes(workload, schedule, reference, _curves(workload, told, settings, wanted, seed))


def write_episodes(folder: Path, found: Sequence[Episode]) -> Path:
    """Write `episodes.json`."""
    path = folder / EPISODES_JSON
    document = finite([asdict(episode) for episode in found])
    path.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return path


def _curves(
    workload: Workload, schedule: Schedule, settings: Mapping[str, Any], wanted: set[str], seed: int
) -> Curves | None:
    """What the policy was told of the lives wanted; None if it asked for none."""
    lives = settings.get("lives")
    if lives != TRUE and lives not in LIFETIME_MODELS:
        return None
    choice = ForecastChoice(str(lives), None, float(settings.get("retrain_days", 0.0)))
    made = build(choice, training_of(workload, choice, seed), workload)
    return curves_at_submit(workload, schedule, made.lives, made.observers, wanted)
