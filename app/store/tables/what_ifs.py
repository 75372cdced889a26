"""What-ifs, their sweeps, and their figures: all that a what-if may write besides its run."""

from datetime import datetime

from sqlalchemy import Index
from sqlmodel import Field, SQLModel

from app.store.tables.base import Json, instant_field, json_field


class SweepRow(SQLModel, table=True):
    """A grid of what-ifs. `parameters`: as asked, each with the change and the values that it takes."""

    __tablename__ = "what_if_sweeps"
    __table_args__ = (Index(None, "cluster", "requested_at", "sweep_id"),)

    sweep_id: str = Field(primary_key=True, max_length=64)
    cluster: str = Field(foreign_key="clusters.name")
    name: str | None = Field(default=None, max_length=255)
    question: Json = json_field()
    parameters: Json = json_field()
    requested_by: str = Field(max_length=63)
    requested_at: datetime = instant_field()
    cancelled_at: datetime | None = instant_field(nullable=True)


class WhatIfRow(SQLModel, table=True):
    """One what-if. Its id is that of its run; the answer stays when the run is gone.

    `point`: the values of a sweep's parameters here, by name, in the order of the grid (`position`).
    """

    __tablename__ = "what_ifs"
    __table_args__ = (
        Index(None, "cluster", "requested_at", "what_if_id"),
        Index(None, "sweep_id", "position"),
    )

    what_if_id: str = Field(primary_key=True, max_length=64)
    cluster: str = Field(foreign_key="clusters.name")
    name: str | None = Field(default=None, max_length=255)
    sweep_id: str | None = Field(default=None, max_length=64, foreign_key="what_if_sweeps.sweep_id")
    position: int | None = None
    point: Json | None = json_field(nullable=True)
    question: Json = json_field()
    requested_by: str = Field(max_length=63)
    requested_at: datetime = instant_field()
    answered_at: datetime | None = instant_field(nullable=True)
    answer: Json | None = json_field(nullable=True)


class WhatIfFigureRow(SQLModel, table=True):
    """One figure of an answer: of the cluster (`pool` is empty) or of a pool, in both worlds."""

    __tablename__ = "what_if_figures"

    what_if_id: str = Field(primary_key=True, max_length=64, foreign_key="what_ifs.what_if_id")
    pool: str = Field(primary_key=True, max_length=255)
    figure: str = Field(primary_key=True, max_length=63)
    baseline: float | None = None
    changed: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    range_low: float | None = None
    range_high: float | None = None
