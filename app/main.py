"""The service. Construction is inert; `antecast serve` runs it."""

from importlib.metadata import version

from fastapi import FastAPI
from pydantic import BaseModel


class Health(BaseModel):
    """That the service answers, and which version it is."""

    status: str
    version: str


def create_app() -> FastAPI:
    """Make the application."""
    app = FastAPI(
        title="Antecast", version=version("antecast"), summary="Lend idle GPUs between pools safely."
    )

    @app.get("/healthz", summary="Whether the service answers")
    def healthz() -> Health:
        return Health(status="ok", version=app.version)

    return app
