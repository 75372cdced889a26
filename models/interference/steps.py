"""Rates observed while jobs run: a bounded, forgetting memory of step times."""

import math
import statistics
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from data.pairs import HIGHEST_RATE, LOWEST_RATE, MAX_NAME_CHARACTERS
from data.rules import Rule, shown
from domain.errors import Fault, InputError
from models.interference.field import to_logit

WINDOW_STEPS: Final = 32
"""Steps that are remembered of a job beside another: half as many new ones turn the median after a change."""

MAX_POINTS: Final = 256
"""Ordered pairs that are remembered; the one not observed for longest goes first."""

LONGEST_STEP_S: Final = 1e6

_FLOOR_SD: Final = 0.05  # steps of one run resemble each other: no number of them makes a rate exact
_STEP_VAR: Final = 4.0  # of one step, logit, before any was seen: a single one may have met a checkpoint
_STEP_VAR_WORTH: Final = 2.0  # steps that this belief counts as
_MEDIAN_LOSS: Final = 1.2533  # sqrt(pi / 2): standard error of a median over that of a mean, Gaussian
_MAD_TO_SD: Final = 1.4826


class Heard(NamedTuple):
    """What the steps of one ordered pair say.

    Attributes:
        pair: whose steps, beside whom.
        rate: median of the last rates.
        noise_var: variance of that median on the logit scale.
    """

    pair: tuple[str, str]
    rate: float
    noise_var: float


class StepMemory:
    """The last rates of each ordered pair."""

    def __init__(self) -> None:
        self._rates: Final[dict[tuple[str, str], deque[float]]] = {}

    def __len__(self) -> int:
        return len(self._rates)

    def __contains__(self, pair: tuple[str, str]) -> bool:
        return pair in self._rates

    def add(self, model: str, beside: str, step_s: float, solo_step_s: float) -> None:
        """Remember a step of `model` that took `step_s` beside the other, and takes `solo_step_s` alone.

        Raises:
            InputError: if a name is empty or too long, a time is not positive and finite, or the rate absurd.
        """
        self.add_rate(check_name(model), check_name(beside), _checked_rate(step_s, solo_step_s))

    def add_rate(self, model: str, beside: str, rate: float) -> None:
        """Remember a rate that has been checked."""
        known = self._rates.pop((model, beside), None)
        self._rates[(model, beside)] = kept = known if known is not None else deque(maxlen=WINDOW_STEPS)
        kept.append(rate)
        if len(self._rates) > MAX_POINTS:
            del self._rates[next(iter(self._rates))]

    def heard(self) -> list[Heard]:
        """What was observed, by the order of the names."""
        return [_summary(pair, self._rates[pair]) for pair in sorted(self._rates)]

    def to_state(self) -> list[dict[str, object]]:
        """Numbers and strings; the order is that of the last observations."""
        return [{"model": a, "beside": b, "rates": list(rates)} for (a, b), rates in self._rates.items()]

    @classmethod
    def from_state(cls, points: object) -> "StepMemory":
        """The inverse of `to_state`.

        Raises:
            InputError: if anything about it is not as `to_state` makes it.
        """
        memory = cls()
        for point in _points(points):
            rates = point.get("rates")
            if not isinstance(rates, list) or not 1 <= len(rates) <= WINDOW_STEPS:
                raise refusal(Rule.OUT_OF_RANGE, f"a pair has 1 to {WINDOW_STEPS} rates")
            for rate in rates:
                memory.add_rate(
                    check_name(point.get("model")), check_name(point.get("beside")), check_rate(rate)
                )
        return memory


def check_name(name: object) -> str:
    """The name of a model.

    Raises:
        InputError: if it is no text, empty or too long.
    """
    if not isinstance(name, str):
        raise refusal(Rule.NOT_TEXT, f"the name of a model is text, not {shown(name)}")
    if not name.strip():
        raise refusal(Rule.MISSING_VALUE, "the name of a model is empty")
    if len(name) > MAX_NAME_CHARACTERS:
        raise refusal(Rule.FIELD_TOO_LONG, f"a model has a name of at most {MAX_NAME_CHARACTERS} characters")
    return name


def check_rate(rate: object) -> float:
    """A rate relative to alone.

    Raises:
        InputError: if it is no number or out of range.
    """
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise refusal(Rule.NOT_A_NUMBER, f"a rate is a number, not {shown(rate)}")
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise refusal(Rule.OUT_OF_RANGE, f"a rate is {rate:.6g}, allowed is {LOWEST_RATE} to {HIGHEST_RATE}")
    return float(rate)


def refusal(rule: Rule, message: str) -> InputError:
    """The error for one broken rule of what was observed or saved."""
    return InputError([Fault("interference", None, rule, message)])


def _checked_rate(step_s: float, solo_step_s: float) -> float:
    for name, value in (("step_s", step_s), ("solo_step_s", solo_step_s)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refusal(Rule.NOT_A_NUMBER, f"{name} is a number, not {shown(value)}")
        if not math.isfinite(value):
            raise refusal(Rule.NOT_FINITE, f"{name} is {value}")
        if not 0.0 < value <= LONGEST_STEP_S:
            raise refusal(
                Rule.OUT_OF_RANGE, f"{name} is {value:.6g}, allowed is above 0 to {LONGEST_STEP_S:.0f} s"
            )
    return check_rate(solo_step_s / step_s)


def _points(points: object) -> Iterator[Mapping[str, object]]:
    if not isinstance(points, list) or len(points) > MAX_POINTS:
        raise refusal(Rule.OUT_OF_RANGE, f"steps are a list of at most {MAX_POINTS} pairs")
    for point in points:
        if not isinstance(point, dict):
            raise refusal(Rule.NOT_TEXT, "each of the steps is a table of model, beside and rates")
        yield point


def _summary(pair: tuple[str, str], rates: deque[float]) -> Heard:
    median = statistics.median(rates)
    logits = to_logit(np.array(rates))
    spread = _MAD_TO_SD * float(np.median(np.abs(logits - np.median(logits))))
    step_var = (_STEP_VAR_WORTH * _STEP_VAR + len(rates) * spread**2) / (_STEP_VAR_WORTH + len(rates))
    return Heard(pair, median, _FLOOR_SD**2 + _MEDIAN_LOSS**2 * step_var / len(rates))
