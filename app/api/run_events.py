"""What happens to a run: as a stream, or a page at a time."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event

from app.api.auth import require
from app.api.deps import EngineDep
from app.api.runs import RunPath
from app.errors import Invalid
from app.schemas.run_events import RunEventOut, RunEventsOut
from app.services import run_events
from app.services.run_feed import RunFeed
from app.store.tables import RunEventKind, RunEventRow

router = APIRouter(prefix="/v1/runs/{run_id}", tags=["runs"])

HEARTBEAT_S: Final = 15.0
"""A stream says so often that it is there."""

_STREAM: Final = "text/event-stream"
_MAX_NUMBER: Final = 2**31 - 1
_EXAMPLE: Final = (
    'event: progress\ndata: {"number":3,"kind":"progress","at":"2026-01-07T12:00:01Z",'
    '"data":{"done":3.0,"total":12.0}}\nid: 3\n\n'
)


@router.get(
    "/events",
    dependencies=[Depends(require("read"))],
    summary="What happens to a run",
    response_model=RunEventsOut,
    responses={200: {"content": {_STREAM: {"schema": {"type": "string"}, "example": _EXAMPLE}}}},
)
async def follow_run(
    run_id: RunPath,
    request: Request,
    engine: EngineDep,
    after: Annotated[int, Query(ge=0, le=_MAX_NUMBER, description="number of the last event seen")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="of a page")] = 100,
    accept: Annotated[str, Header(max_length=1000, include_in_schema=False)] = "",
    last_event_id: Annotated[
        str | None, Header(max_length=64, description="of a stream that goes on: the last id seen")
    ] = None,
) -> Response:
    """With `Accept: text/event-stream` as they come, until the last one; else a page of what there is.

    A stream that was cut goes on behind `Last-Event-ID`, as browsers do by themselves; nothing is lost.
    """
    if _STREAM not in accept.lower():
        return JSONResponse(await run_in_threadpool(_page, engine, run_id, after, limit))
    if last_event_id is not None:
        after = _number(last_event_id)
    await run_in_threadpool(run_events.require_run, engine, run_id)
    feed: RunFeed = request.app.state.run_feed
    feed.require_room()
    is_stopping: Callable[[], bool] = getattr(request.app.state, "is_stopping", lambda: False)
    return EventSourceResponse(_stream(feed, run_id, after, is_stopping), headers={"X-Accel-Buffering": "no"})


async def _stream(
    feed: RunFeed, run_id: str, after: int, is_stopping: Callable[[], bool]
) -> AsyncIterator[bytes]:
    yield KEEPALIVE_COMMENT  # so that whoever asks knows at once that it is served
    async for event in feed.watch(run_id, after, quiet_s=HEARTBEAT_S, is_stopping=is_stopping):
        if event is None:
            yield KEEPALIVE_COMMENT
        else:
            said = _out(event).model_dump(mode="json")
            text = json.dumps(said, separators=(",", ":"), allow_nan=False)
            yield format_sse_event(data_str=text, event=event.kind, id=str(event.number))


def _page(engine: EngineDep, run_id: str, after: int, limit: int) -> object:
    found = run_events.after(engine, run_id, after, limit)
    items = [_out(event) for event in found]
    is_last = bool(found) and found[-1].kind == RunEventKind.FINISHED
    behind = items[-1].number if items else after
    return RunEventsOut(items=items, next=None if is_last else behind).model_dump(mode="json")


def _out(event: RunEventRow) -> RunEventOut:
    return RunEventOut.model_validate(event.model_dump(exclude={"run_id"}))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(_MAX_NUMBER))):
        raise Invalid("Last-Event-ID has to be the id of an event of this stream: a number")
    return int(text)
