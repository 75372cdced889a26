"""Reasons in words: what a column of the features stands for, and what was known of it."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from domain.jobs import Job

Facts = Mapping[str, float]
"""Values of a job's features by column, as the model saw them; NaN or missing where unknown."""

OTHER: Final = "other"
CALIBRATION: Final = "calibration"
TABLES: Final = "tables"

_COLUMNS: Final = tuple(
    (re.compile(pattern), group)
    for pattern, group in (
        (r"^table", TABLES),
        (r"sibling", "siblings"),
        (r"^(submits\b.*|since submit)$", "burst"),
        (r"waiting|running of|^queue", "queue"),
        (r"^running$|^age of", "running"),
        (r"^(hour|weekday)", "hour"),
        (r"limit|\buse\b", "limit"),
        (r"name|template", "name"),
        (r"user", "user"),
        (r"model$", "model"),
        (r"type$", "type"),
        (r"pool", "pool"),
        (r"^width$", "width"),
    )
)
_OF_TABLE: Final = {
    "pool": "pool",
    "width": "pool",
    "user": "user",
    "name": "name",
    "template": "name",
    "limit": "limit",
    "type": "type",
    "model": "model",
}


def group_of(column: str) -> str:
    """Group that a column of the features belongs to."""
    return next((group for pattern, group in _COLUMNS if pattern.search(column)), OTHER)


def group_of_table(kind: str) -> str:
    """Group that a life table belongs to, by the kind of its key."""
    return _OF_TABLE.get(kind, OTHER)


def duration_words(seconds: float) -> str:
    """A duration as people say it, in its two largest units."""
    if seconds < 1.0:
        return "less than 1 s"
    minutes = round(seconds / 60.0)
    if seconds < 90.0 or minutes < 2:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 2 * 24 * 60:
        hours, rest = divmod(minutes, 60)
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, rest = divmod(round(minutes / 60.0), 24)
    return f"{days} d {rest} h" if rest else f"{days} d"


def reason_words(group: str, job: Job, facts: Facts) -> str:
    """What was known of a group, as a clause without its effect."""
    say = _SAYINGS.get(group)
    return f"everything else ({group})" if say is None else say(job, facts)


def effect_words(contribution: float, *, is_life: bool) -> str:
    """What a reason does to the forecast, in words."""
    if abs(contribution) < 0.005:
        return "no change"
    if is_life:
        return f"{'longer' if contribution > 0 else 'shorter'}, {contribution:+.2f} doublings"
    return f"{'likelier' if contribution > 0 else 'less likely'}, {contribution:+.2f} doublings of the chance"


def _known(facts: Facts, column: str) -> float | None:
    value = facts.get(column, math.nan)
    return None if math.isnan(value) else value


def _lasted(facts: Facts, whose: Mapping[str, str]) -> str | None:
    """Of the first kind of jobs whose mean life is known: how long they lasted."""
    for kind, words in whose.items():
        mean = _known(facts, f"mean {kind}")
        if mean is not None:
            return f"{words} lasted about {duration_words(math.exp(mean))} lately"
    return None


def _number(facts: Facts, column: str) -> int | None:
    """A count that is kept as ln(1 + count)."""
    value = _known(facts, column)
    return None if value is None else round(math.expm1(value))


def _name(job: Job, facts: Facts) -> str:
    if job.name is None:
        return "the job has no name"
    whose = {
        "exact name": "this user's jobs of exactly this name",
        "user-name": "this user's jobs of this name",
        "name": "jobs of this name",
        "similar name": "jobs of the most similar name",
    }
    return _lasted(facts, whose) or "no job of this name has ended yet"


def _user(job: Job, facts: Facts) -> str:
    if job.user is None:
        return "the user is not known"
    whose = {"user-pool-width": "this user's jobs of this pool and width", "user": "this user's jobs"}
    return _lasted(facts, whose) or "no job of this user has ended yet"


def _pool(job: Job, facts: Facts) -> str:
    whose = {
        "pool-width": f"jobs of pool {job.pool} on {_gpus(job.num_gpus)}",
        "pool": f"jobs of pool {job.pool}",
    }
    return _lasted(facts, whose) or f"no job of pool {job.pool} has ended yet"


