"""Columns in and out of parts: how models lay down what they remember, and pick it up again.

A model's memory is many small records. As columns, numbers go into arrays (exact, compact, checked by dtype
and length) and texts and keys into one JSON value. Both sides use the same names; a `Shelf` fills parts, a
`Reader` takes them apart again and refuses what does not fit.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from domain.jobs import Job
from models.artifacts.errors import ArtifactError, Rule
from models.artifacts.parts import VALUES_FILE, Parts

Key = tuple[str | int | float | None, ...]

_JOB_TEXTS: Final = ("job_id", "pool", "user", "name", "model", "gpu_type", "array_id")
_JOB_NUMBERS: Final = ("submit_s", "num_gpus", "limit_s", "deadline_s", "requeue_u")
_VERSION: Final = "version"


@dataclass
class Shelf:
    """Parts in the making.

    Attributes:
        version: of the layout; a `Reader` asks for it.
        texts: see `Parts`.
    """

    version: int
    texts: dict[str, str] = field(default_factory=dict)
    _values: dict[str, Any] = field(default_factory=dict)
    _arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def put(self, name: str, value: Any) -> None:
        """A JSON value."""
        self._values[name] = value

    def numbers(self, name: str, values: Iterable[Any], dtype: str = "float64") -> None:
        """A column of numbers; NaN and infinities are kept."""
        self._arrays[name] = np.array(list(values), dtype)

    def array(self, name: str, values: NDArray[Any]) -> None:
        """An array as it is."""
        self._arrays[name] = values

    def ragged(self, name: str, rows: Sequence[Sequence[float]], dtype: str = "float64") -> None:
        """A list of numbers in each row."""
        self.numbers(f"{name}-lengths", map(len, rows), "int64")
        self.numbers(name, (value for row in rows for value in row), dtype)

    def keys(self, name: str, keys: Iterable[Hashable]) -> None:
        """Keys: flat tuples of text, numbers and None, each once."""
        self._values[name] = [list(key) for key in keys]  # type: ignore[call-overload]

    def jobs(self, name: str, jobs: Sequence[Job]) -> None:
        """Jobs, field by field."""
        for each in _JOB_TEXTS:
            self._values[f"{name}-{each}"] = [getattr(job, each) for job in jobs]
        for each in _JOB_NUMBERS:
            values = (getattr(job, each) for job in jobs)
            # Numbers are finite, so NaN is free to stand for one that is not known.
            self.numbers(f"{name}-{each}", (np.nan if value is None else value for value in values))

    def parts(self) -> Parts:
        """What has been laid down."""
        return Parts(self.texts, {**self._values, _VERSION: self.version}, self._arrays)


class Reader:
    """Picks up what a `Shelf` has laid down.

    Args:
        parts: as read.
        version: of the layout that is understood.

    Raises:
        ArtifactError: here and in each method, where something is missing or is not what it must be.
    """

    def __init__(self, parts: Parts, version: int) -> None:
        self.parts: Final = parts
        if parts.value(_VERSION, int) != version:
            raise ArtifactError(VALUES_FILE, Rule.FORMAT, f"only layout {version} of this model is read")

    def get(self, name: str, *kinds: type) -> Any:
        """A JSON value of one of the types."""
        return self.parts.value(name, *kinds)

    def numbers(
        self,
        name: str,
        length: int | None,
        dtype: str = "float64",
        *,
        low: float | None = None,
        high: float | None = None,
        may_be_nan: bool = False,
        may_be_infinite: bool = False,
    ) -> list[Any]:
        """A column of numbers, as Python numbers.

        Args:
            name: of the column.
            length: wanted; None where any will do.
            dtype: wanted.
            low: least of those that are not NaN.
            high: greatest of them.
            may_be_nan: whether NaN means something here.
            may_be_infinite: whether infinities do.
        """
        found = self.parts.array(
            name, dtype, (length,), may_be_nan=may_be_nan, may_be_infinite=may_be_infinite
        )
        _require_range(name, found, low, high)
        values: list[Any] = found.tolist()
        return values

    def ragged(
        self, name: str, length: int, dtype: str = "float64", *, most: int | None = None
    ) -> list[list[Any]]:
        """A list of finite numbers for each of `length` rows, of at most `most` each."""
        lengths = self.numbers(f"{name}-lengths", length, "int64", low=0, high=most)
        values = self.numbers(name, sum(lengths), dtype)
        ends = np.cumsum([0, *lengths]).tolist()
        return [values[begin:end] for begin, end in pairwise(ends)]

    def texts(self, name: str, length: int | None, *, may_be_none: bool = False) -> list[Any]:
        """A column of texts."""
        found: list[Any] = self.get(name, list)
        if length is not None and len(found) != length:
            raise ArtifactError(
                VALUES_FILE, Rule.SHAPE, f"{name} has {len(found)} entries, must have {length}"
            )
        for one in found:
            if not isinstance(one, str) and not (may_be_none and one is None):
                raise ArtifactError(
                    VALUES_FILE, Rule.FIELD, f"{name} holds {type(one).__name__}, must be text"
                )
        return found

    def keys(self, name: str, length: int | None = None) -> list[Key]:
        """Keys, all different."""
        found: list[Any] = self.get(name, list)
        keys = [tuple(one) for one in found if isinstance(one, list)]
        if len(keys) != len(found) or (length is not None and len(keys) != length):
            raise ArtifactError(VALUES_FILE, Rule.SHAPE, f"{name} are not as many keys as there must be")
        if not all(type(part) in _KEY_TYPES for key in keys for part in key):
            raise ArtifactError(VALUES_FILE, Rule.FIELD, f"{name} hold what no key holds")
        if len(set(keys)) < len(keys):
            raise ArtifactError(VALUES_FILE, Rule.FIELD, f"{name} hold a key twice")
        return keys

    def jobs(self, name: str) -> list[Job]:
        """Jobs, as laid down."""
        ids = self.texts(f"{name}-job_id", None)
        texts = {each: self.texts(f"{name}-{each}", len(ids), may_be_none=True) for each in _JOB_TEXTS}
        numbers = {each: self.numbers(f"{name}-{each}", len(ids), may_be_nan=True) for each in _JOB_NUMBERS}
        columns = texts | {each: [_or_none(value) for value in values] for each, values in numbers.items()}
        columns["num_gpus"] = [int(value or 0) for value in columns["num_gpus"]]
        names = list(columns)
        try:
            return [Job(**dict(zip(names, row, strict=True))) for row in zip(*columns.values(), strict=True)]
        except (TypeError, ValueError) as error:
            raise ArtifactError(VALUES_FILE, Rule.FIELD, f"{name}: {error}") from error


_KEY_TYPES: Final = frozenset({str, int, float, type(None)})


def _require_range(name: str, found: NDArray[Any], low: float | None, high: float | None) -> None:
    if (low is not None and (found < low).any()) or (high is not None and (found > high).any()):
        wanted = f"from {'any' if low is None else low} to {'any' if high is None else high}"
        raise ArtifactError(f"{name}.npy", Rule.OUT_OF_RANGE, f"numbers must lie {wanted}")


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
