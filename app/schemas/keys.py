"""API keys on the wire."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.schemas.base import Received, Sent
from app.services.keys import Scope


class KeyIn(Received):
    """A key to be made."""

    name: Annotated[str, Field(min_length=1, max_length=63, examples=["slurm plugin"])]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=4, examples=[["read", "apply"]])]


class KeyMade(Sent):
    """A new key; its text is shown this once."""

    key: str = Field(examples=["ak_0123456789abcdef_0123..."])
    name: str
    scopes: list[Scope]


class KeyOut(Sent):
    """A key, without its secret."""

    key_id: str
    name: str
    scopes: list[Scope]
    created_at: datetime
    revoked_at: datetime | None


class KeysOut(Sent):
    """All keys."""

    items: list[KeyOut]
