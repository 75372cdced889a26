"""A first cluster with its nodes, so that a fresh deployment has something to work on.

`python set_up_cluster.py CLUSTER.json FOLDER` makes the cluster over the API, unless it is there, and
leaves a join token in FOLDER for each node that has no executor yet. Again and again is fine: what an
operator has changed since stays as it is.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from app.services import keys
from app.settings import ServiceSettings
from app.store.engine import make_engine

URL: Final = os.environ.get("ANTECAST_URL", "http://127.0.0.1:8000")
NOT_FOUND: Final = 404
TOKEN_TTL_S: Final = 3600


def main(wanted: dict[str, Any], folder: Path) -> None:
    """Make what is missing."""
    with _admin() as client:
        path = f"/v1/clusters/{wanted['cluster']['name']}"
        if client.get(path).status_code == NOT_FOUND:
            made = _ok(client.post("/v1/clusters", json=wanted["cluster"]))
            headers = {"If-Match": f'"{made["version"]}"'}
            _ok(client.put(f"{path}/inventory", json=wanted["inventory"], headers=headers))
        nodes = {node["name"] for node in _ok(client.get(f"{path}/inventory"))["nodes"]}
        executors = _ok(client.get(f"{path}/executors", params={"limit": 1000}))["items"]
        enrolled = {one["node"] for one in executors if not one["is_revoked"]}
        for node in sorted(nodes - enrolled):
            body = {"node": node, "ttl_s": TOKEN_TTL_S}
            _write(folder / node, _ok(client.post(f"{path}/join-tokens", json=body))["token"])


@contextmanager
def _admin() -> Iterator[httpx.Client]:
    """A client with a key that is good for as long as this runs."""
    engine = make_engine(ServiceSettings().database_url)
    try:
        key = keys.create(engine, "set-up", ["admin"])
    finally:
        engine.dispose()
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=URL, headers=headers, timeout=30.0, trust_env=False) as client:
        try:
            yield client
        finally:
            client.delete(f"/v1/keys/{key.split('_')[1]}")


def _ok(answer: httpx.Response) -> Any:
    if not answer.is_success:
        raise SystemExit(f"{answer.request.method} {answer.request.url.path}: {answer.text[:2000]}")
    return answer.json()


def _write(path: Path, token: str) -> None:
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token)
    draft.rename(path)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
