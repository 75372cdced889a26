"""A placing as tables and lines for people."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from app.services.place_gangs import Answer
from data.rules import printable
from domain.cluster import Gpu
from solver.placement.task import Placing

_NAMED = 6


def summary(found: Answer) -> list[str]:
    """What was found, in a few lines."""
    gain, placing, task = found.gain, found.placing, found.task
    placed = (
        f"{gain.placed} of {gain.gangs} gangs placed ({gain.placed_gpus} GPUs) on {len(task.nodes)} nodes"
    )
    moved = f"{gain.moves} running gangs moved in {len(placing.steps)} steps (at most {task.max_moves})"
    lines = [f"{placed}, {moved}"]
    if task.holds:
        lines.append(f"{gain.held_gpus} of {gain.held_asked_gpus} GPUs kept idle for {len(task.holds)} holds")
    idle = f"idle: {gain.idle_before_gpus} GPUs before, {gain.idle_after_gpus} after"
    waste = f"{gain.waste_before_gpus:.2f} of them before, {gain.waste_after_gpus:.2f} after"
    nodes = f"nodes in use: {gain.nodes_before} before, {gain.nodes_after} after"
    lines += [f"{idle}; the next gang is expected not to be able to use {waste}; {nodes}", _solve(placing)]
    if gain.changed:
        lines.append(f"{gain.changed} gangs do not get the GPUs they were given before")
    if found.more_moves is not None:
        more = found.more_moves
        lines.append(f"more moves would help {_listed(more.job_ids)}: try --max-moves {more.moves}")
    if found.not_considered:
        why = "on several nodes, beside four that come first, or where moves promise less"
        lines.append(f"movable, but not considered ({why}): {_listed(found.not_considered)}")
    return lines


def tables(found: Answer, most: int) -> list[Table]:
    """Moves, holds, starts and who is left out, each with at most so many rows; empty ones are left out."""
    made = (_moves(found, most), _held(found), _starts(found, most), _left_out(found, most))
    return [table for table in made if table.row_count]


def _solve(placing: Placing) -> str:
    fallback = "" if placing.fallback is None else f", fallback: {placing.fallback}"
    groups = "" if placing.groups == 1 else f", in {placing.groups} groups of nodes"
    return (
        f"{placing.status}: objective {placing.objective:.3f} GPUs, bound {placing.bound:.3f}, "
        f"gap {100 * placing.gap:.2g} %{fallback}{groups}"
    )


def _table(title: str, *columns: str, right: Sequence[str] = ("GPUs", "step")) -> Table:
    table = Table(title=Text(title), title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def _moves(found: Answer, most: int) -> Table:
    table = _table("moves: those of one step at once", "step", "job", "GPUs", "from", "to")
    rows = [(number, move) for number, step in enumerate(found.placing.steps, start=1) for move in step]
    for number, move in rows[:most]:
        gpus = _text(places(move.old)), _text(places(move.new))
        table.add_row(str(number), _text(move.job_id), str(len(move.new)), *gpus)
    return _capped(table, len(rows), most)


def _held(found: Answer) -> Table:
    table = _table(
        "kept idle", "pool", "GPUs", "for gangs of up to", "on", right=("GPUs", "for gangs of up to")
    )
    for held, pieces in zip(found.task.holds, found.placing.held, strict=True):
        kept = [gpu for piece in pieces for gpu in piece]
        count = f"{len(kept)} of {held.hold.num_gpus}"
        table.add_row(_text(held.hold.pool), count, str(held.widest_gpus), _text(places(kept) or "-"))
    return table


def _starts(found: Answer, most: int) -> Table:
    table = _table("starts", "job", "pool", "GPUs", "", "on")
    guests = {want.job.job_id: "" if want.is_own else "guest" for want in found.task.wants}
    pools = {want.job.job_id: want.job.pool for want in found.task.wants}
    for one in found.placing.placements[:most]:
        who = _text(one.job_id), _text(pools[one.job_id] or "-")
        table.add_row(*who, str(len(one.gpus)), guests[one.job_id], _text(places(one.gpus)))
    return _capped(table, len(found.placing.placements), most)


def _left_out(found: Answer, most: int) -> Table:
    table = _table("no place", "job", "GPUs", "why", "")
    width = {want.job.job_id: want.job.num_gpus for want in found.task.wants}
    for job_id, reason in list(found.reasons.items())[:most]:
        table.add_row(_text(job_id), str(width[job_id]), reason.why.value, _text(reason.text))
    return _capped(table, len(found.reasons), most)


def _capped(table: Table, rows: int, most: int) -> Table:
    if rows > most:
        table.caption = f"{rows - most} more: --most, or the files that --out writes"
    return table


def places(gpus: Iterable[Gpu]) -> str:
    """GPUs by node, runs of indices as first-last."""
    by_node: dict[str, list[int]] = {}
    for gpu in gpus:
        by_node.setdefault(gpu.node, []).append(gpu.index)
    return "; ".join(f"{node}/{run}" for node, indices in by_node.items() for run in _runs(sorted(indices)))


def _runs(indices: Sequence[int]) -> list[str]:
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def _text(value: str) -> Text:
    """What a file named, without what a terminal would obey."""
    return Text(printable(value))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(printable, names[:_NAMED])) + more
