"""Whether the service answers and is ready."""

from typing import Literal

from pydantic import Field

from app.schemas.base import Sent


class Health(Sent):
    """That the service answers, and which version it is."""

    status: str = Field(examples=["ok"])
    version: str = Field(examples=["0.1.0"])


class Readiness(Sent):
    """That the service can work."""

    status: Literal["ready", "degraded"]
    database: str = Field(examples=["postgresql"])
    schema_version: str = Field(examples=["0003"])
    num_workers: int = Field(description="workers that are alive", examples=[1])
    missing: list[str] = Field(
        description="what would have to be there for all to work", examples=[["workers"]]
    )
