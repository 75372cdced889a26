"""Strict reading of numbers: what Python or pandas would let pass by accident is no number here.

Neither `1_000` nor digits of other scripts are accepted, and the nearest double is always the result.
"""

import math
import re
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_OF_NUMBERS: Final = re.compile(r"[0-9.eE+-]*")
_NOT_FINITE: Final = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)


class Numbers(NamedTuple):
    """Values as floats, one a row; NaN where one of the masks says why there is none.

    Attributes:
        values: the finite numbers; a negative zero has become a zero.
        is_missing: where there is nothing.
        is_other: where there is something that is not a number.
        is_not_finite: where there is an infinity, a spelt-out NaN or a number beyond all doubles.
    """

    values: NDArray[np.float64]
    is_missing: Mask
    is_other: Mask
    is_not_finite: Mask


def parse_numbers(raw: pd.Series) -> Numbers:
    """Numbers of a column that holds text, numbers or both. In a column of numbers NaN means missing."""
    if pd.api.types.is_numeric_dtype(raw) and not pd.api.types.is_bool_dtype(raw):
        values = raw.to_numpy(dtype=np.float64, na_value=math.nan)
        is_missing = np.isnan(values)
        is_other = np.zeros(len(values), dtype=np.bool_)
        is_not_finite = np.isinf(values)
    else:
        texts = [_as_text(value) for value in raw.tolist()]
        values = np.array(_all_floats(texts) or list(map(_float_or_nan, texts)), dtype=np.float64)
        is_missing = np.array([not text for text in texts], dtype=np.bool_)
        is_other = np.isnan(values) & ~is_missing
        is_not_finite = np.isinf(values)
        for row in np.flatnonzero(is_other).tolist():
            is_not_finite[row] = _NOT_FINITE.fullmatch(texts[row]) is not None
        is_other &= ~is_not_finite
    return Numbers(np.where(is_not_finite, math.nan, values) + 0.0, is_missing, is_other, is_not_finite)


def _all_floats(texts: list[str]) -> list[float] | None:
    """The common case, fast: without other characters `float` accepts what `_NUMBER` does."""
    if _OF_NUMBERS.fullmatch("".join(texts)) is None:
        return None
    try:
        return list(map(float, texts))
    except ValueError:
        return None


def _float_or_nan(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    is_missing = value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
    return "" if is_missing else str(value)
