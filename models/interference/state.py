"""The interference model as plain data, and back; what comes back is checked like any other input."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from data.pairs import MAX_MODELS, PairTable
from data.rules import Rule, shown
from models.interference.profiles import Profile
from models.interference.steps import StepMemory, check_name, check_rate, refusal

VERSION: Final = 1

_MAX_PAIRS: Final = MAX_MODELS * (MAX_MODELS + 1) // 2
_FEATURES: Final = ("sm_utilisation", "memory_gb", "solo_step_s")

Parts = tuple[PairTable, dict[str, Profile], float | None, StepMemory]


def packed(
    table: PairTable, profiles: Mapping[str, Profile], gpu_memory_gb: float | None, steps: StepMemory
) -> dict[str, object]:
    """The parts as numbers, strings, lists and tables of them."""
    return {
        "version": VERSION,
        "pairs": [[a, b, *rates] for (a, b), rates in sorted(table.rates.items())],
        "unfit": [list(pair) for pair in sorted(table.unfit)],
        "profiles": {
            name: {feature: getattr(profile, feature) for feature in _FEATURES}
            for name, profile in sorted(profiles.items())
        },
        "gpu_memory_gb": gpu_memory_gb,
        "steps": steps.to_state(),
    }


def unpacked(state: object) -> Parts:
    """The inverse of `packed`.

    Raises:
        InputError: if the state is of another version or breaks a rule.
    """
    if not isinstance(state, dict):
        raise refusal(Rule.NOT_TEXT, "a saved model is a table")
    if state.get("version") != VERSION:
        found = shown(state.get("version"))
        raise refusal(Rule.OUT_OF_RANGE, f"a saved model of version {VERSION} is expected, this is {found}")
    rates = {
        (check_name(a), check_name(b)): (check_rate(rate_a), check_rate(rate_b))
        for a, b, rate_a, rate_b in _rows(state.get("pairs"), "pairs", 4)
    }
    unfit = frozenset((check_name(a), check_name(b)) for a, b in _rows(state.get("unfit"), "unfit", 2))
    try:
        table = PairTable.of(rates, unfit)
    except ValueError as error:
        raise refusal(Rule.DUPLICATE_PAIR, str(error)) from error
    memory_gb = _number(state.get("gpu_memory_gb"), "gpu_memory_gb")
    if memory_gb is not None and not 0.0 < memory_gb < math.inf:
        raise refusal(Rule.OUT_OF_RANGE, f"gpu_memory_gb is {memory_gb}, a positive number is expected")
    return table, _profiles(state.get("profiles")), memory_gb, StepMemory.from_state(state.get("steps"))


def _rows(rows: object, name: str, width: int) -> Iterator[list[object]]:
    if not isinstance(rows, list) or len(rows) > _MAX_PAIRS:
        raise refusal(Rule.OUT_OF_RANGE, f"{name} is a list of at most {_MAX_PAIRS} rows")
    for row in rows:
        if not isinstance(row, list) or len(row) != width:
            raise refusal(Rule.FIELD_COUNT, f"each row of {name} has {width} fields")
        yield row


def _profiles(profiles: object) -> dict[str, Profile]:
    if not isinstance(profiles, dict) or len(profiles) > _MAX_PAIRS:
        raise refusal(Rule.OUT_OF_RANGE, f"profiles are a table of at most {_MAX_PAIRS} models")
    return {check_name(name): _profile(features) for name, features in profiles.items()}


def _profile(features: object) -> Profile:
    if not isinstance(features, dict):
        raise refusal(Rule.NOT_TEXT, "a profile is a table of features")
    try:
        return Profile(*(_number(features.get(name), name) for name in _FEATURES))
    except ValueError as error:
        raise refusal(Rule.OUT_OF_RANGE, str(error)) from error


def _number(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refusal(Rule.NOT_A_NUMBER, f"{name} is a number, not {shown(value)}")
    return float(value)
