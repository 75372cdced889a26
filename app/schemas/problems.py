"""Errors on the wire: RFC 9457."""

from pydantic import Field

from app.schemas.base import Sent


class Broken(Sent):
    """One rule that a request breaks."""

    where: str = Field(
        description="the field, as a path into the request", examples=["body.pools.0.quota_gpus"]
    )
    message: str


class FaultOut(Sent):
    """One broken rule in a file."""

    line: int | None = Field(description="line of the file, null where it concerns all of it")
    rule: str
    message: str


class Problem(Sent):
    """What went wrong, why, and where."""

    type: str = Field(examples=["/problems/unknown-cluster"])
    title: str = Field(examples=["Unknown cluster"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["there is no cluster 'research'"])
    errors: list[Broken] | None = Field(default=None, description="every rule the request breaks")
    faults: list[FaultOut] | None = Field(default=None, description="what is wrong in a file")
    request_id: str | None = Field(
        default=None, description="as in `X-Request-Id` and in the log", examples=["0b6f6a3c1f5e4e0a"]
    )
