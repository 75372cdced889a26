"""What a history in a folder holds, as people and models ask for it: lists, jobs, exports."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from data.insight.evidence import Evidence, merged_facts
from data.insight.summary import describe
from data.intake.format import Clock
from data.intake.report import day_text
from data.shelf.inventory_export import Exported as InventoryTables
from data.shelf.inventory_export import PoolRow, exported
from data.shelf.jobs import COLUMNS, JobsView, find, jobs_view
from data.shelf.jobs_export import Exported, export_jobs, quotas_needed
from data.shelf.manifest import ImportEntry, replace_file
from data.shelf.store import HistoryStore
from domain.errors import InputError, SettingError
from simulator.report import finite

Asked = TypeVar("Asked")

_HISTORY_COLUMNS: Final = ["submit_s", "start_s", "end_s"]


@dataclass(frozen=True)
class Chosen:
    """A cluster of a history.

    Attributes:
        store: the history.
        cluster: its name.
    """

    store: HistoryStore
    cluster: str

    def table(self) -> pa.Table:
        """Its attempts."""
        return read(lambda: self.store.table(self.cluster, columns=COLUMNS))

    def view(self) -> JobsView:
        """Its jobs."""
        return jobs_view(self.table())

    def reports(self) -> list[dict[str, Any]]:
        """Reports of the imports that brought something of it, the oldest first."""
        entries = read(self.store.manifest).imports
        reports = [read(partial(self.store.report, entry)) for entry in entries]
        return [report for report in reports if self.cluster in report.get("clusters", ())]


def read(ask: Callable[[], Asked]) -> Asked:
    """What a history answers.

    Raises:
        SettingError: if it cannot be read.
    """
    try:
        return ask()
    except InputError as error:
        raise SettingError(str(error)) from error
    except OSError as error:
        raise SettingError(f"the history cannot be read: {error}") from error


def choose(folder: Path, cluster: str | None) -> Chosen:
    """A cluster of a history; the only one where none is named.

    Raises:
        SettingError: if there is no such cluster, or several and none is named.
    """
    store = HistoryStore(folder)
    names = sorted(read(store.manifest).clusters)
    if not names:
        raise SettingError(f"there is no history in {folder}: antecast import brings one in")
    if cluster is None:
        if len(names) > 1:
            raise SettingError(
                f"the history has several clusters, name one with --cluster: {', '.join(names)}"
            )
        return Chosen(store, names[0])
    if cluster not in names:
        raise SettingError(f"the history has no cluster {cluster!r}; there are: {', '.join(names)}")
    return Chosen(store, cluster)


def listed(folder: Path) -> dict[str, Any]:
    """Clusters of a history with what is there of each, and the files it came from."""
    store = HistoryStore(folder)
    manifest = read(store.manifest)
    clusters = {name: _cluster(Chosen(store, name), entry.clock) for name, entry in manifest.clusters.items()}
    return {
        "history": str(folder),
        "clusters": dict(sorted(clusters.items())),
        "imports": [_import(store, one) for one in manifest.imports],
    }


def job(chosen: Chosen, job_id: str) -> dict[str, Any]:
    """The newest job of an id with its attempts, and how many older ones had the same id.

    Raises:
        SettingError: if no job has it.
    """
    view = chosen.view()
    found = find(view.jobs, job_id)
    if found is None:
        raise SettingError(f"cluster {chosen.cluster!r} has no job {job_id!r}")
    row, older = found
    attempts = view.attempts[view.attempts["job"] == row.name]
    names = ["submit_s", "start_s", "end_s", "wait_s", "lived_s", "cause", "observation", "gpu_hours"]
    return {
        "job": _plain(row),
        "older_jobs_of_the_id": older,
        "attempts": [_plain(one) for _, one in attempts[names].iterrows()],
    }


def described(chosen: Chosen) -> tuple[dict[str, Any], JobsView]:
    """What a cluster's history holds and what it can and cannot support, and its jobs."""
    entry = read(chosen.store.manifest).clusters[chosen.cluster]
    facts, rules = merged_facts(chosen.reports())
    inventory = read(lambda: chosen.store.inventory(chosen.cluster))
    view = chosen.view()
    return describe(Evidence(view, Clock(entry.clock), facts, rules, inventory)), view


