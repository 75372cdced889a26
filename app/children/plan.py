"""Child: the plan of one instant. Reads the log up to an entry, trains, decides, says what it expects."""

import os
import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from sqlalchemy import Engine

from app.children import main, tell_incumbent
from app.children.hold_forecast import feasibility
from app.children.state import LiveDesk
from app.children.waits import waits_of
from app.store.engine import make_engine
from domain.timegrid import default_grid

_HOUR_S: Final = 3600.0
_LEVELS: Final = (0.5, 0.9)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Make a plan in a process of its own.

    Args:
        request: what `app.services.planning.load` returned.

    Returns:
        starts, send_backs, conversions, holds, `ask_again_s`, how long it took (`took_ms`), the rules that
        were broken by a plan of which this is the lawful part (`refused`, where there are any) and, where
        `wants_forecast`, what the forecasts are made of (`forecast`) and by when the GPUs of its holds will
        be there (`feasibility`).
    """
    engine = make_engine(os.environ["ANTECAST_DATABASE_URL"])
    try:
        hand_out_reference(engine, request)
        desk = LiveDesk(engine, request["cluster"], request["epoch"])
        return answer_of(desk, request)
    finally:
        engine.dispose()


def answer_of(desk: LiveDesk, request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer at a desk: for the log's entry `decided_seq`, or, without one, for `now_s` as of `seq`.

    The latter changes the desk without the log knowing, so such a desk is not to be used again.
    """
    begun_s = time.perf_counter()
    decided_seq = request.get("decided_seq")
    if decided_seq is not None:
        made = desk.answer(int(decided_seq))
        if "explain" in request:  # whoever asks at once is told who waits; a plan does not keep it
            waits = waits_of(desk, made, int(decided_seq), is_wanted=request["explain"])
            made = made if waits is None else {**made, "waits": waits}
    else:
        desk.catch_up(request["seq"])
        made = desk.decide(
            request["now_s"],
            request["idle_gpus"],
            is_lending=request["is_lending"],
            accepted=request.get("accepted"),
        )
    made = {**made, "took_ms": round((time.perf_counter() - begun_s) * 1e3, 3)}
    if request.get("decided_seq") is None:
        tell_incumbent(made, _about("policy", made))
    if request.get("wants_forecast"):
        made["forecast"] = expectations(desk, request["now_s"])
        made["feasibility"] = feasibility(desk, made, request["now_s"], request["idle_gpus"])
    return made


def hand_out_reference(engine: Engine, request: Mapping[str, Any]) -> None:
    """Hand out the plan that lends nothing and starts whose turn it is: it is there before any training."""
    begun_s = time.perf_counter()
    desk = LiveDesk(engine, request["cluster"], request["epoch"], is_reference=True)
    desk.catch_up(request["seq"])
    made = desk.decide(request["now_s"], request["idle_gpus"], is_lending=False)
    made["took_ms"] = round((time.perf_counter() - begun_s) * 1e3, 3)
    tell_incumbent(made, _about("reference", made))


def _about(plan: str, made: Mapping[str, Any]) -> dict[str, Any]:
    return {"plan": plan, **{f"num_{name}": len(made[name]) for name in ("starts", "send_backs", "holds")}}


def expectations(desk: LiveDesk, now_s: float) -> dict[str, Any]:
    """What the plan's forecasts rest on, and what they expect of the next hour, pool by pool."""
    trained = desk.trained
    said: dict[str, Any] = {
        "models": trained.choice.as_settings(),
        "as_of_s": trained.training.now_s,
        "jobs_learned_from": len(trained.training.past),
    }
    if trained.choice.arrivals is None:
        return said
    demand = trained.forecasters.demand
    in_hour = [edge < _HOUR_S for edge in default_grid().edges_s[:-1]]
    peaks = demand.peaks(now_s)[:, :, in_hour].max(axis=2)
    arrivals = demand.arrivals(now_s)[:, :, in_hour].sum(axis=2)
    said["next_hour"] = {
        pool: {
            **{
                f"peak_gpus_p{level * 100:.0f}": round(float(np.quantile(peaks[:, k], level)), 3)
                for level in _LEVELS
            },
            "jobs_mean": round(float(arrivals[:, k].mean()), 3),
        }
        for k, pool in enumerate(sorted(desk.quotas))  # as the forecasters have them
    }
    return said


if __name__ == "__main__":
    main(answer)
