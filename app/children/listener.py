"""Forecasters of a live cluster that are told what its log holds, and decide nothing.

They stand beside those of the desk that decides, which must not be asked at other instants than in a replay,
and follow the log without making its decisions again, so they are up to date at once.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine, Row

from app.children import material
from app.services.facts import FactKind, job_of
from app.services.foresight import LIVES, NOT_LIVE, Foresight
from app.store import live
from app.store.engine import reading
from app.store.tables import EpochRow, LiveState
from domain.jobs import Job
from domain.observers import Observer
from models import Training
from simulator.forecasting import choose, split_settings
from solver.policies import POLICIES


class Listener:
    """The forecasters of one epoch.

    Args:
        engine: the database.
        cluster: name.
        epoch: number.

    Raises:
        UnknownResource: if there is no such epoch.
        SettingError: if the policy's settings no longer hold.
    """

    def __init__(self, engine: Engine, cluster: str, epoch: int) -> None:
        self._engine, self._cluster = engine, cluster
        row, name, training = learned_from(engine, cluster, epoch)
        self.epoch = row
        self._seq, self._now_s = row.from_seq, row.at_s
        self._jobs: dict[str, Job] = {}
        self._started_s: dict[str, float] = {}
        unfinished = []
        for values in row.snapshot:
            job = self._jobs[str(values["job_id"])] = job_of(values)
            if values["state"] == LiveState.RUNNING:
                self._started_s[job.job_id] = min(values["started_s"], row.at_s)
            unfinished.append((job, row.at_s - self._started_s.get(job.job_id, row.at_s)))
        self.foresight = Foresight.trained(name, training, unfinished)
        told = (self.foresight.lives, self.foresight.demand)
        self._observers = [one for one in told if isinstance(one, Observer)]
        for job, _ in unfinished:
            for observer in self._observers[:-1]:  # demand knows them already
                observer.submitted(job, row.at_s)
                if job.job_id in self._started_s:
                    observer.started(job, self._started_s[job.job_id])

    def catch_up(self, until_seq: int) -> None:
        """Tell the forecasters what the log holds up to an entry."""
        while self._seq < until_seq:
            with reading(self._engine) as session:
                entries = live.told(session, self._cluster, self._seq, until_seq)
            if not entries:
                return
            for entry in entries:
                self._tell(entry)
                self._seq = entry.seq

    def lifetimes(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Forecasts of jobs, in their order; of an id that nobody has who waits or runs, why there is none.

        Args:
            request: `now_s`, `levels`, `within_s`, and `jobs`: each `job_id` of a live job, or `job` with the
                fields of one that is known by nothing else, and `elapsed_s` where the log is not to say it.
        """
        now_s = max(self._now_s, request["now_s"])
        rows: list[dict[str, Any]] = []
        asked: list[tuple[Job, float]] = []
        for place, one in enumerate(request["jobs"]):
            job = self._job(one, place, now_s)
            row = {"job_id": one.get("job_id"), "why_not": None, "pool": None if job is None else job.pool}
            if job is None:
                row["why_not"] = NOT_LIVE
            else:
                asked.append((job, self._age_s(one, job, now_s)))
            rows.append(row)
        items = self.foresight.rows(
            rows, asked, now_s, levels=request["levels"], within_s=request["within_s"]
        )
        return {"now_s": now_s, "items": items}

    def demand(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What pools ask for; the request has the arguments of `Foresight.steps`."""
        now_s = max(self._now_s, request["now_s"])
        names = ("pools", "horizon_s", "step_s", "levels")
        return {"now_s": now_s, **self.foresight.steps(now_s, **{name: request[name] for name in names})}

    def _job(self, one: Mapping[str, Any], place: int, now_s: float) -> Job | None:
        if one.get("job") is None:
            return self._jobs.get(one["job_id"])
        # the id is no user's: it may not be that of a live job, whose own forecast would be said
        return job_of({**one["job"], "job_id": f"\0{place}", "submit_s": now_s})

    def _age_s(self, one: Mapping[str, Any], job: Job, now_s: float) -> float:
        if one.get("elapsed_s") is not None:
            return float(one["elapsed_s"])
        return max(now_s - self._started_s.get(job.job_id, now_s), 0.0)

    def _tell(self, entry: Row[Any]) -> None:
        now_s = self._now_s = max(self._now_s, entry.at_s)
        kind, job_id = FactKind(entry.kind), str(entry.job_id)
        if kind == FactKind.SUBMITTED:
            job = self._jobs[job_id] = job_of({**entry.data, "job_id": job_id})
            for observer in self._observers:
                observer.submitted(job, now_s)
            return
        known = self._jobs.get(job_id)
        if known is not None:
            self._tell_of(known, kind, entry, now_s)

    def _tell_of(self, job: Job, kind: FactKind, entry: Row[Any], now_s: float) -> None:
        if kind in (FactKind.ENDED, FactKind.CANCELLED):
            del self._jobs[job.job_id]
        if kind == FactKind.STARTED:
            self._started_s[job.job_id] = now_s
        elif kind != FactKind.CONVERTED:
            self._started_s.pop(job.job_id, None)
        for observer in self._observers:
            match kind:
                case FactKind.STARTED:
                    observer.started(job, now_s)
                case FactKind.ENDED:
                    observer.ended(job, now_s, entry.data["duration_s"])
                case FactKind.CANCELLED:
                    observer.cancelled(job, now_s)
                case FactKind.SENT_BACK | FactKind.RESTARTED:
                    observer.sent_back(job, now_s)
                case _:
                    pass  # a conversion is no news to forecasters


def learned_from(engine: Engine, cluster: str, epoch: int) -> tuple[EpochRow, str, Training]:
    """An epoch, the name of its lifetime model, and what that learns from.

    Raises:
        UnknownResource: if there is no such epoch.
        SettingError: if the policy's settings no longer hold.
    """
    known = material.read(engine, cluster, epoch)
    row = known.epoch
    common, _ = split_settings(row.settings)
    choice = choose(row.policy, POLICIES[row.policy], common, may_see_truth=False)
    quotas = {str(pool): int(quota) for pool, quota in sorted(row.quotas)}
    return row, choice.lives or LIVES, material.training_of(known, quotas, None)


class Scores:
    """How an epoch's forecasts do on what they had not seen, worked out by a process beside."""

    def __init__(self, cluster: str, epoch: int) -> None:
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-m", "app.children.score_forecasts"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ,
        )
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps({"cluster": cluster, "epoch": epoch}).encode())
            self._process.stdin.close()
        self._found: dict[str, Any] | None = None
        atexit.register(self.close)

    def look(self) -> dict[str, Any]:
        """`state` (`pending`, `known` or `failed`) and `scores`, None while they are not known."""
        if self._process is not None and self._process.poll() is not None:
            out = self._process.stdout.read() if self._process.stdout is not None else b""
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._found = json.loads(out).get("answer", {}) if out else {}
            self._process = None
        if self._found is None:
            return {"state": "pending", "scores": None}
        return {"state": "known" if self._found else "failed", "scores": self._found or None}

    def close(self) -> None:
        """Nobody wants to know any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
