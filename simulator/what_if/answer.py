"""The answer to a what-if: both worlds replayed over the same courses, and set side by side."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pandas as pd

from data.history import content_hash
from domain.changes import Calendar, Patch, Submitted, World, read_patch
from domain.errors import SettingError
from domain.questions import Question, question_from, world_from, world_to_json
from simulator.engine import Progress
from simulator.report import finite
from simulator.what_if.courses import Course, courses_of
from simulator.what_if.figures import scope_of
from simulator.what_if.fits import Fits, counted
from simulator.what_if.intervals import CONFIDENCE_PCT, RESAMPLES, compared, range_level
from simulator.what_if.lived import WorldLived, live
from simulator.what_if.who import moved, who


def question_sha256(request: Mapping[str, Any]) -> str:
    """Hash of all that the answer rests on beside the jobs."""
    own = {name: request[name] for name in ("base", "question", "origin")}
    return hashlib.sha256(json.dumps(own, sort_keys=True, allow_nan=False).encode()).hexdigest()


def calendar_of(origin: str | None) -> Calendar:
    """The calendar of a cluster whose clock begins at an instant in RFC 3339."""
    return Calendar(None if origin is None else datetime.fromisoformat(origin))


def with_requeueable(frame: pd.DataFrame, pools: Sequence[str]) -> pd.DataFrame:
    """The history with the jobs of pools as requeueable where their record does not say."""
    says_nothing = frame["requeue_u"].isna() & frame["pool"].isin(list(pools))
    return frame.assign(requeue_u=frame["requeue_u"].where(~says_nothing, 0.0))


def answer(
    frame: pd.DataFrame, request: Mapping[str, Any], progress: Progress | None = None
) -> dict[str, Any]:
    """Answer a what-if.

    Args:
        frame: the history, as `data.schema` has it, by (submit, id).
        request: `base`, a world; `question`; `origin` of the clock, RFC 3339 or None. All as JSON
            (`domain.questions`).
        progress: told now and then how far it is, in jobs of all replays.

    Returns:
        JSON: baseline, changed, difference, intervals (figures in all), pools (the same by pool), who wins
        and loses, the world with the changes, window, excluded jobs, and what all rests on (`inputs`). The
        same request and the same jobs give the same bytes.

    Raises:
        ChangeError: for a change that cannot be; it names the entry.
        SettingError: if there are no jobs, or a policy is refused.
    """
    question = question_from(request["question"])
    patch = read_patch(question.changes, calendar_of(request["origin"]))
    base = world_from(request["base"])
    changed = patch.on_world(base)
    base = replace(base, is_placed=changed.is_placed)
    courses = courses_of(frame, question)
    pairs, left_out = _lived(courses, (base, changed), patch, question, progress)
    answered = {
        **_asked(courses, pairs, question),
        **_compared(pairs, (base, changed), question),
        "who": who(moved([first for first, _ in pairs], [second for _, second in pairs])),
        "worlds": {"baseline": world_to_json(base), "changed": world_to_json(changed)},
        "excluded": counted(left_out),
        "faults": {"baseline": _faults(first for first, _ in pairs), "changed": _faults(s for _, s in pairs)},
        "inputs": {"jobs_sha256": content_hash(frame), "question_sha256": question_sha256(request)},
    }
    plain: dict[str, Any] = finite(answered)
    return plain


def _lived(
    courses: Sequence[Course],
    worlds: tuple[World, World],
    patch: Patch,
    question: Question,
    progress: Progress | None,
) -> tuple[list[tuple[WorldLived, WorldLived]], list[Submitted]]:
    """All replays, base and scenario of a course with the same seed, and the jobs that were left out."""
    fits = Fits(worlds)
    pairs, left_out = [], []
    for number, course in enumerate(courses):
        kept = [one for one in course.jobs if fits(one.job)]
        left_out += [one for one in course.jobs if not fits(one.job)]
        if not any(one.job.submit_s >= course.span.from_s for one in kept):
            raise SettingError(
                f"no job of the last {question.days:g} days can be replayed: ask for more days"
            )
        after = patch.on_jobs(kept, worlds[1], course.span)
        if not any(one.job.submit_s >= course.span.from_s for one in after):
            raise SettingError("with these changes no job is left to measure")
        seed = question.seed + number
        first, second = (
            live(course, world, jobs, seed, _part(progress, 2 * number + half, 2 * len(courses)))
            for half, (world, jobs) in enumerate(zip(worlds, (kept, after), strict=True))
        )
        pairs.append((first, second))
    return pairs, left_out


def _asked(
    courses: Sequence[Course], pairs: Sequence[tuple[WorldLived, WorldLived]], question: Question
) -> dict[str, Any]:
    span = courses[0].span
    num_units = sum(len(course.ends_s) for course in courses)
    is_future = question.futures is not None
    return {
        "question": question.to_json(),
        "window": {
            "from_s": span.from_s,
            "to_s": span.to_s,
            "jobs": sum(len(first.jobs) for first, _ in pairs),
        },
        "over": "futures" if is_future else "history",
        "units": {
            "kind": "futures" if is_future else "days",
            "number": num_units,
            "interval": "paired bootstrap over units, percentiles",
            "confidence_pct": CONFIDENCE_PCT,
            "resamples": RESAMPLES if num_units > 1 else 0,
            "range_pct": range_level(num_units),
        },
        "jobs_learned_from": len(courses[0].past.past),
    }


def _compared(
    pairs: Sequence[tuple[WorldLived, WorldLived]], worlds: tuple[World, World], question: Question
) -> dict[str, Any]:
    names = sorted(worlds[0].quotas)
    quotas = [[world.quotas[name] for name in names] for world in worlds]
    lived = [[first for first, _ in pairs], [second for _, second in pairs]]

    def of(pool: int | None) -> dict[str, Any]:
        base, changed = (
            scope_of(lived[half], quotas[half], pool, is_per_unit=question.futures is not None)
            for half in (0, 1)
        )
        return compared(base, changed, question.seed)

    return {**of(None), "pools": [{"pool": name, **of(place)} for place, name in enumerate(names)]}


def _faults(lived: Any) -> int:
    return sum(len(one.faults) for one in lived)


def _part(progress: Progress | None, number: int, of: int) -> Callable[[int, int], None] | None:
    """Progress of one replay of several, as a part of all of them."""
    if progress is None:
        return None

    def tell(done: int, total: int) -> None:
        progress(number * total + done, of * total)

    return tell
