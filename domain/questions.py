"""What is asked: what changes, and over which time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from domain.changes import World
from domain.changes.base import QuietTime
from domain.cluster import Node
from domain.errors import SettingError

DAY_S: Final = 86_400.0
MAX_FUTURES: Final = 200
MAX_DAYS: Final = 366.0


@dataclass(frozen=True)
class Futures:
    """Futures to draw: days of the past in a new order (block bootstrap).

    Attributes:
        count: how many.
        days: length of each.
        from_days: they are drawn from so many days before the newest submit.
        block_days: days that follow each other in the past stay together, so many.
        half_life_days: days that lie so much further back are drawn half as often; None: all alike.
    """

    count: int = 9
    days: int = 7
    from_days: int = 28
    block_days: int = 1
    half_life_days: float | None = None

    def __post_init__(self) -> None:
        limits = {
            "count": (1, MAX_FUTURES), "days": (1, 60), "from_days": (1, 366), "block_days": (1, 60),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise SettingError(
                    f"futures.{name} is {value!r}, must be a whole number from {low} to {high}"
                )
        if self.half_life_days is not None and not _is_within(self.half_life_days, 0.0, math.inf):
            raise SettingError(f"futures.half_life_days is {self.half_life_days}, must be positive")


@dataclass(frozen=True)
class Question:
    """A what-if.

    Attributes:
        changes: entries of the patch (`domain.changes`).
        days: without futures, how much of the past before the newest submit is gone through again.
        warm_up_days: the replay begins so much earlier, on an empty cluster; jobs of then are not measured.
        futures: draw these instead of going through the past.
        seed: of everything that is drawn.
        learn_days: forecasts learn from so many days before the replay; None: from all there is.
    """

    changes: Sequence[Mapping[str, Any]] = ()
    days: float = 7.0
    warm_up_days: float = 1.0
    futures: Futures | None = None
    seed: int = 0
    learn_days: float | None = None

    def __post_init__(self) -> None:
        for name in ("days", "warm_up_days", "learn_days"):
            value = getattr(self, name)
            is_fine = _is_within(value, 0.0, MAX_DAYS) or (name == "warm_up_days" and value == 0.0)
            if not is_fine and not (name == "learn_days" and value is None):
                raise SettingError(f"{name} is {value!r}, must be above 0 and at most {MAX_DAYS:g}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise SettingError(f"seed is {self.seed!r}, must be a whole number from 0 on")

    def to_json(self) -> dict[str, Any]:
        """As JSON, to be read back by `question_from`."""
        return {
            "changes": [dict(one) for one in self.changes],
            "days": self.days,
            "warm_up_days": self.warm_up_days,
            "futures": None if self.futures is None else asdict(self.futures),
            "seed": self.seed,
            "learn_days": self.learn_days,
        }


def question_from(said: Mapping[str, Any]) -> Question:
    """The question that `Question.to_json` wrote down; what is left out has its default.

    Raises:
        SettingError: for what is out of its range.
    """
    _refuse_unknown("a question", said, Question)
    futures = said.get("futures")
    if futures is not None:
        if not isinstance(futures, Mapping):
            raise SettingError(f"futures is {futures!r}, must be a table")
        _refuse_unknown("futures", futures, Futures)
    drawn = None if futures is None else Futures(**futures)
    return Question(**{**said, "futures": drawn})


def _refuse_unknown(what: str, said: Mapping[str, Any], kind: type) -> None:
    known = [one.name for one in fields(kind)]
    unknown = sorted(set(said) - set(known))
    if unknown:
        raise SettingError(f"{what} has no {unknown[0]!r}; there are: {', '.join(known)}")


def _is_within(value: Any, above: float, most: float) -> bool:
    """Whether it is a finite number in (above, most]."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and above < value <= most


def world_to_json(world: World) -> dict[str, Any]:
    """A world as JSON, to be read back by `world_from`."""
    return {
        "quotas": [list(pair) for pair in world.quotas.items()],
        "policy": world.policy,
        "settings": dict(world.settings),
        "nodes": [[node.name, node.num_gpus, node.gpu_type, node.pool] for node in world.nodes],
        "quiet": [[time.from_s, time.to_s, time.every_s] for time in world.quiet],
        "is_placed": world.is_placed,
    }


def world_from(said: Mapping[str, Any]) -> World:
    """The world that `world_to_json` wrote down."""
    return World(
        dict(said["quotas"]),
        said["policy"],
        dict(said["settings"]),
        tuple(Node(*one) for one in said.get("nodes", ())),
        tuple(QuietTime(*one) for one in said.get("quiet", ())),
        said.get("is_placed", False),
    )
