"""Why jobs of a service's cluster wait, as `simulator.waiting` says it of a replay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from app.remote import Remote, RemoteError, read_key
from app.services.forecast_documents import seconds_between
from domain.jobs import Job
from simulator.waiting import Explained
from solver.explain.words import Change, Lever, Waiting, Why

_PAGE: Final = 1_000


def of_service(url: str, key_file: Path | None, cluster: str) -> Explained:
    """Ask a service about the latest decision of a cluster; seconds are those of the cluster's clock.

    Raises:
        RemoteError: if it refuses, cannot be reached, or decides anew while the pages are read.
    """
    with Remote(url, read_key(key_file)) as service:
        origin = service.get(f"/v1/clusters/{cluster}")["clock_origin"]
        path = f"/v1/clusters/{cluster}/explanations"
        page = first = service.get(f"{path}?limit={_PAGE}")
        rows = list(page["items"])
        while page["next_after"] is not None and page["seq"] == first["seq"]:
            page = service.get(f"{path}?limit={_PAGE}&after={quote(page['next_after'], safe='')}")
            rows += page["items"]
    if page["seq"] != first["seq"]:
        raise RemoteError("the cluster has decided anew while its answer was read: ask again")
    return Explained(
        at_s=seconds_between(origin, first["at"]),
        policy=first["policy"],
        settings=first["settings"],
        saw_truth=False,
        idle_gpus=first["idle_gpus"],
        running=first["running"],
        waiting=tuple(_waiting(row, origin) for row in rows),
    )


def _waiting(row: Mapping[str, Any], origin: str) -> Waiting:
    submit_s = seconds_between(origin, row["submit"])
    changes = [Change(Lever(one["lever"]), one["value"], one["text"]) for one in row["changes"]]
    return Waiting(
        Job(row["job_id"], row["pool"], submit_s, row["num_gpus"]),
        Why(row["why"]),
        row["text"],
        row["evidence"],
        tuple(changes),
        _seconds(row["earliest"], origin),
        _seconds(row["latest"], origin),
    )


def _seconds(instant: str | None, origin: str) -> float | None:
    return None if instant is None else seconds_between(origin, instant)
