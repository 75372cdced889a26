"""API keys: made, listed, rotated, revoked."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from app.api.auth import require
from app.api.deps import ClockDep, EngineDep
from app.schemas.keys import KeyIn, KeyMade, KeyOut, KeyRotated, KeysOut, RotationIn
from app.services import keys

router = APIRouter(prefix="/v1/keys", tags=["keys"], dependencies=[Depends(require("admin"))])

KeyPath = Annotated[str, Path(max_length=32, description="the key's id", examples=["0123456789abcdef"])]


@router.post("", status_code=HTTPStatus.CREATED, summary="Make a key; its text is shown this once")
def create_key(body: KeyIn, engine: EngineDep, clock: ClockDep) -> KeyMade:
    """Scopes: `read`, `plan`, `apply`; `admin` may do everything."""
    key = keys.create(engine, body.name, body.scopes, clock, lives_s=body.lives_s)
    return KeyMade(key=key, name=body.name, scopes=sorted(set(body.scopes)))


@router.get("", summary="Keys, without their secrets")
def list_keys(
    engine: EngineDep,
    clock: ClockDep,
    after: Annotated[str, Query(max_length=32)] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> KeysOut:
    """The oldest first, revoked ones too. A page at a time: `after` is the `next` of the page before."""
    found = keys.listed(engine, after, limit + 1)
    items = [
        KeyOut.model_validate(
            {**row.model_dump(exclude={"secret_sha256"}), "state": keys.state_of(row, clock.now())}
        )
        for row in found[:limit]
    ]
    return KeysOut(items=items, next=items[-1].key_id if len(found) > limit else None)


@router.post(
    "/{key_id}/rotate",
    status_code=HTTPStatus.CREATED,
    summary="Replace a key; the new one's text is shown this once",
)
def rotate_key(key_id: KeyPath, body: RotationIn, engine: EngineDep, clock: ClockDep) -> KeyRotated:
    """The new one has the same name and scopes; the old one stays valid for `overlap_s`."""
    made = keys.rotate(engine, key_id, body.overlap_s, clock, lives_s=body.lives_s)
    return KeyRotated(key=made.key, key_id=made.key_id, old_ends_at=made.old_ends_at)


@router.delete("/{key_id}", status_code=HTTPStatus.NO_CONTENT, summary="Revoke a key")
def revoke_key(key_id: KeyPath, engine: EngineDep, clock: ClockDep) -> None:
    """It is refused from now on; again and again is fine."""
    keys.revoke(engine, key_id, clock)
