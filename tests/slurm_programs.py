"""Slurm's programs as tests need them: scripts that answer from a file and write down their calls."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from app.services.slurm_pull import Listeners, Machine, Wanted, pull
from data.intake.report import FileReport
from data.records import AttemptRecord
from data.shelf.store import HistoryStore

ZURICH = ZoneInfo("Europe/Zurich")
HOUR_S = 3600
DAY_S = 24 * HOUR_S
MIDNIGHT_S = 1_714_514_400
"""2024-05-01 in Zurich."""

_SACCT = r"""
import json, os, sys, time
from pathlib import Path
here = Path(__file__).parent
site = json.loads((here / "site.json").read_text())
asked = dict(one.lstrip("-").split("=", 1) for one in sys.argv[1:] if "=" in one)
with (here / "calls").open("a") as file:
    names = ("TZ", "LC_ALL", "SLURM_TIME_FORMAT", "SACCT_FEDERATION")
    env = {name: os.environ.get(name) for name in names}
    file.write(json.dumps({"args": sys.argv[1:], "env": env}) + "\n")
num_calls = len((here / "calls").read_text().splitlines())
def stop(text, code=1):
    sys.stderr.write(text + "\n")
    sys.exit(code)
if site.get("disabled"):
    stop("Slurm accounting storage is disabled")
if num_calls == site.get("kills_at"):
    os.kill(os.getppid(), 9)
if num_calls <= site.get("busy", 0):
    stop("sacct: error: slurm_persist_conn_open: Connection refused")
fields = asked["format"].split(",")
for name in site.get("unknown", []):
    if name in fields:
        stop(f'Invalid field requested: "{name}"')
def instant(word):
    return site["now"] if word == "now" else time.mktime(time.strptime(word, "%Y-%m-%dT%H:%M:%S"))
first, last = instant(asked["starttime"]), instant(asked["endtime"])
if last - first > site.get("widest", 1e12):
    stop("sacct: error: slurmdb_jobs_get: Too wide of a date range in query", site.get("wide_code", 1))
print(asked["delimiter"].join(fields))
states = asked["state"].split(",")
for job in site["jobs"]:
    ends = job["End"] == "Unknown" or first <= int(job["End"]) <= last
    if job["State"].split()[0] in states and ends:
        print(asked["delimiter"].join(job.get(name, "") for name in fields))
"""

_SQUEUE = r"""
import json, sys
from pathlib import Path
here = Path(__file__).parent
site = json.loads((here / "site.json").read_text())
with (here / "queue_calls").open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\n")
if "--json" in sys.argv:
    if "queue_json" not in site:
        sys.stderr.write("squeue: unrecognized option '--json'\n")
        sys.exit(1)
    print(json.dumps(site["queue_json"]))
else:
    print(site["queue_text"], end="")
"""


def job(number: int, end_s: float | None, state: str = "COMPLETED", **more: str) -> dict[str, str]:
    """A job of an hour with a GPU; without an end one that runs."""
    start_s = MIDNIGHT_S - HOUR_S if end_s is None else int(end_s) - HOUR_S
    return {
        "JobIDRaw": str(number),
        "JobID": str(number),
        "Cluster": "alpha",
        "User": "ana",
        "Partition": "gpu",
        "State": state if end_s is not None else "RUNNING",
        "Submit": str(start_s - 60),
        "Eligible": str(start_s - 60),
        "Start": str(start_s),
        "End": "Unknown" if end_s is None else str(int(end_s)),
        "ElapsedRaw": "3600",
        "TimelimitRaw": "120",
        "NNodes": "1",
        "NodeList": "n1",
        "ReqTRES": "cpu=4,gres/gpu=1",
        "AllocTRES": "cpu=4,gres/gpu=1",
        "JobName": f"job | {number}",
    } | more


@dataclass
class Site:
    """A cluster of which a history is pulled.

    Attributes:
        site: what its programs answer from.
        now_s: the instant; pauses move it.
        said, reports: what pulls have told.
    """

    folder: Path
    site: dict[str, Any] = field(default_factory=dict)
    now_s: float = MIDNIGHT_S + 12.0 * HOUR_S
    said: list[str] = field(default_factory=list)
    reports: list[FileReport] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, text in (("sacct", _SACCT), ("squeue", _SQUEUE)):
            path = self.folder / name
            path.write_text(f"#!{sys.executable} -S\n{text}")
            path.chmod(0o755)

    @property
    def history(self) -> Path:
        return self.folder / "history"

    def answers(self, *jobs: dict[str, str], **more: Any) -> None:
        self.site = {"jobs": jobs, "now": self.now_s, **more}
        (self.folder / "site.json").write_text(json.dumps(self.site))

    def pull(self, since_s: float | None = None, **more: Any) -> list[FileReport]:
        wanted = Wanted(
            "c",
            ZURICH,
            self.history,
            since_s,
            sacct=str(self.folder / "sacct"),
            squeue=str(self.folder / "squeue"),
            **more,
        )
        machine = Machine(lambda: self.now_s, self.pauses.append)
        return pull(wanted, Listeners(self.reports.append, self.said.append), machine)

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def queue_calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "queue_calls").read_text().splitlines()]

    def windows(self) -> list[tuple[str, str]]:
        """Windows of ends that were asked for, in order."""
        found = []
        for call in self.calls:
            start, end = (
                next(one.partition("=")[2] for one in call["args"] if one.startswith(name))
                for name in ("--starttime", "--endtime")
            )
            if start != "now":
                found.append((start, end))
        return found

    def records(self) -> list[AttemptRecord]:
        return HistoryStore(self.history).records("c")

    def ids(self) -> list[str]:
        return sorted(record.raw_id for record in self.records())
