"""API keys on the wire."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from app.schemas.base import Received, Sent
from app.services.keys import MAX_LIFE_S, Scope

Life = Annotated[
    float, Field(gt=0.0, le=MAX_LIFE_S, description="seconds until it expires", examples=[7776000])
]


class KeyIn(Received):
    """A key to be made. Without `lives_s` it never expires."""

    name: Annotated[str, Field(min_length=1, max_length=63, examples=["slurm plugin"])]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=4, examples=[["read", "apply"]])]
    lives_s: Life | None = None


class KeyMade(Sent):
    """A new key; its text is shown this once."""

    key: str = Field(examples=["ak_0123456789abcdef_0123..."])
    name: str
    scopes: list[Scope]


class RotationIn(Received):
    """A key to be replaced by a new one."""

    overlap_s: Annotated[
        float,
        Field(ge=0.0, le=MAX_LIFE_S, description="how long the old one stays valid", examples=[86400]),
    ] = 86_400.0
    lives_s: Life | None = None


class KeyRotated(Sent):
    """The new key; its text is shown this once."""

    key: str = Field(examples=["ak_0123456789abcdef_0123..."])
    key_id: str
    old_ends_at: datetime = Field(description="from then on the old one is refused")


class KeyOut(Sent):
    """A key, without its secret. `last_used_at` is right to within a minute or so."""

    key_id: str
    name: str
    scopes: list[Scope]
    state: Literal["valid", "ending", "expired", "revoked"]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    replaces: str | None = Field(description="the key that it was made from by rotation")


class KeysOut(Sent):
    """A page of keys."""

    items: list[KeyOut]
    next: str | None = Field(description="`after` of the next page; null on the last")