def write_json(document: Mapping[str, Any], path: Path) -> None:
    """Write a document so that it is there whole or not at all.

    Raises:
        SettingError: if it cannot be written.
    """
    write_text(json.dumps(finite(document), indent=1, allow_nan=False, default=str) + "\n", path)


def export(
    chosen: Chosen,
    out: Path,
    *,
    as_attempts: bool,
    since_s: float,
    until_s: float,
    pool: str | None,
) -> Exported:
    """Write jobs in the schema of histories.

    Raises:
        SettingError: if none is left, or the file cannot be written.
    """
    made = export_jobs(chosen.view(), as_attempts=as_attempts, since_s=since_s, until_s=until_s, pool=pool)
    if made.frame.empty:
        why = ", ".join(f"{why}: {number:,}" for why, number in made.left_out.items()) or "there are none"
        raise SettingError(f"no job is left to export ({why})")
    write_csv(made.frame, out)
    return made


@dataclass(frozen=True)
class Tables:
    """Pools and nodes, as tables that replays read.

    Attributes:
        pools, nodes: the tables as CSV.
        num_pools, num_nodes: rows of them.
        gpus: of all pools together.
        source: where the sizes of pools are from.
        left_out: what is not in them, by name, and why.
    """

    pools: str
    nodes: str
    num_pools: int
    num_nodes: int
    gpus: int
    source: str
    left_out: Mapping[str, str]


def tables(chosen: Chosen, at_s: float | None) -> Tables:
    """Pools and nodes of a cluster by its inventory; without one, pools by what their jobs have used.

    Args:
        chosen: the cluster.
        at_s: the instant, epoch seconds; None: as last known.

    Raises:
        SettingError: if nothing says how large any pool is.
    """
    made = exported(read(lambda: chosen.store.inventory(chosen.cluster)), at_s)
    if made.pools:
        gpus = sum(one.quota_gpus for one in made.pools)
        return Tables(
            made.pools_csv(), made.nodes_csv(), len(made.pools), len(made.nodes), gpus, "the inventory",
            made.left_out,
        )  # fmt: skip
    used = quotas_needed(export_jobs(chosen.view(), as_attempts=True).frame)
    if not used:
        raise SettingError(
            f"neither an inventory nor jobs on GPUs say how large the pools of {chosen.cluster!r} are"
        )
    rows = tuple(PoolRow(pool, max(most, widest)) for pool, most, widest in used)
    source = "what its jobs have used at once (there is no inventory)"
    return Tables(
        InventoryTables(rows).pools_csv(), made.nodes_csv(), len(rows), len(made.nodes),
        sum(one.quota_gpus for one in rows), source, made.left_out,
    )  # fmt: skip


def write_text(text: str, path: Path) -> None:
    """Write a file so that it is there whole or not at all.

    Raises:
        SettingError: if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror}") from error


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table so that it is there whole or not at all.

    Raises:
        SettingError: if it cannot be written.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(temporary, index=False, lineterminator="\n")
        temporary.replace(path)
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror}") from error


def _cluster(chosen: Chosen, clock: str) -> dict[str, Any]:
    table = read(lambda: chosen.store.table(chosen.cluster, columns=_HISTORY_COLUMNS))
    inventory = read(lambda: chosen.store.inventory(chosen.cluster))
    days = chosen.store.days(chosen.cluster)
    return {
        "clock": clock,
        "attempts": len(table),
        "days": len(days),
        "first_day": day_text(days[0]) if days else None,
        "last_day": day_text(days[-1]) if days else None,
        "last_instant_s": max((pc.max(column).as_py() or 0.0 for column in table.columns), default=None)
        if len(table)
        else None,
        "nodes": len(inventory.latest_nodes()),
        "pools_of_inventory": len({one.pool for one in inventory.pools}),
    }


def _import(store: HistoryStore, entry: ImportEntry) -> dict[str, Any]:
    report = read(lambda: store.report(entry))
    names = ("format", "kind", "read", "accepted", "repaired", "rejected", "new", "updated", "unchanged")
    return {"file": entry.file, "sha256": entry.sha256, **{name: report.get(name) for name in names}}


def _plain(row: "pd.Series[Any]") -> dict[str, Any]:
    """A row as JSON holds it: what is missing is null."""
    values = {str(name): value for name, value in row.items() if str(name) != "job"}
    return {
        name: None if pd.isna(value) else (value.item() if hasattr(value, "item") else value)
        for name, value in values.items()
    }
