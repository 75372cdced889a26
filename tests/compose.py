"""The Compose file and the Dockerfiles as data."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from support import REPOSITORY

COMPOSE_FILE = REPOSITORY / "docker-compose.yml"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def read(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The Compose file; variables as in this environment, else their defaults."""
    given = environment or {}

    def value(found: re.Match[str]) -> str:
        default = found[2]
        assert default is not None or found[1] in given, f"{found[1]} has no default"
        return given.get(found[1], default)

    document: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(value, COMPOSE_FILE.read_text()))
    return document


@dataclass
class Image:
    """What a Dockerfile says, its last stage above all.

    Attributes:
        bases: what its stages begin with.
        stages: instructions of each stage, (name, rest of the line).
    """

    bases: list[str] = field(default_factory=list)
    stages: list[list[tuple[str, str]]] = field(default_factory=list)

    def last(self, name: str) -> str:
        """The instruction in force of this name."""
        return [rest for found, rest in self.stages[-1] if found == name][-1]

    def words(self, name: str) -> list[str]:
        """Its words, where it is in JSON form."""
        words: list[str] = json.loads(self.last(name))
        return words

    def healthcheck(self) -> list[str]:
        """The command that asks for its health."""
        words: list[str] = json.loads(self.last("HEALTHCHECK").partition("CMD ")[2])
        return words

    def sources(self) -> Iterator[str]:
        """Paths of the build context that are copied."""
        for stage in self.stages:
            for name, rest in stage:
                if name == "COPY" and not rest.startswith("--from"):
                    yield from rest.split()[:-1]


def image(name: str) -> Image:
    """Read a Dockerfile."""
    text = re.sub(r"(?m)^\s*#.*\n", "", (REPOSITORY / name).read_text())
    made = Image()
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction == "FROM":
            made.bases.append(rest.split()[0])
            made.stages.append([])
        elif instruction:
            made.stages[-1].append((instruction, rest.strip()))
    return made


def image_of(service: Mapping[str, Any]) -> Image | None:
    """The Dockerfile of a service; None where it uses somebody else's image."""
    build = service.get("build")
    if build is None:
        return None
    return image("Dockerfile" if isinstance(build, str) else build["dockerfile"])
