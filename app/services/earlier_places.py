"""What an earlier `antecast place` has decided, from the file that it wrote."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from data.gpu_lists import GpuListError, parse_gpus
from data.readers.csv_table import MAX_FILE_BYTES
from data.rules import Rule, shown
from domain.cluster import Gpu, Node
from domain.errors import Fault, InputError
from solver.placement.again import Earlier, HoldKey, Pieces

PLACING_JSON = "placing.json"
"""File that holds a whole answer, in the folder that the command writes."""


@dataclass(frozen=True)
class EarlierFile:
    """An earlier plan, as far as its GPUs are still there.

    Attributes:
        plan: what it decided.
        notes: what of it is gone, one sentence each.
    """

    plan: Earlier
    notes: tuple[str, ...]


class _Start(BaseModel):
    job_id: str
    gpus: list[str] = Field(min_length=1)


class _Held(BaseModel):
    pool: str
    num_gpus: int
    widest_gpus: int
    gpu_type: str | None = None
    pieces: list[list[str]]


class _Placing(BaseModel):
    starts: list[_Start]
    steps: list[list[_Start]]
    held: list[_Held]


def read_earlier(path: Path, nodes: Iterable[Node]) -> EarlierFile:
    """An earlier plan.

    Args:
        path: what `antecast place` wrote as JSON, or the folder that it wrote.
        nodes: the nodes that there are now.

    Raises:
        InputError: if the file cannot be read or holds no such plan.
    """
    file = path / PLACING_JSON if path.is_dir() else path
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise InputError(
                [Fault(str(file), None, Rule.TOO_LARGE, f"at most {MAX_FILE_BYTES} bytes are read")]
            )
        told = _Placing.model_validate_json(file.read_bytes())
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
        raise InputError([Fault(str(file), None, Rule.UNREADABLE_FILE, message)]) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        message = f"no plan of `antecast place`: {shown(place)}: {shown(first['msg'])}"
        raise InputError([Fault(str(file), None, Rule.NOT_A_PLAN, message)]) from error
    return _on(nodes, told)


def _on(nodes: Iterable[Node], told: _Placing) -> EarlierFile:
    there = {node.name: node for node in nodes}
    gone: list[str] = []

    def gpus_of(who: str, names: Sequence[str]) -> tuple[Gpu, ...]:
        try:
            return parse_gpus(";".join(names), there)
        except GpuListError:
            gone.append(who)
            return ()

    starts = {one.job_id: gpus_of(f"gang {one.job_id}", one.gpus) for one in told.starts}
    moves = {one.job_id: gpus_of(f"gang {one.job_id}", one.gpus) for step in told.steps for one in step}
    held: list[tuple[HoldKey, Pieces]] = []
    for one in told.held:
        pieces = tuple(gpus_of(f"pool {one.pool}", piece) for piece in one.pieces)
        key = (one.pool, one.num_gpus, one.widest_gpus, one.gpu_type)
        held.append((key, pieces if all(pieces) else ()))
    names = list(dict.fromkeys(gone))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    listed = ", ".join(map(shown, names[:5])) + more
    notes = (f"the earlier plan names GPUs that are gone: {listed}",) if names else ()
    return EarlierFile(
        Earlier(
            {name: gpus for name, gpus in starts.items() if gpus},
            {name: gpus for name, gpus in moves.items() if gpus},
            held,
        ),
        notes,
    )
