"""What a demonstration came to, as a table, a sentence and a picture of who ran where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from app.demo import scenario
from app.demo.loop import Shown

_COLOURS: Final = {"own": "#4c78a8", "guest": "#f58518", "rider": "#54a24b"}
_MEANING: Final = {
    "own": "on its pool's own GPUs",
    "guest": "early, on lent GPUs",
    "rider": "beside a consenting job",
}


@dataclass(frozen=True)
class Bar:
    """A stretch of one job on one GPU.

    Attributes:
        gpu: node and index.
        job_id: whose.
        start_s, end_s: real seconds after the first submit.
        kind: own, guest or rider.
        is_lost: whether it was sent back, so that its work was thrown away.
    """

    gpu: tuple[str, int]
    job_id: str
    start_s: float
    end_s: float
    kind: str
    is_lost: bool


def table(shown: Shown) -> Table:
    """The figures of the report."""
    report = shown.report
    made = Table(title="What sharing did", show_header=False)
    rows = (
        (
            "jobs",
            f"{report['jobs']}, all ended" if report["ended"] == report["jobs"] else f"{report['ended']}",
        ),
        ("started early", f"{report['started_early']}, together {_minutes(report['hours_earlier'])} earlier"),
        ("lent", f"{report['guests']} jobs on lent GPUs, {report['lent_gpu_hours'] * 60:.1f} GPU-minutes"),
        ("held", f"up to {report['held_gpus_most']} GPUs for their owner, by {report['holds']} decisions"),
        ("sent back", f"{report['sent_back']}, {report['repeated_gpu_hours'] * 60:.1f} GPU-minutes repeated"),
        ("squeezed", f"{report['squeezed']} jobs; {_in_force(report['shares_in_force'])}"),
        ("slowed", _slowed(report)),
        (
            "plans",
            f"{len(shown.plans)} in {shown.real_s:.0f} s, half within {shown.plan_s:.2f} s of being asked",
        ),
    )
    for row in rows:
        made.add_row(*row)
    return made


def pools_table(shown: Shown) -> Table:
    """The figures of each pool."""
    made = Table(title="Pools (minutes of cluster time)")
    for name in ("pool", "quota", "jobs", "started early", "mean wait", "slowed"):
        made.add_column(name, justify="left" if name == "pool" else "right")
    for pool in shown.report["pools"]:
        wait_s = pool["mean_wait_s"]
        made.add_row(
            pool["pool"],
            str(scenario.QUOTAS[pool["pool"]]),
            str(pool["jobs"]),
            str(pool["started_early"]),
            "-" if wait_s is None else f"{wait_s / 60:.1f}",
            str(pool["slowed"]),
        )
    return made


def verdict(shown: Shown) -> str:
    """The one sentence."""
    report = shown.report
    late = report["slowed"] - report["consenting_slowed"]
    kept = (
        "nobody who had not consented ended later than without sharing"
        if not late
        else (f"{late} jobs ended more than a minute later than without sharing")
    )
    return (
        f"{report['started_early']} of {report['jobs']} jobs started earlier than they would have behind "
        f"the walls, and {kept}."
    )


class _Tracks:
    """Follows jobs from start to end, in real seconds after the first submit."""

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self.open: dict[str, tuple[float, list[Any], str]] = {}
        self.found: list[Bar] = []

    def close(self, job_id: str, at: float, *, is_lost: bool) -> None:
        """A job leaves its GPUs."""
        if job_id not in self.open:
            return
        start, gpus, kind = self.open.pop(job_id)
        start_s, end_s = ((one - self._begun) / scenario.SPEED for one in (start, at))
        self.found += [Bar((node, index), job_id, start_s, end_s, kind, is_lost) for node, index in gpus]

    def follow(self, plan: Mapping[str, Any]) -> None:
        """What a plan begins and ends."""
        at = _seconds(plan["at"])
        for job_id in plan["send_backs"]:
            self.close(job_id, at, is_lost=True)
        for start in plan["starts"]:
            kind = "guest" if start["is_guest"] else "own"
            self.open[start["job_id"]] = (at, start["gpus"] or [], kind)
        for rider in plan["riders"]:
            if rider["host_job_id"] in self.open:
                self.open[rider["job_id"]] = (at, self.open[rider["host_job_id"]][1], "rider")


def bars(shown: Shown) -> list[Bar]:
    """Stretches of all jobs on their GPUs, out of the plans and the jobs' ends."""
    tracks = _Tracks(min(_seconds(job["submit"]) for job in shown.jobs))
    ends = sorted((_seconds(job["end"]), job["job_id"]) for job in shown.jobs if job["end"])
    for plan in shown.plans:
        tracks.follow(plan)
    for at, job_id in ends:
        tracks.close(job_id, at, is_lost=False)
    return tracks.found


def draw(shown: Shown, path: Path) -> Path:
    """Draw who ran on which GPU when."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to load

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    stretches = sorted(bars(shown), key=lambda bar: bar.kind == "rider")  # riders over their hosts
    gpus = [(node, index) for node, number in scenario.NODES.items() for index in range(number)]
    figure, axes = plt.subplots(figsize=(11, 4.2), layout="constrained")
    for bar in stretches:
        low = gpus.index(bar.gpu) + (0.1 if bar.kind != "rider" else 0.55)
        axes.broken_barh(
            [(bar.start_s, max(bar.end_s - bar.start_s, 0.05))],
            (low, 0.8 if bar.kind != "rider" else 0.35),
            facecolors=_COLOURS[bar.kind],
            edgecolor="white",
            hatch="///" if bar.is_lost else None,
        )
        axes.text(bar.start_s + 0.1, low + 0.1, bar.job_id, fontsize=6, clip_on=True)
    axes.set_yticks([k + 0.5 for k in range(len(gpus))], [f"{node} GPU {index}" for node, index in gpus])
    axes.set_xlabel("real seconds since the first submit")
    axes.set_title("Who ran where")
    marks = [Patch(color=colour, label=_MEANING[kind]) for kind, colour in _COLOURS.items()]
    marks.append(Patch(facecolor="white", edgecolor="black", hatch="///", label="sent back, to be repeated"))
    axes.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, frameon=False)
    figure.savefig(path, dpi=140)
    plt.close(figure)
    return path


def _slowed(report: Mapping[str, Any]) -> str:
    if not report["slowed"]:
        return "nobody"
    return (
        f"{report['slowed']}, the worst by {report['slowed_most_s'] / 60:.1f} min; "
        f"{report['consenting_slowed']} of them had consented to share"
    )


def _in_force(shares: Sequence[Mapping[str, Any]]) -> str:
    """How the executors carried shares out, in their own words."""
    said = [
        f"{one['primitive']} {one['state']}, {one['enforcement']}, effective {one['effective_at']} "
        f"({one['times']})"
        for one in shares
    ]
    return "; ".join(said) if said else "each from its start on"


def _minutes(hours: float) -> str:
    return f"{hours * 60:.0f} min"


def _seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()
