"""What pulls remember of a cluster, beside the history's table of contents."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from data.rules import shown
from data.shelf.folder import refused, writing
from data.shelf.manifest import replace_file, sync_folder
from data.stamps import MAX_INSTANT_S

NAME: Final = "pulls.json"
VERSION: Final = 1


@dataclass
class Memory:
    """Of one cluster.

    Attributes:
        ended_until_s: jobs that ended before are in the history; None before the first pull.
        left_out: columns that its `sacct` does not have.
        is_disabled: whether it keeps no accounting.
    """

    ended_until_s: float | None = None
    left_out: tuple[str, ...] = ()
    is_disabled: bool = False


def remembered(folder: Path, cluster: str) -> Memory:
    """What is remembered of a cluster.

    Raises:
        InputError: if the file is broken or of another version.
    """
    found = _read(folder / NAME).get(cluster)
    if found is None:
        return Memory()
    try:
        return _checked(Memory(**found))
    except (TypeError, ValueError) as error:
        raise _broken(folder / NAME, error) from error


def _checked(made: Memory) -> Memory:
    until_s = made.ended_until_s
    if until_s is not None and not 0.0 <= until_s <= MAX_INSTANT_S:
        raise ValueError(f"{until_s} is no instant")
    return Memory(until_s, tuple(map(str, made.left_out)), bool(made.is_disabled))


def remember(folder: Path, cluster: str, memory: Memory) -> None:
    """Replace what is remembered of a cluster, in one step.

    Raises:
        InputError: if it cannot be written.
    """
    clusters = _read(folder / NAME) | {cluster: asdict(memory)}
    content = {"version": VERSION, "clusters": clusters}
    with writing(folder):
        replace_file(folder / NAME, json.dumps(content, indent=1, sort_keys=True).encode())
        sync_folder(folder)


def _read(path: Path) -> dict[str, Any]:
    try:
        return _clusters(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise _broken(path, error) from error


def _clusters(found: Any) -> dict[str, Any]:
    if found["version"] != VERSION:
        raise ValueError(f"version {found['version']!r}, this program reads {VERSION}")
    return dict(found["clusters"])


def _broken(path: Path, error: Exception) -> Exception:
    text = f"what pulls remember cannot be read: {shown(error)}; remove the file and pull again with --since"
    return refused(path, text)
