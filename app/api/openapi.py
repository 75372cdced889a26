"""The description of the API: FastAPI's, with what it cannot know."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.schemas.problems import Problem

_REF: Final = "#/components/schemas/{model}"
_IF_MATCH: Final = "if-match"


def described(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """What makes the application's OpenAPI, once.

    It has the schema of problems, which no route returns by itself. `If-Match` is required where it is taken;
    that its absence is answered in our own words (428) makes it optional in the eyes of FastAPI.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            schema = Problem.model_json_schema(ref_template=_REF)
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            schemas |= schema.pop("$defs", {}) | {"Problem": schema}
            for parameter in _parameters(made):
                if parameter["in"] == "header" and parameter["name"].lower() == _IF_MATCH:
                    parameter["required"] = True
            app.openapi_schema = made
        return app.openapi_schema

    return openapi


def _parameters(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        for operation in path.values():
            yield from operation.get("parameters", ())
