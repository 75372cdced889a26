"""Forecasters of a desk, kept as files: a process that starts again reads them instead of training.

The files are a copy of what training would give, bit for bit, and nothing more: whatever is wrong with them,
the answer is to train, and to say so in the log.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any, Final

import pandas as pd
import structlog

from app.clock import SystemClock
from app.services.demand_learner import STORED_DEMAND
from app.services.learners import LIFETIME_STORES
from data.history import content_hash
from domain.jobs import Job
from models import Training
from models.artifacts import ArtifactError, Manifest, Span, read, write
from models.artifacts.folder import remove
from models.artifacts.manifest import library_versions
from models.artifacts.store import Store
from models.demand.state import STORE as DEMAND
from simulator.forecasting import ForecastChoice, Forecasters, gathered

MODELS_DIR: Final = "ANTECAST_MODELS_DIR"
"""Environment variable: the folder; without it nothing is kept."""

MOST_KEPT: Final = 16
"""Desks whose models are kept, those used last."""

_KINDS: Final = ("lifetime", "demand")
_SOURCES: Final = ("data", "domain", "models")
_log = structlog.get_logger(__name__)


def folder_of(environment: Mapping[str, str]) -> Path | None:
    """Where models are kept, if they are."""
    named = environment.get(MODELS_DIR)
    return Path(named) / "desks" if named else None


def key_of(
    choice: ForecastChoice,
    training: Training,
    frame: pd.DataFrame,
    ended: Iterable[tuple[float, Job, float]],
) -> str:
    """Hash of everything that training depends on: data, settings, program and libraries."""
    digest = hashlib.sha256(_program().encode())
    known = (choice, list(training.quotas.items()), training.now_s, training.seed, training.retrain_every_s)
    digest.update(repr(known).encode())
    digest.update(content_hash(frame).encode())
    for ended_s, job, ran_s in ended:
        digest.update(repr((ended_s, astuple(job), ran_s)).encode())
    return digest.hexdigest()


def is_kept(folder: Path | None, key: str) -> bool:
    """Whether the forecasters of a key are there to be read."""
    return folder is not None and bool(key) and all((folder / f"{key}-{kind}").exists() for kind in _KINDS)


def kept_or_made(
    folder: Path | None,
    key: str,
    choice: ForecastChoice,
    training: Training,
    make: Callable[[], Forecasters],
) -> Forecasters:
    """Read the forecasters kept under a key, or make them and keep them.

    Args:
        folder: where they are kept; None: nowhere.
        key: of `key_of`.
        choice: which ones.
        training: what they are trained on.
        make: trains them.
    """
    stores = _stores(choice)
    if folder is None or stores is None:
        return make()
    try:
        lives, demand = (store.revive(read(folder / f"{key}-{kind}")) for kind, store in stores.items())
    except (ArtifactError, OSError) as error:
        _log.info("forecasters are trained", key=key[:12], reason=str(error))
        made = make()
        _keep(folder, key, choice, training, made)
        return made
    for kind in stores:
        os.utime(folder / f"{key}-{kind}")
    return gathered(choice, lives, demand)


def _stores(choice: ForecastChoice) -> dict[str, Store] | None:
    lives = LIFETIME_STORES.get(choice.lives or "")
    if lives is None or choice.arrivals not in STORED_DEMAND:
        return None
    return {"lifetime": lives, "demand": DEMAND}


def _keep(folder: Path, key: str, choice: ForecastChoice, training: Training, made: Forecasters) -> None:
    """Keep what was trained, and forget what was not used for long; failing to is no reason to stop."""
    models: dict[str, tuple[str | None, Any]] = {
        "lifetime": (choice.lives, made.lives),
        "demand": (choice.arrivals, made.demand),
    }
    created = SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
    span = Span(0.0, training.now_s, len(training.past), key, key)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for kind, store in (_stores(choice) or {}).items():
            name, model = models[kind]
            path = folder / f"{key}-{kind}"
            if path.exists():
                remove(path)
            manifest = Manifest(kind, str(name), created, span, training.seed, store.features)
            write(path, manifest, store.to_parts(model))
        kept = sorted((path for path in folder.iterdir()), key=lambda path: path.stat().st_mtime)
        for path in kept[: -2 * MOST_KEPT]:
            remove(path)
    except (ArtifactError, OSError) as error:
        _log.warning("forecasters could not be kept", folder=str(folder), reason=str(error))


@cache
def _program() -> str:
    """Hash of the sources that training runs through, and the libraries: another program trains otherwise."""
    digest = hashlib.sha256(repr(sorted(library_versions().items())).encode())
    root = Path(__file__).resolve().parents[2]
    for package in _SOURCES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
