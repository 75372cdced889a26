"""Profiles of models alone on a GPU: what an operator measured, or the estimates that are shipped.

A file has the column model, and batch_size, sm_utilisation, memory_mib, solo_step_s as far as they are known.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from data.pairs import MAX_NAME_CHARACTERS
from data.readers.checked_rows import Layout, read_rows
from data.rules import Rule, shown
from data.schema import Column, Kind
from data.validation import Findings

SHIPPED: Final = Path(__file__).parent / "shipped" / "profiles.csv"
"""Our own estimates, in coarse classes: docs/formats/packing-profiles.md."""

MAX_MEMORY_MIB: Final = 2**24
MAX_BATCH: Final = 10**9 - 1

PROFILE_COLUMNS: Final = (
    Column("model", Kind.TEXT, "", False, "what is trained"),
    Column("batch_size", Kind.INT, "", True, "samples of a step on one GPU", 1, MAX_BATCH, default=0),
    Column("sm_utilisation", Kind.FLOAT, "", True, "share of the time in which the GPU computes", 0, 1),
    Column("memory_mib", Kind.FLOAT, "MiB", True, "most GPU memory that it takes", 1, MAX_MEMORY_MIB),
    Column("solo_step_s", Kind.FLOAT, "s", True, "time of a step alone", 1e-6, 1e6),
)
"""The table of profiles."""

_WITH_BATCH: Final = re.compile(r".*\S\s*\(batch size (?P<batch>[0-9]{1,9})\)")


class ModelProfile(NamedTuple):
    """What is known of a model alone on a GPU; None where nothing is.

    Attributes:
        sm_utilisation: share of the time in which the GPU computes, 0 to 1.
        memory_mib: most GPU memory that it takes.
        solo_step_s: time of a step.
    """

    sm_utilisation: float | None = None
    memory_mib: float | None = None
    solo_step_s: float | None = None


def read_profiles(path: Path) -> Mapping[str, ModelProfile]:
    """Profiles by model, in the order of the file; a batch size is part of the name, as in tables of pairs.

    Raises:
        InputError: with every fault found.
    """
    rows = read_rows(path, Layout(PROFILE_COLUMNS, more=_check_names))
    return MappingProxyType(
        {
            str(_full_name(row)): ModelProfile(
                *(_known(row[name]) for name in ("sm_utilisation", "memory_mib", "solo_step_s"))
            )
            for row in rows.frame.to_dict("records")
        }
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _full_name(row: Mapping[Any, Any]) -> str | None:
    """The model with its batch size, "ResNet-50 (batch size 64)"; None if it has no name."""
    model, batch = row["model"], row["batch_size"]
    if not isinstance(model, str):
        return None
    is_named = batch > 0 and _WITH_BATCH.fullmatch(model) is None
    return f"{model} (batch size {batch:.0f})" if is_named else model


def _check_names(typed: pd.DataFrame, findings: Findings) -> None:
    """Names are short, say one batch size, and are not there twice."""
    rows = typed.to_dict("records")
    names = [_full_name(row) for row in rows]
    found: dict[int, tuple[Rule, str]] = {}
    seen: set[str] = set()
    for k, (row, name) in enumerate(zip(rows, names, strict=True)):
        if name is None or findings.is_bad[k]:
            continue
        said = _WITH_BATCH.fullmatch(row["model"])
        if len(name) > MAX_NAME_CHARACTERS:
            found[k] = Rule.FIELD_TOO_LONG, f"model is too long, at most {MAX_NAME_CHARACTERS} are allowed"
        elif said is not None and row["batch_size"] > 0 and int(said["batch"]) != row["batch_size"]:
            message = f"batch_size is {row['batch_size']:.0f}, the model is {shown(row['model'])}"
            found[k] = Rule.BATCH_SIZE_TWICE, message
        elif name in seen:
            found[k] = Rule.DUPLICATE_MODEL, f"{shown(name)} is there already"
        seen.add(name)
    for rule in dict.fromkeys(rule for rule, _ in found.values()):
        is_broken = np.array([k in found and found[k][0] is rule for k in range(len(rows))])
        findings.add(is_broken, rule, lambda k: found[k][1])
