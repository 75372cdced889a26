"""API keys: made, listed, revoked."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path

from app.api.auth import require
from app.api.deps import ClockDep, EngineDep
from app.schemas.keys import KeyIn, KeyMade, KeyOut, KeysOut
from app.services import keys

router = APIRouter(prefix="/v1/keys", tags=["keys"], dependencies=[Depends(require("admin"))])


@router.post("", status_code=HTTPStatus.CREATED, summary="Make a key; its text is shown this once")
def create_key(body: KeyIn, engine: EngineDep, clock: ClockDep) -> KeyMade:
    """Scopes: `read`, `plan`, `apply`; `admin` may do everything."""
    key = keys.create(engine, body.name, body.scopes, clock)
    return KeyMade(key=key, name=body.name, scopes=sorted(set(body.scopes)))


@router.get("", summary="All keys, without their secrets")
def list_keys(engine: EngineDep) -> KeysOut:
    """The oldest first, revoked ones too."""
    found = keys.listed(engine)
    return KeysOut(items=[KeyOut.model_validate(row.model_dump(exclude={"secret_sha256"})) for row in found])


@router.delete("/{key_id}", status_code=HTTPStatus.NO_CONTENT, summary="Revoke a key")
def revoke_key(key_id: Annotated[str, Path(max_length=32)], engine: EngineDep, clock: ClockDep) -> None:
    """It is refused from now on; again and again is fine."""
    keys.revoke(engine, key_id, clock)
