"""Child: how the forecasts of an epoch do on the last part of what they learn from."""

import os
from typing import Any, Final

from app.children import main
from app.children.listener import learned_from
from app.services.foresight import held_out
from app.store.engine import make_engine

_NICE: Final = 10
"""Nobody waits for this; decisions go first."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Score the forecasts of epoch `epoch` of cluster `cluster`; see `app.services.foresight.held_out`."""
    os.nice(_NICE)
    engine = make_engine(os.environ["ANTECAST_DATABASE_URL"])
    try:
        _, name, training = learned_from(engine, request["cluster"], int(request["epoch"]))
    finally:
        engine.dispose()
    return held_out(name, training)


if __name__ == "__main__":
    main(answer)
