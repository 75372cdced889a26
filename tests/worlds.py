"""Live clusters of a test: made on a fresh SQLite file, and all of them checked and closed after it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from walks import LiveCluster, check_decisions, check_tables

Make = Callable[..., Any]


@contextmanager
def checked_worlds(template: Path, folder: Path) -> Iterator[Make]:
    """Gives `make(kind, policy, settings)`; afterwards a desk that knows only the log decides the same."""
    path = folder / "antecast.db"
    path.write_bytes(template.read_bytes())
    worlds: list[LiveCluster] = []

    def make(
        kind: Callable[..., LiveCluster], policy: str, settings: dict[str, str] | None = None
    ) -> LiveCluster:
        worlds.append(kind(path, policy, settings or {}))
        return worlds[-1]

    yield make
    for world in worlds:
        check_tables(world)
        check_decisions(world)
        world.close()
