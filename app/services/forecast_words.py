"""What is said about a score of forecasts, wherever they are asked for."""

from collections.abc import Mapping
from typing import Any, Final

_NONE_YET: Final = {
    "pending": "being worked out beside: ask again later",
    "failed": "could not be worked out; the log of the service says why",
}


def score_of(held_out: Mapping[str, Any], what: str) -> dict[str, Any]:
    """State, score and a sentence about it.

    Args:
        held_out: `state` (`pending`, `failed` or `known`) and `scores`, of `app.services.foresight.held_out`.
        what: which of the scores.
    """
    scores = held_out["scores"]
    if scores is None:
        return {"state": held_out["state"], "score": None, "note": _NONE_YET[held_out["state"]]}
    score = scores.get(what)
    if score is None:
        note = "too little history to hold a part of it out: nothing is known of how good this is"
        return {"state": "too-little-history", "score": None, "note": note}
    on = f"{score['baseline']} on {score['number']} outcomes it had not seen"
    note = (
        f"beats {on}" if score["beats_baseline"] else f"no better than {on}: rely on it no more than on that"
    )
    return {"state": "known", "score": score, "note": note}
