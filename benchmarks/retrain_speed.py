"""What a daily `antecast train` costs on a long record: seconds of each phase, and peak memory.

    python -m benchmarks.retrain_speed --out var/retrain-speed [--csv benchmarks/results/retrain_speed.csv]

Generates 90 days of about a million jobs of 82 pools (`data.synthetic.philly_like`, with users and names),
lets the models live through them as a cluster would, and stores them as of three days and of one day before
the end. What it has made it keeps, and goes on from there when it is started again. Then, each in a process
of its own: the phases of a retraining as of the last day, and the whole command, without a trial (the model
in use is a day old) and with one (it is three days old, and both are asked about the last two).
"""

import argparse
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.services.demand_learner import DemandLearner
from app.services.learners import LifetimeLearner
from app.services.records import Source, read_source, tail_hash
from data.history import content_hash
from data.splits import ended_before
from data.synthetic import philly_like, write_csv
from models.artifacts import Manifest, Span, read, write
from models.artifacts.folder import remove
from models.artifacts.registry import Decision, Registry
from models.backtest import Record, facts, record_of, tell

DAY_S = 86_400.0
DATA = "bench"
CREATED = "2026-01-01T00:00:00Z"
STEP_DAYS = 10
KINDS = ("lifetime", "demand")
AGES = (3, 1)
COLUMNS = ("what", "phase", "seconds", "peak_mb", "jobs", "days")


def learner_of(kind: str, quotas: dict[str, int]) -> Any:
    return LifetimeLearner("hazard", quotas) if kind == "lifetime" else DemandLearner("learned", quotas)


def workload(out: Path, days: int, pools: int) -> Source:
    folder = out / "workload"
    if not (folder / "pools.csv").exists():
        write_csv(philly_like(7, days=days, num_pools=pools), folder)
    return Source(folder / "jobs.csv", folder / "pools.csv")


def manifest_of(learner: Any, frame: Any, until_s: float) -> Manifest:
    known = ended_before(frame[frame["submit_s"] < until_s], until_s)
    span = Span(
        float(frame["submit_s"].iloc[0]), until_s, len(known), content_hash(known), tail_hash(frame, until_s)
    )
    return Manifest(
        kind=learner.kind,
        name=learner.name,
        created=CREATED,
        training=span,
        seed=learner.seed,
        features=learner.store.features,
        settings=learner.recipe,
    )


def build(source: Source, out: Path, kind: str, days: int) -> None:
    """Live through the record in steps that are kept, and store versions as of the ages asked for."""
    history, quotas = read_source(source)
    learner = learner_of(kind, quotas)
    record = record_of(history.frame, days * DAY_S)
    stops = [*range(STEP_DAYS, days - max(AGES), STEP_DAYS), *(days - age for age in AGES)]
    built = out / "built"
    built.mkdir(parents=True, exist_ok=True)
    done = [day for day in stops if (built / f"{kind}-{day}").exists()]
    model, begin = learner.make(record.jobs[0].submit_s), 0
    if done:
        begin = done[-1]
        model = learner.store.revive(read(built / f"{kind}-{begin}"))
    for day in (stop for stop in stops if stop > begin):
        begun_s = time.perf_counter()
        live(model, record, begin * DAY_S if begin else -1e18, day * DAY_S)
        told_s = time.perf_counter() - begun_s
        if day in stops[-len(AGES) :]:
            learner.store.retrain(model, day * DAY_S)
        manifest = manifest_of(learner, history.frame, day * DAY_S)
        write(built / f"{kind}-{day}", manifest, learner.store.to_parts(model))
        if done and done[-1] < days - max(AGES):
            remove(built / f"{kind}-{done[-1]}")
        done.append(day)
        begin = day
        print(f"{kind}: day {day}, told in {told_s:.0f} s", file=sys.stderr, flush=True)


def live(model: Any, record: Record, from_s: float, until_s: float) -> None:
    for fact in facts(record, from_s, until_s):
        tell(model, record, fact)


def stored(out: Path, days: int, age: int) -> Path:
    """A registry whose models in use are so many days old."""
    root = out / f"models-{age}"
    shutil.rmtree(root, ignore_errors=True)
    registry = Registry(root)
    for kind in KINDS:
        about, parts = read(out / "built" / f"{kind}-{days - age}")
        version = registry.add(DATA, about, parts)
        registry.decide(DATA, kind, Decision(version, None, CREATED, True, "to begin with"))
    return root


