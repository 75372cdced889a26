"""Clusters and their inventories."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from app.api.auth import require
from app.api.deps import ClockDep, EngineDep, RunsDep
from app.api.etags import IfMatchDep, etag
from app.schemas.clusters import (
    ClusterChange,
    ClusterIn,
    ClusterOut,
    ClustersOut,
    InventoryIn,
    InventoryOut,
    NodeOut,
    PoolOut,
)
from app.services import clusters, replan
from app.services.clusters import Inventory, NewCluster
from app.store.tables import NodeRow, PoolRow

router = APIRouter(prefix="/v1/clusters", tags=["clusters"])

ClusterPath = Annotated[str, Path(max_length=63, description="the cluster's name", examples=["research"])]
READS = [Depends(require("read"))]
CHANGES = [Depends(require("admin"))]


@router.post("", status_code=HTTPStatus.CREATED, dependencies=CHANGES, summary="Make a cluster")
def create_cluster(body: ClusterIn, response: Response, engine: EngineDep, clock: ClockDep) -> ClusterOut:
    """It lends nothing until it has an inventory."""
    wanted = NewCluster(**dict(body))
    made = ClusterOut.model_validate(clusters.create(engine, wanted, clock).model_dump())
    response.headers["Location"] = f"/v1/clusters/{made.name}"
    response.headers["ETag"] = etag(made.version)
    return made


@router.get("", dependencies=READS, summary="Clusters by name")
def list_clusters(
    engine: EngineDep,
    after: Annotated[str, Query(max_length=63)] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ClustersOut:
    """A page at a time."""
    rows = clusters.page(engine, after, limit + 1)
    items = [ClusterOut.model_validate(row.model_dump()) for row in rows[:limit]]
    return ClustersOut(items=items, next=items[-1].name if len(rows) > limit else None)


@router.get("/{cluster}", dependencies=READS, summary="A cluster")
def get_cluster(cluster: ClusterPath, response: Response, engine: EngineDep) -> ClusterOut:
    """Its ETag is what a change has to name in If-Match."""
    row = clusters.get(engine, cluster)
    response.headers["ETag"] = etag(row.version)
    return ClusterOut.model_validate(row.model_dump())


@router.patch("/{cluster}", dependencies=CHANGES, summary="Change a cluster, or stop its lending")
def change_cluster(
    cluster: ClusterPath,
    body: ClusterChange,
    versions: IfMatchDep,
    response: Response,
    engine: EngineDep,
    clock: ClockDep,
    runs: RunsDep,
) -> ClusterOut:
    """What is left out stays; a policy that is set without settings gets its defaults."""
    changes = {name: getattr(body, name) for name in body.model_fields_set}
    row = clusters.change(engine, cluster, changes, versions, clock)
    replan.after_change(engine, runs, cluster)
    response.headers["ETag"] = etag(row.version)
    return ClusterOut.model_validate(row.model_dump())


@router.get("/{cluster}/inventory", dependencies=READS, summary="Pools and nodes")
def get_inventory(cluster: ClusterPath, response: Response, engine: EngineDep) -> InventoryOut:
    """Its ETag is the cluster's."""
    found = clusters.inventory(engine, cluster)
    response.headers["ETag"] = etag(found.version)
    return _inventory_out(found)


@router.put("/{cluster}/inventory", dependencies=CHANGES, summary="Say what the cluster consists of")
def put_inventory(
    cluster: ClusterPath,
    body: InventoryIn,
    versions: IfMatchDep,
    response: Response,
    engine: EngineDep,
    clock: ClockDep,
    runs: RunsDep,
) -> InventoryOut:
    """All of it at once. A quota that is cut drains; nothing is killed."""
    pools = [PoolRow(cluster=cluster, position=at, **dict(pool)) for at, pool in enumerate(body.pools)]
    nodes = [NodeRow(cluster=cluster, position=at, **dict(node)) for at, node in enumerate(body.nodes)]
    made = clusters.put_inventory(engine, cluster, pools, nodes, versions, clock)
    replan.after_change(engine, runs, cluster)
    response.headers["ETag"] = etag(made.version)
    return _inventory_out(made)


def _inventory_out(found: Inventory) -> InventoryOut:
    quotas = sum(pool.quota_gpus for pool in found.pools)
    return InventoryOut(
        version=found.version,
        capacity_gpus=sum(node.num_gpus for node in found.nodes) if found.nodes else quotas,
        pools=[PoolOut(**row.model_dump(exclude={"cluster", "position"})) for row in found.pools],
        nodes=[NodeOut(**row.model_dump(exclude={"cluster", "position"})) for row in found.nodes],
    )