def _type(job: Job, facts: Facts) -> str:
    if job.gpu_type is None:
        return "any type of GPU will do"
    said = _lasted(facts, {"type": f"jobs of this width on GPUs of type {job.gpu_type}"})
    return said or f"it asks for GPUs of type {job.gpu_type}"


def _model(job: Job, facts: Facts) -> str:
    if job.model is None:
        return "what it trains is not known"
    return _lasted(facts, {"model": f"jobs that train {job.model}"}) or f"it trains {job.model}"


def _limit(job: Job, facts: Facts) -> str:
    if job.limit_s is None or job.limit_s <= 0:
        return "it asks for no time limit"
    words = f"it asks for a limit of {duration_words(job.limit_s)}"
    for column, whose in (("limit as used by the user", "this user's"), ("limit as used by all", "all")):
        used = _known(facts, column)
        if used is not None:
            share = math.exp(used - math.log(job.limit_s))
            return f"{words}, and {whose} jobs use about {share:.0%} of theirs"
    return words


def _siblings(job: Job, facts: Facts) -> str:  # noqa: ARG001 - all sayings take both
    number, ended = _number(facts, "siblings"), _number(facts, "siblings ended")
    mean = _known(facts, "sibling mean")
    if not number:
        return "it has no siblings (no array, no burst of such jobs)"
    words = f"{_count(number, 'sibling')} came before it"
    if not ended or mean is None:
        return f"{words}, of which none has ended"
    return f"{words}, and the {ended} of them that ended lasted about {duration_words(math.exp(mean))}"


def _burst(job: Job, facts: Facts) -> str:
    submits = _known(facts, "submits 600 s")
    if submits is None:
        return f"how jobs came to pool {job.pool} in the minutes before"
    return f"{_count(round(submits), 'job')} came to pool {job.pool} in the ten minutes before"


def _queue(job: Job, facts: Facts) -> str:
    waiting, running = _number(facts, "jobs waiting of the pool"), _number(facts, "jobs running of the pool")
    if waiting is None or running is None:
        return f"what waits and runs in pool {job.pool}"
    return f"{_count(waiting, 'job')} of pool {job.pool} waited and {running} ran"


def _running(job: Job, facts: Facts) -> str:
    number, age = _number(facts, "running"), _known(facts, "age of the middle one")
    if not number or age is None:
        return f"no job of pool {job.pool} on {_gpus(job.num_gpus)} ran"
    words = f"{_count(number, 'job')} of pool {job.pool} on {_gpus(job.num_gpus)} ran"
    return f"{words}, the middle one for {duration_words(math.exp(age))}"


def _hour(job: Job, facts: Facts) -> str:  # noqa: ARG001 - all sayings take both
    hour = _known(facts, "hour")
    if hour is None:
        return "the time of the day and the week"
    return f"it came between {int(hour):02d}:00 and {int(hour):02d}:59"


def _width(job: Job, facts: Facts) -> str:  # noqa: ARG001 - all sayings take both
    return f"it asks for {_gpus(job.num_gpus)}"


def _tables(job: Job, facts: Facts) -> str:  # noqa: ARG001 - all sayings take both
    return "how many lives these averages rest on, and how the latest ones differ from earlier ones"


def _calibration(job: Job, facts: Facts) -> str:  # noqa: ARG001 - all sayings take both
    return "correction by how such forecasts have done"


_SAYINGS: Final[Mapping[str, Callable[[Job, Facts], str]]] = {
    "name": _name,
    "user": _user,
    "pool": _pool,
    "type": _type,
    "model": _model,
    "limit": _limit,
    "siblings": _siblings,
    "burst": _burst,
    "queue": _queue,
    "running": _running,
    "hour": _hour,
    "width": _width,
    TABLES: _tables,
    CALIBRATION: _calibration,
}

GROUPS: Final = (*_SAYINGS, OTHER)
"""Every group a reason can belong to."""


def _gpus(number: int) -> str:
    return _count(number, "GPU")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
