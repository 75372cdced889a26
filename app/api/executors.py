"""Executors: what they ask and tell, and what operators do with them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.api.auth import count_failure, require
from app.api.deps import ClockDep, EngineDep, LimiterDep, RunsDep, SettingsDep
from app.errors import NotAuthenticated
from app.schemas.executors import (
    DesiredOut,
    EnrolIn,
    Enrolled,
    EventsIn,
    EventsTaken,
    ExecutorOut,
    ExecutorsOut,
    JoinTokenIn,
    JoinTokenMade,
    SessionIn,
    SessionOut,
    StatusIn,
)
from app.services import executor_events, executor_status, executors
from app.services.executor_events import Event
from app.services.executor_status import Status
from app.services.executors import Executor, Opening
from app.services.waiters import Poll, Waiters
from app.store.engine import transaction

router = APIRouter(prefix="/v1", tags=["executors"])

MAX_WAIT_S: Final = 60.0
_MAX_GENERATION: Final = 2**31 - 1
_BEARER: Final = HTTPBearer(
    auto_error=False, scheme_name="ExecutorSecret", description="The secret that an executor got on enrolment"
)

ClusterPath = Annotated[str, Path(max_length=63, description="the cluster's name", examples=["research"])]
ExecutorPath = Annotated[str, Path(max_length=64, description="the executor's id")]
SecretDep = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


def _executor(
    executor_id: ExecutorPath, request: Request, engine: EngineDep, limiter: LimiterDep, bearer: SecretDep
) -> Executor:
    if bearer is None:
        raise NotAuthenticated("the executor's secret is needed: Authorization: Bearer ...")
    try:
        return executors.authenticate(engine, executor_id, bearer.credentials)
    except NotAuthenticated:
        count_failure(request, limiter)
        raise


async def _waiters(request: Request, engine: EngineDep) -> Waiters:
    """Those that wait in this process; made when first asked for, on the event loop: so there is one only.

    `app.state.is_stopping`, where the server sets it, says whether it is about to stop.
    """
    state = request.app.state
    if not hasattr(state, "waiters"):
        state.waiters = Waiters(engine, is_stopping=getattr(state, "is_stopping", _never))
    waiters: Waiters = state.waiters
    return waiters


def _never() -> bool:
    return False


ExecutorDep = Annotated[Executor, Depends(_executor)]


@router.post(
    "/clusters/{cluster}/join-tokens",
    status_code=HTTPStatus.CREATED,
    dependencies=[Depends(require("admin"))],
    summary="Make a token with which a node's executor can enrol; it is shown this once",
)
def create_join_token(
    cluster: ClusterPath, body: JoinTokenIn, engine: EngineDep, clock: ClockDep
) -> JoinTokenMade:
    """It is good for one enrolment of one node of the inventory."""
    with transaction(engine) as session:
        token = executors.issue_join_token(session, cluster, body.node, body.ttl_s, clock)
    return JoinTokenMade(token=token)


@router.get(
    "/clusters/{cluster}/executors",
    dependencies=[Depends(require("read"))],
    summary="Executors by id, and what they said last",
)
def list_executors(
    cluster: ClusterPath,
    engine: EngineDep,
    after: Annotated[str, Query(max_length=64)] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ExecutorsOut:
    """Revoked ones too. A page at a time."""
    rows = executors.page(engine, cluster, after, limit + 1)
    hidden = {"cluster", "secret_sha256"}
    items = [ExecutorOut.model_validate(row.model_dump(exclude=hidden)) for row in rows[:limit]]
    return ExecutorsOut(items=items, next=items[-1].executor_id if len(rows) > limit else None)


@router.post(
    "/executors/{executor_id}/revoke",
    status_code=HTTPStatus.NO_CONTENT,
    dependencies=[Depends(require("admin"))],
    summary="Trust an executor no longer",
)
def revoke_executor(executor_id: ExecutorPath, engine: EngineDep) -> None:
    """What it runs counts as lost once its lease has run out."""
    with transaction(engine) as session:
        executors.revoke(session, executor_id)


@router.post("/executors/enroll", status_code=HTTPStatus.CREATED, summary="Enrol with a join token")
def enrol_executor(
    body: EnrolIn, request: Request, engine: EngineDep, clock: ClockDep, limiter: LimiterDep
) -> Enrolled:
    """Another executor of the same node is revoked by it."""
    try:
        with transaction(engine) as session:
            made = executors.enrol(session, body.token, body.node, body.version, clock)
    except NotAuthenticated:
        count_failure(request, limiter)
        raise
    return Enrolled(executor_id=made.executor_id, secret=made.secret)


@router.post(
    "/executors/{executor_id}/sessions",
    status_code=HTTPStatus.CREATED,
    summary="Begin a session; older ones are over",
)
def open_session(
    who: ExecutorDep,
    body: SessionIn,
    engine: EngineDep,
    clock: ClockDep,
    settings: SettingsDep,
    runs: RunsDep,
) -> SessionOut:
    """The GPUs have to be as many as the inventory says."""
    opening = Opening(
        boot_id=body.boot_id,
        version=body.version,
        devices=[device.model_dump() for device in body.devices],
        capabilities=[capability.model_dump() for capability in body.capabilities],
        adopted=body.placements,
    )
    with transaction(engine) as session:
        number = executors.open_session(
            session, who, opening, lease_s=settings.lease_s, clock=clock, runs=runs
        )
    return SessionOut(
        session=number,
        lease_s=settings.lease_s,
        poll_wait_s=settings.poll_wait_s,
        status_every_s=settings.status_every_s,
    )


@router.get(
    "/executors/{executor_id}/desired",
    response_model=DesiredOut,
    responses={204: {"description": "Nothing newer within `wait_s`"}},
    summary="Wait for what is wanted on the node",
)
async def get_desired(
    who: ExecutorDep,
    request: Request,
    waiters: Annotated[Waiters, Depends(_waiters)],
    session: Annotated[int, Query(ge=0, le=_MAX_GENERATION, description="the session", examples=[1])],
    settings: SettingsDep,
    after: Annotated[int, Query(ge=0, le=_MAX_GENERATION, description="the generation known already")] = 0,
    wait_s: Annotated[float, Query(ge=0.0, le=MAX_WAIT_S)] = 0.0,
) -> Response:
    """The whole document, as soon as there is one that is newer. A second poll ends the first.

    The answer comes after the `poll_wait_s` of the session at the latest, whatever `wait_s` says.
    """
    poll = Poll(who.executor_id, who.cluster, who.node, session, after)
    async with _disconnect(request) as gone:
        document = await waiters.wait(poll, min(wait_s, settings.poll_wait_s), gone=gone)
    if document is None:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text, media_type="application/json", headers={"ETag": f'"{document["hash"]}"'})


@router.post(
    "/executors/{executor_id}/status", status_code=HTTPStatus.NO_CONTENT, summary="Say how the node stands"
)
def post_status(
    who: ExecutorDep,
    body: StatusIn,
    engine: EngineDep,
    clock: ClockDep,
    settings: SettingsDep,
    runs: RunsDep,
) -> None:
    """It renews the lease."""
    told = body.model_dump(mode="json")
    status = Status(
        session=body.session,
        epoch=body.epoch,
        generation=body.generation,
        is_accepted=body.accepted,
        refusals=told["refusals"],
        placements=told["placements"],
        devices=told["devices"],
        capabilities=told["capabilities"],
    )
    with transaction(engine) as session:
        executor_status.take(session, who, status, lease_s=settings.lease_s, clock=clock, runs=runs)


@router.post("/executors/{executor_id}/events", summary="Say what has happened")
def post_events(
    who: ExecutorDep, body: EventsIn, engine: EngineDep, clock: ClockDep, runs: RunsDep
) -> EventsTaken:
    """Events told again are counted, and left alone otherwise."""
    events = [
        Event(str(event.event_id), event.kind, event.at, event.placement_id, event.job_id, event.data)
        for event in body.events
    ]
    with transaction(engine) as session:
        taken = executor_events.take(session, who, body.session, events, clock=clock, runs=runs)
    return EventsTaken(accepted=taken.accepted, duplicates=taken.duplicates)


@contextlib.asynccontextmanager
async def _disconnect(request: Request) -> AsyncIterator[asyncio.Future[None]]:
    """A future that is done once the client has gone away."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass  # what is left of the request's (empty) body

    watching = asyncio.create_task(watch())
    try:
        yield watching
    finally:
        watching.cancel()
        await asyncio.wait({watching})
