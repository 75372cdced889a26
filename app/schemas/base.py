"""What all bodies have in common: nothing unknown, nothing unbounded, nothing a database cannot hold."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

MAX_NAME: Final = 255
"""Longest name of a job, pool, node or user, characters."""

MAX_GPUS: Final = 1_000_000
"""Most GPUs of a pool, a job or a cluster."""

MAX_NUMBER: Final = 2**53
"""Largest number that counts something: what JSON carries exactly, and any database holds."""

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 2200


def _in_utc(instant: datetime) -> datetime:
    if not _FIRST_YEAR < instant.year < _LAST_YEAR:  # a year inside, so that no time zone leads out
        raise ValueError(f"the year has to lie between {_FIRST_YEAR} and {_LAST_YEAR}")
    return instant.astimezone(UTC)


Instant = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""An instant in RFC 3339 with a time zone; UTC inside."""


def _spelled_out(day: object) -> object:
    if isinstance(day, str) and _DAY.fullmatch(day) is None:
        raise ValueError("a day is written YYYY-MM-DD")
    return day


Day = Annotated[date, BeforeValidator(_spelled_out)]
"""A day in UTC, as in RFC 3339; a number of seconds is none."""

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
"""Name of a job, pool, node or user."""

ClusterName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$", examples=["research"])]
"""Name of a cluster, as it stands in a URL."""


def with_example(**values: Any) -> ConfigDict:
    """Configuration of a body whose description shows these values as its example."""
    return ConfigDict(json_schema_extra={"examples": [values]})


class Received(BaseModel):
    """Base of request bodies.

    Unknown fields, numbers that are not finite, and text that cannot be stored (NUL characters, half
    surrogate pairs) are refused, wherever they stand.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _can_be_stored(cls, data: Any) -> Any:
        for text in _texts(data):
            if "\0" in text:
                raise ValueError("text must not contain the NUL character")
            if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
                raise ValueError("text must not contain half of a surrogate pair")
        return data


class Sent(BaseModel):
    """Base of response bodies."""

    model_config = ConfigDict(extra="forbid")


def _texts(data: Any) -> Iterator[str]:
    """All texts in a JSON value, without recursion: the depth is the sender's choice."""
    left = [data]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left.extend(one)
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
