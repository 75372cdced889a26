"""Empirical lifetimes as parts that can be stored: the keys, and the last lives of each in their order."""
# ruff: noqa: SLF001 - the one place outside a model that knows its insides

from typing import Any, Final

import numpy as np

from models.artifacts.errors import ArtifactError, Rule
from models.artifacts.parts import VALUES_FILE, Parts
from models.artifacts.store import Store, no_retraining
from models.lifetime.empirical import WINDOW_JOBS, EmpiricalLifetimes, _RecentLives

_VERSION: Final = 1


def to_parts(model: EmpiricalLifetimes) -> Parts:
    """Take a model apart."""
    lives = {key: tuple(recent._in_order) for key, recent in model._lives.items()}
    counts = np.array([len(values) for values in lives.values()], np.int64)
    flat = np.array([value for values in lives.values() for value in values], np.float64)
    return Parts(
        values={"version": _VERSION, "keys": [list(key) for key in lives]},
        arrays={"counts": counts, "lives_s": flat},
    )


def from_parts(parts: Parts) -> EmpiricalLifetimes:
    """Put a model together.

    Raises:
        ArtifactError: if a part is not what it must be.
    """
    if parts.value("version", int) != _VERSION:
        raise ArtifactError(VALUES_FILE, Rule.FORMAT, f"only version {_VERSION} of empirical lives is read")
    keys = [_key(key) for key in parts.value("keys", list)]
    counts = parts.array("counts", "int64", (len(keys),))
    lives_s = parts.array("lives_s", "float64", (int(counts.sum()),))
    if len(set(keys)) < len(keys):
        raise ArtifactError(VALUES_FILE, Rule.FIELD, "a key occurs twice")
    if ((counts < 1) | (counts > WINDOW_JOBS)).any() or (lives_s < 0).any():
        raise ArtifactError(
            "counts.npy", Rule.OUT_OF_RANGE, f"1 to {WINDOW_JOBS} lives a key, of at least 0 s"
        )
    model = EmpiricalLifetimes()
    ends = np.cumsum(counts).tolist()
    for key, begin, end in zip(keys, [0, *ends], ends, strict=False):
        recent = model._lives[key] = _RecentLives()
        for life_s in lives_s[begin:end].tolist():
            recent.add(life_s)
    return model


def _key(value: Any) -> tuple[str | int, ...]:
    if not isinstance(value, list) or not all(type(part) in (str, int) for part in value):
        raise ArtifactError(VALUES_FILE, Rule.FIELD, "keys are lists of texts and whole numbers")
    return tuple(value)


STORE: Final = Store(to_parts, from_parts, no_retraining, ("last lives per user, name, pool and width",))
