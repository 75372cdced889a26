"""Forecasts as the command line prints them: the same document from files and from a service."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from app.services.forecast_words import score_of

_KEPT: Final = ("model", "jobs_learned_from", "seed")
_SPANS: Final = ("since", "until", "from_s", "until_s")
"""Instants are left out: files count seconds, a service says what time it was."""


def lifetimes(
    said: Mapping[str, Any], rests_on: Mapping[str, Any], held_out: Mapping[str, Any]
) -> dict[str, Any]:
    """Forecasts of jobs.

    Args:
        said: `levels`, `within_s` and `items`.
        rests_on: model and history.
        held_out: `state`, `score` and `note`.
    """
    names = ("levels", "within_s", "items")
    return {
        **{name: said[name] for name in names},
        "rests_on": {name: rests_on[name] for name in _KEPT},
        "held_out": _without_spans(held_out),
    }


def demand(
    said: Mapping[str, Any], rests_on: Mapping[str, Any], held_out: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """What pools ask for; `held_out` of peaks and of arrivals."""
    names = ("step_s", "levels", "samples", "pools")
    return {
        **{name: said[name] for name in names},
        "rests_on": {name: rests_on[name] for name in _KEPT},
        "held_out": {what: _without_spans(one) for what, one in held_out.items()},
    }


def lifetimes_of_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The document of what a service answered."""
    within_s = [seconds_between(answer["at"], ends) for ends in answer["ends_by"]]
    return lifetimes({**answer, "within_s": within_s}, answer["rests_on"], answer["held_out"])


def demand_of_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The document of what a service answered."""
    pools = [
        {
            **pool,
            "steps": [
                {
                    "begins_s": seconds_between(answer["at"], step["begins"]),
                    **{name: value for name, value in step.items() if name != "begins"},
                }
                for step in pool["steps"]
            ],
        }
        for pool in answer["pools"]
    ]
    held_out = {what: answer[f"held_out_{what}"] for what in ("peak_gpus", "arrivals")}
    return demand({**answer, "pools": pools}, answer["rests_on"], held_out)


def scored(scores: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A score that is known, with its sentence."""
    return score_of({"state": "known", "scores": scores}, what)


def seconds_between(earlier: str, later: str) -> float:
    """Seconds from one instant of RFC 3339 to another."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def _without_spans(held_out: Mapping[str, Any]) -> dict[str, Any]:
    score = held_out["score"]
    kept = None if score is None else {name: score[name] for name in score if name not in _SPANS}
    return {**held_out, "score": kept}
