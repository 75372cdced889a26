"""Clusters and inventories on the wire."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import ConfigDict, Field, model_validator

from app.schemas.base import MAX_GPUS, ClusterName, Instant, Name, Received, Sent
from domain.cluster import MAX_GPUS_OF_A_NODE

MAX_POOLS: Final = 1_000
MAX_NODES: Final = 5_000

SettingKey = Annotated[str, Field(min_length=1, max_length=63)]
SettingValue = Annotated[str, Field(max_length=255)]
Settings = Annotated[dict[SettingKey, SettingValue], Field(max_length=64, examples=[{"eps": "0.001"}])]
PolicyName = Annotated[str, Field(min_length=1, max_length=63, examples=["anticipatory"])]
ReplanEvery = Annotated[
    float | None, Field(ge=1.0, le=7 * 86_400.0, description="seconds between replans; null: only when asked")
]
Quota = Annotated[int, Field(strict=True, ge=0, le=MAX_GPUS, description="GPUs that are the pool's own")]


def _without_defaults(schema: dict[str, Any]) -> None:
    """What is left out of a change stays, so no value stands for it."""
    for one in schema["properties"].values():
        one.pop("default", None)


class Enforcer(StrEnum):
    """Who carries plans out: the scheduler that asks, or our executors on the nodes."""

    SCHEDULER = "scheduler"
    EXECUTORS = "executors"


class ClusterMode(StrEnum):
    """How far a decision goes: only into reports, past a reviewer, or out at once."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ENFORCE = "enforce"


class PlanApproval(StrEnum):
    """Whether a plan has to be approved before it goes out."""

    AUTOMATIC = "automatic"
    REQUIRED = "required"


PlanValid = Annotated[
    float,
    Field(ge=1.0, le=7 * 86_400.0, description="seconds after which a plan is not carried out any more"),
]


class ClusterIn(Received):
    """A cluster to be made."""

    name: Annotated[ClusterName, Field(examples=["research"])]
    enforced_by: Enforcer
    policy: PolicyName = "anticipatory"
    settings: Settings = Field(default_factory=dict)
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31, description="of everything that is drawn")] = 0
    clock_origin: Annotated[
        Instant | None,
        Field(description="second 0 of the cluster's clock; the Monday before now where null"),
    ] = None
    replan_every_s: ReplanEvery = None
    mode: ClusterMode = ClusterMode.ENFORCE
    approval: PlanApproval = PlanApproval.AUTOMATIC
    plan_valid_s: PlanValid = 3600.0


class ClusterChange(Received):
    """What to change of a cluster; what is left out stays."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    is_lending: Annotated[bool, Field(strict=True, description="false: the kill switch, no more lending")] = (
        True
    )
    mode: ClusterMode = ClusterMode.ENFORCE
    approval: PlanApproval = PlanApproval.AUTOMATIC
    plan_valid_s: PlanValid = 3600.0
    policy: PolicyName = "anticipatory"
    settings: Settings = Field(default_factory=dict)
    replan_every_s: ReplanEvery = None


class ClusterOut(Sent):
    """A cluster. `seq` is the number of the last entry of its log."""

    name: str = Field(examples=["research"])
    enforced_by: Enforcer
    policy: str = Field(examples=["anticipatory"])
    settings: dict[str, str]
    seed: int
    clock_origin: datetime
    replan_every_s: float | None
    is_lending: bool
    mode: ClusterMode
    approval: PlanApproval
    plan_valid_s: float
    seq: int
    epoch: int
    version: int = Field(description="what If-Match has to name, in quotes")
    created_at: datetime


class ClustersOut(Sent):
    """A page of clusters."""

    items: list[ClusterOut]
    next: str | None = Field(description="give it as `after` for the next page; null on the last")


class PoolIn(Received):
    """A pool."""

    name: Annotated[Name, Field(examples=["vision"])]
    quota_gpus: Quota
    is_requeueable: Annotated[
        bool, Field(strict=True, description="whether its jobs may be sent back, where they do not say")
    ] = False


class NodeIn(Received):
    """A node."""

    name: Annotated[Name, Field(examples=["node-01"])]
    num_gpus: Annotated[int, Field(strict=True, ge=1, le=MAX_GPUS_OF_A_NODE)]
    gpu_type: Annotated[str, Field(min_length=1, max_length=63)] = "any"
    pool: Annotated[Name | None, Field(description="the pool that owns it; null where none does")] = None


class InventoryIn(Received):
    """All pools and nodes of a cluster. Without nodes it has as many GPUs as the quotas say."""

    pools: Annotated[list[PoolIn], Field(min_length=1, max_length=MAX_POOLS)]
    nodes: Annotated[list[NodeIn], Field(max_length=MAX_NODES)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _is_no_larger_than_a_cluster(self) -> Self:
        if sum(pool.quota_gpus for pool in self.pools) > MAX_GPUS:
            raise ValueError(f"quotas add up to more than {MAX_GPUS} GPUs")
        return self


class PoolOut(Sent):
    """A pool."""

    name: str
    quota_gpus: int
    is_requeueable: bool


class NodeOut(Sent):
    """A node."""

    name: str
    num_gpus: int
    gpu_type: str
    pool: str | None
    gpu_uuids: list[str] = Field(description="as its executor reports them; empty until then")
    is_lost: bool


class InventoryOut(Sent):
    """A cluster's pools and nodes."""

    version: int = Field(description="what If-Match has to name, in quotes")
    capacity_gpus: int
    pools: list[PoolOut]
    nodes: list[NodeOut]
