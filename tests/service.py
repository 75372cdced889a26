"""The service in this process, on a database of the test's own, through its whole ASGI stack."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from databases import Database

from app.main import create_app
from app.services import keys
from app.settings import ServiceSettings

with warnings.catch_warnings():  # it would rather have httpx's successor
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

structlog.configure(  # without settings it draws tracebacks with all variables, for seconds
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ],
    # not to what a test captures as the output of a command
    logger_factory=structlog.PrintLoggerFactory(sys.__stderr__),
)

LOCAL = ("127.0.0.1", 50_000)
NOON = datetime(2026, 1, 7, 12, tzinfo=UTC)  # a Wednesday


@dataclass
class HandClock:
    """A clock that a test moves."""

    at: datetime = NOON

    def now(self) -> datetime:
        return self.at

    def wait(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Service:
    """A running service."""

    client: TestClient
    database: Database
    clock: HandClock

    def key(self, *scopes: str) -> dict[str, str]:
        """Headers of a new key."""
        secret = keys.create(self.database.engine, "a test", scopes, self.clock)
        return {"Authorization": f"Bearer {secret}"}

    def cluster(self, name: str = "c", **more: Any) -> dict[str, Any]:
        """Make a cluster."""
        body = {"name": name, "enforced_by": "scheduler", "policy": "fcfs"} | more
        made = self.client.post("/v1/clusters", json=body)
        assert made.status_code == 201, made.text
        found: dict[str, Any] = made.json()
        return found

    def inventory(
        self, quotas: dict[str, int], nodes: Sequence[dict[str, Any]] = (), name: str = "c"
    ) -> dict[str, Any]:
        """Say what a cluster consists of, whatever it was before."""
        body = {
            "pools": [{"name": pool, "quota_gpus": quota} for pool, quota in quotas.items()],
            "nodes": list(nodes),
        }
        put = self.client.put(f"/v1/clusters/{name}/inventory", json=body, headers={"If-Match": "*"})
        assert put.status_code == 200, put.text
        found: dict[str, Any] = put.json()
        return found


Opener = Callable[..., Service]


@pytest.fixture
def open_service(database: Database) -> Iterator[Opener]:
    """Starts the service with other settings."""
    with ExitStack() as stack:

        def opened(*, client: tuple[str, int] = LOCAL, **settings: Any) -> Service:
            clock = HandClock()
            made = ServiceSettings(**({"auth": "off", "database_url": database.url} | settings))
            app = create_app(made, clock=clock)
            asking = stack.enter_context(
                TestClient(app, base_url="http://127.0.0.1", client=client, raise_server_exceptions=False)
            )
            database.watch(app.state.engine)
            return Service(asking, database, clock)

        yield opened


@pytest.fixture
def service(open_service: Opener) -> Service:
    """The service without keys."""
    return open_service()


def assert_problem(response: Any, status: int, slug: str) -> dict[str, Any]:
    """The answer is a whole problem of this kind."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["type"] == f"/problems/{slug}"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    return body
