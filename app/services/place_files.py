"""A placing as a document and as files."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.services.earlier_places import PLACING_JSON
from app.services.place_gangs import Answer
from data.gpu_lists import gpus_text
from domain.cluster import Gpu
from domain.errors import SettingError

WAITING_HEADER = (
    "job_id",
    "pool",
    "submit_s",
    "num_gpus",
    "gpu_type",
    "guest",
    "value",
    "gpus",
    "why",
    "text",
)
MOVES_HEADER = ("step", "job_id", "pool", "num_gpus", "from_gpus", "gpus")
HELD_HEADER = ("pool", "num_gpus", "widest_gpus", "gpu_type", "held_gpus", "gpus")


def document(found: Answer, about: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about a placing; `about` is what it was asked with."""
    placing, task = found.placing, found.task
    at = {one.job_id: one.gpus for one in placing.placements}
    more = found.more_moves
    return {
        **about,
        "solve": {
            "status": placing.status,
            "objective_gpus": placing.objective,
            "bound_gpus": placing.bound,
            "gap": placing.gap,
            "fallback": placing.fallback,
            "groups": placing.groups,
            "work_s": placing.deterministic_s,
        },
        "gain": asdict(found.gain),
        "starts": [
            {
                "job_id": want.job.job_id,
                "pool": want.job.pool,
                "guest": not want.is_own,
                "num_gpus": want.job.num_gpus,
                "gpus": _names(at[want.job.job_id]),
            }
            for want in task.wants
            if want.job.job_id in at
        ],
        "steps": [
            [
                {"job_id": move.job_id, "from_gpus": _names(move.old), "gpus": _names(move.new)}
                for move in step
            ]
            for step in placing.steps
        ],
        "held": [
            {
                "pool": held.hold.pool,
                "num_gpus": held.hold.num_gpus,
                "widest_gpus": held.widest_gpus,
                "gpu_type": held.gpu_type,
                "held_gpus": sum(map(len, pieces)),
                "pieces": [_names(piece) for piece in pieces],
            }
            for held, pieces in zip(task.holds, placing.held, strict=True)
        ],
        "left_out": [
            {"job_id": job_id, "why": reason.why.value, "text": reason.text}
            for job_id, reason in found.reasons.items()
        ],
        "more_moves": None if more is None else {"moves": more.moves, "job_ids": list(more.job_ids)},
        "not_considered": list(found.not_considered),
    }


def write_answer(folder: Path, found: Answer, told: Mapping[str, Any]) -> list[Path]:
    """Write placing.json, waiting.csv, moves.csv and held.csv; the paths, in this order.

    waiting.csv is the file of gangs that wait, with what they were given: it can be read as such again.

    Raises:
        SettingError: if they cannot be written.
    """
    paths = [folder / name for name in (PLACING_JSON, "waiting.csv", "moves.csv", "held.csv")]
    write_json(paths[0], told)
    tables = ((WAITING_HEADER, _waiting(found)), (MOVES_HEADER, _moves(found)), (HELD_HEADER, _held(found)))
    for path, (header, rows) in zip(paths[1:], tables, strict=True):
        write_csv(path, header, rows)
    return paths


def write_json(path: Path, told: Mapping[str, Any]) -> None:
    """Write a document; folders on the way are made.

    Raises:
        SettingError: if it cannot be written.
    """
    text = json.dumps(told, indent=1, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror}") from error


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table; folders on the way are made.

    Raises:
        SettingError: if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror}") from error


def _waiting(found: Answer) -> Iterable[Sequence[Any]]:
    at = {one.job_id: one.gpus for one in found.placing.placements}
    for want in found.task.wants:
        job, reason = want.job, found.reasons.get(want.job.job_id)
        yield (
            job.job_id,
            job.pool,
            f"{job.submit_s:g}" if job.submit_s.is_integer() else repr(job.submit_s),
            job.num_gpus,
            job.gpu_type or "",
            int(not want.is_own),
            want.value or "",
            gpus_text(at.get(job.job_id, ())),
            "" if reason is None else reason.why.value,
            "" if reason is None else reason.text,
        )


def _moves(found: Answer) -> Iterable[Sequence[Any]]:
    pool = {one.job.job_id: one.job.pool for one in found.task.movable}
    for number, step in enumerate(found.placing.steps, start=1):
        for move in step:
            gpus = gpus_text(move.old), gpus_text(move.new)
            yield (number, move.job_id, pool[move.job_id], len(move.new), *gpus)


def _held(found: Answer) -> Iterable[Sequence[Any]]:
    for held, pieces in zip(found.task.holds, found.placing.held, strict=True):
        gpus = [gpu for piece in pieces for gpu in piece]
        yield (
            held.hold.pool,
            held.hold.num_gpus,
            held.widest_gpus,
            held.gpu_type or "",
            len(gpus),
            gpus_text(gpus),
        )


def _names(gpus: Iterable[Gpu]) -> list[str]:
    return [f"{gpu.node}/{gpu.index}" for gpu in gpus]
