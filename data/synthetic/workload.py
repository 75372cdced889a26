"""What every generator returns: one table of jobs and the quotas of the pools."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from data.synthetic.draws import FloatArray, IntArray, mixed, normal_level

COLUMNS: Final = ("job_id", "pool", "submit_s", "num_gpus", "duration_s", "requeue_u", "user", "name")

_TASKS: Final = ("train", "finetune", "eval", "sweep", "pretrain", "distill")
_MODELS: Final = ("resnet", "bert", "lstm", "gan", "unet", "transformer", "wavenet", "dqn")
_TAGS: Final = ("amber", "birch", "coral", "delta", "ember", "flint", "grove", "haze", "iris", "jade")
_USERS: Final = ("ash", "bay", "cyan", "dune", "elm", "fern", "gale", "hill", "isle", "june", "kelp", "lake")
_RUNS_PER_TEMPLATE: Final = 6
_TEMPLATES_PER_USER: Final = 3
_NAME_CORRELATION: Final = 0.85
_ONE_OFF_SHARE: Final = 0.2
_CHECKPOINT_DRAWS: Final = 6
"""Tells these draws from others of the same seed."""


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticWorkload:
    """A generated history.

    Attributes:
        frame: one row per job, sorted by (submit_s, job_id): job_id (text; its order is the order of
            time), pool, submit_s and duration_s (whole seconds, duration alone on its own GPUs, at least
            1), num_gpus (never above the pool's quota), requeue_u (uniform in [0, 1), four decimals),
            user, name; where some jobs save their progress also checkpoint_s and restart_s.
        quotas: GPUs of each pool.
        target_load: per pool, the offered load the generator aimed at: GPU-seconds of the submitted jobs
            / (days x 86,400 x quota). One workload lies around it.
        seed: the number it was made from; None if the caller passed a generator.
    """

    frame: pd.DataFrame
    quotas: dict[str, int]
    target_load: dict[str, float]
    seed: int | None

    def offered_load(self, days: float) -> dict[str, float]:
        """Offered load of each pool as it came out, for a workload over `days` days."""
        work = (self.frame["num_gpus"] * self.frame["duration_s"]).groupby(self.frame["pool"]).sum()
        return {p: float(work.get(p, 0)) / (days * 86_400 * q) for p, q in self.quotas.items()}


@dataclass(frozen=True, slots=True, eq=False)
class PoolJobs:
    """Jobs of one pool before ids are given; arrays of one length, in any order."""

    pool: str
    submit_s: IntArray
    num_gpus: IntArray
    duration_s: IntArray
    user: list[str]
    name: list[str]


def with_checkpoints(
    workload: SyntheticWorkload, *, every_s: float, restart_s: float, share: float, seed: int
) -> SyntheticWorkload:
    """The same workload, in which a share of the jobs, drawn by themselves, save their progress.

    Args:
        workload: without checkpoints.
        every_s: between two checkpoints, seconds.
        restart_s: to be back at one, seconds.
        share: of the jobs that save, in [0, 1]; the others have empty fields.
        seed: of the draw, which changes nothing else.

    Raises:
        ValueError: if a number makes no sense.
    """
    if not (every_s >= 1.0 and restart_s >= 0.0 and 0.0 <= share <= 1.0):
        raise ValueError(f"checkpoints every {every_s} s, {restart_s} s to be back, share {share}")
    frame = workload.frame.copy()
    saves = np.random.default_rng([seed, _CHECKPOINT_DRAWS]).random(len(frame)) < share
    frame["checkpoint_s"] = np.where(saves, every_s, np.nan)
    frame["restart_s"] = np.where(saves, restart_s, np.nan)
    return replace(workload, frame=frame)


def assemble(rng: np.random.Generator, parts: Sequence[PoolJobs]) -> pd.DataFrame:
    """One sorted table of all pools' jobs, with ids and requeue draws."""
    frame = pd.concat([_part_frame(part) for part in parts], ignore_index=True)
    frame = frame.sort_values("submit_s", kind="stable", ignore_index=True)
    digits = max(6, len(str(len(frame))))
    frame["job_id"] = pd.Series([f"s{i:0{digits}d}" for i in range(1, len(frame) + 1)], dtype="str")
    frame["requeue_u"] = np.floor(rng.random(len(frame)) * 10_000) / 10_000
    return frame[list(COLUMNS)]


def _part_frame(part: PoolJobs) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "pool": pd.Series([part.pool] * len(part.submit_s), dtype="str"),
            "submit_s": part.submit_s,
            "num_gpus": part.num_gpus,
            "duration_s": part.duration_s,
            "user": pd.Series(part.user, dtype="str"),
            "name": pd.Series(part.name, dtype="str"),
        }
    )


def recurring_names(
    rng: np.random.Generator, pool_index: int, life_score: FloatArray
) -> tuple[list[str], list[str]]:
    """User and name of each submission, such that lives can be learnt from them.

    Neither paper publishes how names relate to lives, so this is an assumption and not a fit: four of
    five submissions repeat a template (about six submissions each, some templates far more common than
    others), and the life score, mixed with noise, decides which template; the rest are one-off names.
    A user owns about three templates of unrelated lives.

    Args:
        rng: source of randomness.
        pool_index: number of the pool; users and templates are its own.
        life_score: standard normal score of each submission's life.

    Returns:
        Two lists as long as `life_score`.
    """
    count = len(life_score)
    num_templates = min(max(2, count // _RUNS_PER_TEMPLATE), len(_TASKS) * len(_MODELS) * len(_TAGS))
    popularity = 1 / np.sqrt(1 + rng.permutation(num_templates))
    edges = np.cumsum(popularity / popularity.sum())[:-1]
    template = np.searchsorted(edges, normal_level(mixed(rng, life_score, _NAME_CORRELATION)))
    owner = rng.integers(max(1, num_templates // _TEMPLATES_PER_USER), size=num_templates)
    label = rng.permutation(num_templates)
    one_off = rng.random(count) < _ONE_OFF_SHARE
    users = [_user(pool_index, int(k)) for k in owner[template]]
    names = [
        f"scratch-{i:05d}" if single else _template(int(k))
        for i, (k, single) in enumerate(zip(label[template], one_off, strict=True))
    ]
    return users, names


def _user(pool_index: int, number: int) -> str:
    return f"{_USERS[number % len(_USERS)]}{pool_index:02d}{number // len(_USERS):02d}"


def _template(number: int) -> str:
    rest, task = divmod(number, len(_TASKS))
    tag, model = divmod(rest, len(_MODELS))
    return f"{_TASKS[task]}-{_MODELS[model]}-{_TAGS[tag]}"


def write_csv(workload: SyntheticWorkload, folder: Path) -> None:
    """Write `jobs.csv` (the frame) and `pools.csv` (pool, quota_gpus); the folder is made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    workload.frame.to_csv(folder / "jobs.csv", index=False, lineterminator="\n")
    pools = pd.DataFrame({"pool": list(workload.quotas), "quota_gpus": list(workload.quotas.values())})
    pools.to_csv(folder / "pools.csv", index=False, lineterminator="\n")
