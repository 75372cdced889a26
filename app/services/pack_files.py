"""Packings as a document and as files."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.services.pack_pods import Packed, PackInputs, figures
from app.services.place_files import write_csv, write_json

JOBS_HEADER = ("rule", "job_id", "node", "gpus", "start", "why", "text")


def document(inputs: PackInputs, packed: Sequence[Packed], about: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about some packings; `about` is what they were asked with."""
    return {
        **about,
        "rules": [
            {
                **figures(inputs, one),
                "jobs_placed": [
                    dict(zip(JOBS_HEADER[1:], row[1:], strict=True)) for row in job_rows(inputs, one)
                ],
            }
            for one in packed
        ],
    }


def job_rows(inputs: PackInputs, packed: Packed) -> Iterable[tuple[str, ...]]:
    """Where each request went, or why it found no place."""
    for place, (pod, spot) in enumerate(zip(inputs.pods, packed.spots, strict=True)):
        if spot is None:
            reason = packed.reasons[place]
            yield packed.rule, pod.name, "", "", "", reason.why.value, reason.text
        else:
            node = inputs.hosts[spot.node].name
            gpus = ";".join(f"{node}/{gpu}" for gpu in spot.gpus)
            yield packed.rule, pod.name, node, gpus, str(spot.start) if spot.start >= 0 else "", "", ""


def write_packings(
    folder: Path, inputs: PackInputs, packed: Sequence[Packed], told: Mapping[str, Any]
) -> list[Path]:
    """Write packing.json, jobs.csv and rules.csv; the paths, in this order.

    Raises:
        SettingError: if they cannot be written.
    """
    paths = [folder / name for name in ("packing.json", "jobs.csv", "rules.csv")]
    write_json(paths[0], told)
    write_csv(paths[1], JOBS_HEADER, (row for one in packed for row in job_rows(inputs, one)))
    rows = [{k: v for k, v in figures(inputs, one).items() if k != "left_out"} for one in packed]
    write_csv(paths[2], list(rows[0]), (list(row.values()) for row in rows))
    return paths
