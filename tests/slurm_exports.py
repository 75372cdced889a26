"""Exports of Slurm's accounting written for tests, and what an import makes of them."""

import json
from contextlib import suppress
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from data.formats import FORMATS
from data.intake.driver import import_file
from data.intake.format import Reading, ReadOptions
from data.intake.source import BrokenFileError
from data.records import AttemptRecord

JOB = {
    "JobIDRaw": "77",
    "JobID": "77",
    "Cluster": "alpha",
    "User": "ana",
    "Account": "physics",
    "Partition": "gpu",
    "QOS": "normal",
    "State": "COMPLETED",
    "Submit": "2024-05-01T10:00:00",
    "Eligible": "2024-05-01T10:00:00",
    "Start": "2024-05-01T10:05:00",
    "End": "2024-05-01T11:05:00",
    "ElapsedRaw": "3600",
    "Suspended": "00:00:00",
    "TimelimitRaw": "120",
    "NNodes": "1",
    "NodeList": "n1",
    "ReqCPUS": "4",
    "ReqMem": "16G",
    "ReqTRES": "billing=4,cpu=4,gres/gpu=1,mem=16G,node=1",
    "AllocTRES": "billing=4,cpu=4,gres/gpu:a100=1,gres/gpu=1,mem=16G,node=1",
    "Reason": "None",
    "JobName": "train",
}
"""An ordinary line of sacct."""

PENDING = JOB | {
    "State": "PENDING",
    "Start": "Unknown",
    "End": "Unknown",
    "ElapsedRaw": "0",
    "NodeList": "None assigned",
    "AllocTRES": "",
    "Reason": "Priority",
}

JSON_JOB = {
    "job_id": 77,
    "account": "physics",
    "allocation_nodes": 1,
    "array": {
        "job_id": 0,
        "limits": {"max": {"running": {"tasks": 0}}},
        "task_id": {"set": False, "infinite": False, "number": 0},
        "task": "",
    },
    "association": {"account": "physics", "cluster": "alpha", "partition": "", "user": "ana"},
    "cluster": "alpha",
    "het": {"job_id": 0, "job_offset": {"set": False, "infinite": False, "number": 0}},
    "kill_request_user": "",
    "name": "train",
    "nodes": "n1",
    "partition": "gpu",
    "qos": "normal",
    "required": {
        "CPUs": 4,
        "memory_per_cpu": {"set": False, "infinite": False, "number": 0},
        "memory_per_node": {"set": True, "infinite": False, "number": 16384},
    },
    "restart_cnt": 0,
    "flags": ["STARTED_ON_BACKFILL"],
    "state": {"current": ["COMPLETED"], "reason": "None"},
    "steps": [],
    "time": {
        "elapsed": 3600,
        "eligible": 1714550400,
        "end": 1714554300,
        "limit": {"set": True, "infinite": False, "number": 120},
        "start": 1714550700,
        "submission": 1714550400,
        "suspended": 0,
    },
    "tres": {
        "allocated": [
            {"type": "cpu", "name": "", "id": 1, "count": 4},
            {"type": "mem", "name": "", "id": 2, "count": 16384},
            {"type": "energy", "name": "", "id": 3, "count": 18446744073709551614},
            {"type": "node", "name": "", "id": 4, "count": 1},
            {"type": "gres", "name": "gpu", "id": 1001, "count": 1},
            {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 1},
        ],
        "requested": [
            {"type": "cpu", "name": "", "id": 1, "count": 4},
            {"type": "mem", "name": "", "id": 2, "count": 16384},
            {"type": "node", "name": "", "id": 4, "count": 1},
            {"type": "gres", "name": "gpu", "id": 1001, "count": 1},
        ],
    },
    "user": "ana",
}
"""An ordinary job of `sacct --json`, data parser v0.0.40; the same one as `JOB`, in Europe/Zurich."""

ZURICH = ZoneInfo("Europe/Zurich")


def sacct(*jobs: dict[str, str], delimiter: str = "|", closed: bool = False) -> str:
    """What sacct prints of jobs: the columns of the first, with a delimiter at the end (`-p`) if `closed`."""
    end = delimiter if closed else ""
    lines = [jobs[0], *(job.values() for job in jobs)]
    return "".join(delimiter.join(line) + end + "\n" for line in lines)


def slurmdbd(*jobs: dict, version: str = "v0.0.40") -> str:
    """A document of slurmdbd's jobs."""
    meta = {"plugin": {"type": "openapi/slurmdbd", "data_parser": f"data_parser/{version}"}}
    return json.dumps({"jobs": jobs, "meta": meta, "errors": [], "warnings": []})


class Found:
    """What an import of one file makes of it.

    Attributes:
        report: its report.
        records: its records, in the order of the file; none where there is a fault.
    """

    def __init__(self, folder: Path, content: str | bytes, form: str = "auto", **options: object) -> None:
        path = folder / "export"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        asked = ReadOptions(**{"tz": ZURICH, **options})
        self.report = import_file(path, form, asked, None)
        self.records: list[AttemptRecord] = []
        if self.report.fault is None:
            with suppress(BrokenFileError):
                for row in FORMATS[self.report.format].rows(Reading(path, asked)):
                    self.records += row.records

    @property
    def only(self) -> AttemptRecord:
        """The one record of the file."""
        (record,) = self.records
        return record

    @property
    def rules(self) -> dict[str, int]:
        """How many notes each rule has."""
        return dict(self.report.rules)


def case(trap: str, *values: object, note: str = "") -> object:
    """A parametrised case of a trap, by its id."""
    return pytest.param(*values, id=f"{trap}-{note}" if note else trap)
