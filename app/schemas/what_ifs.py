"""What-ifs on the wire."""

from typing import Annotated

from pydantic import Field

from app.schemas.base import Name, Received, with_example
from app.schemas.clusters import MAX_POOLS, PolicyName, Quota, Settings


class WhatIfIn(Received):
    """What is to be different from the cluster as it is; something has to be."""

    model_config = with_example(quotas={"vision": 4}, days=3.0)

    quotas: Annotated[
        dict[Name, Quota],
        Field(max_length=MAX_POOLS, description="pools whose quota changes", examples=[{"vision": 48}]),
    ] = Field(default_factory=dict)
    policy: Annotated[PolicyName | None, Field(description="another policy")] = None
    settings: Annotated[
        Settings | None, Field(description="its settings; by default the cluster's, or another policy's own")
    ] = None
    days: Annotated[
        float, Field(strict=True, gt=0.0, le=366.0, description="days of the past to go through again")
    ] = 7.0
