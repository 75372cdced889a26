"""What all tables share."""

from typing import Any, Final

from sqlalchemy import Column
from sqlmodel import Field, SQLModel

from app.store.types import JsonColumn, UtcDateTime

Json = dict[str, Any]

NAMING: Final = {
    "ix": "ix_%(column_0_N_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
SQLModel.metadata.naming_convention = NAMING


def json_field(*, nullable: bool = False) -> Any:
    """A column of JSON."""
    return Field(default=None, sa_column=Column(JsonColumn, nullable=nullable))


def instant_field(*, nullable: bool = False) -> Any:
    """A column of instants in UTC."""
    return Field(default=None, sa_column=Column(UtcDateTime, nullable=nullable))
