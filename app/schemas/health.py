"""Whether the service answers and is ready."""

from pydantic import Field

from app.schemas.base import Sent


class Health(Sent):
    """That the service answers, and which version it is."""

    status: str = Field(examples=["ok"])
    version: str = Field(examples=["0.1.0"])


class Readiness(Sent):
    """That the service can work."""

    status: str = Field(examples=["ready"])
    database: str = Field(examples=["postgresql"])
    schema_version: str = Field(examples=["0003"])
