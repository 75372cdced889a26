"""API keys."""

from datetime import datetime

from sqlalchemy import Column
from sqlmodel import Field, SQLModel

from app.store.tables.base import instant_field
from app.store.types import JsonColumn


class ApiKeyRow(SQLModel, table=True):
    """An API key; only its hash is kept.

    `last_used_at` is right to within a minute or so. `replaces`: the key that it was made from by rotation.
    """

    __tablename__ = "api_keys"

    key_id: str = Field(primary_key=True, max_length=32)
    name: str = Field(max_length=255)
    secret_sha256: str = Field(max_length=64)
    scopes: list[str] = Field(sa_column=Column(JsonColumn, nullable=False))
    created_at: datetime = instant_field()
    revoked_at: datetime | None = instant_field(nullable=True)
    expires_at: datetime | None = instant_field(nullable=True)
    last_used_at: datetime | None = instant_field(nullable=True)
    replaces: str | None = Field(default=None, max_length=32)