def measure(source: Source, out: Path, kind: str, days: int) -> dict[str, float]:
    """Seconds of each phase of a retraining as of the last day."""
    seconds: dict[str, float] = {}

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        begun_s = time.perf_counter()
        yield
        seconds[name] = time.perf_counter() - begun_s

    until_s, since_s = days * DAY_S, (days - 1) * DAY_S
    with phase("read the file"):
        history, quotas = read_source(source)
    with phase("cut the record"):
        record = record_of(history.frame, until_s)
    learner = learner_of(kind, quotas)
    with phase("load the state"):
        version = read(out / "built" / f"{kind}-{days - 1}")
        model, about = learner.store.revive(version), version.manifest
        del version
    with phase("check what it continues"):
        if about.training.tail_sha256 != tail_hash(history.frame, since_s):
            raise SystemExit(f"{out} was made of another record: delete it")
    with phase("tell one day"):
        live(model, record, since_s, until_s)
    with phase("train"):
        learner.store.retrain(model, until_s)
    with phase("describe"):
        manifest = manifest_of(learner, history.frame, until_s)
    with phase("store"):
        place = out / "measured"
        remove(place)
        write(place, manifest, learner.store.to_parts(model))
    seconds["size of the version, MB"] = sum(file.stat().st_size for file in place.iterdir()) / 2**20
    seconds["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return seconds


def command(source: Source, out: Path, days: int, age: int) -> tuple[float, float, list[dict[str, Any]]]:
    """Seconds and peak memory of the whole command, and what it says."""
    root = stored(out, days, age)
    argv = [sys.executable, "-m", "app", "train", "--jobs", str(source.jobs), "--pools", str(source.pools)]
    argv += ["--as-of", str(days * DAY_S), "--models", str(root), "--data", DATA, "--json"]
    begun_s = time.perf_counter()
    with (out / "said.json").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(argv, stdout=said)
        _, status, usage = os.wait4(process.pid, 0)  # of this child alone
        seconds = time.perf_counter() - begun_s
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit("the command failed")
        said.seek(0)
        models: list[dict[str, Any]] = json.load(said)["models"]
    return seconds, usage.ru_maxrss / 1024, models


def child(options: argparse.Namespace, *words: str) -> str:
    argv = [sys.executable, "-m", "benchmarks.retrain_speed", "--out", str(options.out)]
    argv += ["--days", str(options.days), "--pools", str(options.pools), *words]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def run(options: argparse.Namespace, source: Source) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def add(what: str, phase: str, seconds: float, peak_mb: float | str = "") -> None:
        rows.append(
            {
                "what": what,
                "phase": phase,
                "seconds": round(seconds, 1),
                "peak_mb": peak_mb,
                "days": options.days,
            }
        )

    for kind in KINDS:
        child(options, "--build", kind)
        measured = json.loads(child(options, "--measure", kind))
        peak_mb = round(measured.pop("peak_mb"))
        size_mb = measured.pop("size of the version, MB")
        for name, seconds in measured.items():
            add(kind, name, seconds)
        add(kind, "all phases", sum(measured.values()), peak_mb)
        print(f"{kind}: a version has {size_mb:.0f} MB", file=sys.stderr)
    for age in reversed(AGES):
        seconds, peak_mb, said = command(source, options.out, options.days, age)
        what = "both, the command" + ("" if age == 1 else f", with a trial of {age - 1} days")
        add(what, "all of it", seconds, round(peak_mb))
        for one in said:
            print(f"{one['kind']}: continued: {one['is_continued']}; {one['why']}", file=sys.stderr)
    with source.jobs.open(encoding="utf-8") as file:
        jobs = sum(1 for _ in file) - 1
    return [{**row, "jobs": jobs} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("var/retrain-speed"))
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--pools", type=int, default=82)
    parser.add_argument("--build", choices=KINDS)
    parser.add_argument("--measure", choices=KINDS)
    options = parser.parse_args()
    source = workload(options.out, options.days, options.pools)
    if options.build:
        build(source, options.out, options.build, options.days)
        return
    if options.measure:
        print(json.dumps(measure(source, options.out, options.measure, options.days)))
        return
    rows = run(options, source)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---|---|---:|---:|---:|---:|")
    for row in rows:
        print("| " + " | ".join(str(row[column]) for column in COLUMNS) + " |")
    if options.csv is not None:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
