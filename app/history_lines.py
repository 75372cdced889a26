"""A described history as text: tables with small bars, findings, and what it supports."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from app.import_lines import printable

_BAR: Final = 30
_MOST_DAYS: Final = 31
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHADES: Final = " .:-=+*#%@"
_POOL_NAME: Final = 24
_UNITS: Final = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))


def describe_lines(cluster: str, found: Mapping[str, Any]) -> Iterator[str]:
    """The whole description."""
    yield f"{printable(cluster)}: {found['jobs']:,} jobs, {found['attempts']:,} attempts"
    if found["jobs"]:
        yield from _days(found["arrivals"])
        yield from _week(found["hours_of_week"])
        yield from _counts("GPUs of a job", found["widths"])
        yield from _lives(found["lives"])
        yield from _waits(found["waits"])
        yield from _counts("how jobs ended", found["states"])
        yield from _recurrence(found["recurrence"])
        yield from _pools(found["pools"])
    inventory = found["inventory"]
    if inventory["nodes"] or inventory["pools"]:
        yield ""
        yield (
            f"inventory: {inventory['nodes']:,} nodes with {inventory['gpus']:,} GPUs, "
            f"{inventory['pools']} pools"
        )
    yield from _findings(found["findings"])
    if found["jobs"]:
        yield from _supports(found["supports"])


def bar(count: float, most: float) -> str:
    """A bar as long as its count, one mark at least where there is anything."""
    if count <= 0 or most <= 0:
        return ""
    return "█" * max(1, round(_BAR * count / most))


def span(seconds: float | None) -> str:
    """A length as people say it."""
    if seconds is None:
        return "not reached"
    for unit_s, unit in _UNITS:
        if seconds >= unit_s:
            return f"{seconds / unit_s:.3g} {unit}"
    return f"{seconds:.3g} s"


def _days(days: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Days, or stretches of several days where there are many."""
    stretch = -(-len(days) // _MOST_DAYS)
    groups = [days[k : k + stretch] for k in range(0, len(days), stretch)]
    counts = [sum(day["jobs"] for day in group) / len(group) for group in groups]
    yield ""
    yield "jobs a day" if stretch == 1 else f"jobs a day, mean of {stretch} days"
    for group, count in zip(groups, counts, strict=True):
        yield f"  {group[0]['day']:>10} {count:>10,.0f} {bar(count, max(counts))}".rstrip()


def _week(hours: Sequence[int] | None) -> Iterator[str]:
    if hours is None:
        return
    yield ""
    yield f"jobs by hour of the week, UTC (from ' ' for none to '@' for {max(hours):,})"
    yield "      0     6     12    18    "
    for place, name in enumerate(_DAYS):
        day = hours[24 * place : 24 * place + 24]
        yield f"  {name} {''.join(_shade(count, max(hours)) for count in day)}".rstrip()


def _shade(count: int, most: int) -> str:
    if count <= 0:
        return _SHADES[0]
    return _SHADES[max(1, round((len(_SHADES) - 1) * count / most))]


def _counts(heading: str, counts: Mapping[str, int]) -> Iterator[str]:
    yield ""
    yield heading
    most = max(counts.values(), default=0)
    for name, count in counts.items():
        if count:
            yield f"  {name:>13} {count:>10,} {bar(count, most)}"


def _lives(lives: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    told = ", ".join(f"{float(level):.0%} {span(value)}" for level, value in lives["quantiles_s"].items())
    yield f"lives, those cut off as at least so long: {told if lives['whole'] else 'none was seen whole'}"
    naive = lives["naive_median_s"]
    if naive is not None and lives["cut_off"]:
        yield f"  a median that takes cut-off lives for whole ones would say {span(naive)}"
    yield (
        f"  {lives['whole']:,} seen whole, {lives['cut_off']:,} cut off, {lives['truncated']:,} began before "
        "the record"
    )


def _waits(waits: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    if not waits["jobs"]:
        yield "waits: none is known"
        return
    told = ", ".join(f"{float(level):.0%} {span(value)}" for level, value in waits["quantiles_s"].items())
    yield f"waits of {waits['jobs']:,} jobs: {told}; {waits['zero_share']:.0%} did not wait"


def _recurrence(found: Mapping[str, Any]) -> Iterator[str]:
    again, user_again = found["user_and_name_again_share"], found["user_again_share"]
    yield ""
    yield (
        f"recurrence: {found['users']:,} users, "
        + (
            "no user is known"
            if user_again is None
            else f"{user_again:.0%} of their jobs are not their first"
        )
        + ("; names are not known" if again is None else f"; {again:.0%} come again under the same name")
    )


def _pools(pools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield ""
    yield (
        f"{'pool':<{_POOL_NAME}} {'jobs':>9} {'GPU-hours':>12} {'users':>6} {'median life':>12} "
        f"{'cut off':>8} {'median wait':>12}  again"
    )
    for row in pools:
        hours = "?" if row["gpu_hours"] is None else f"{row['gpu_hours']:,.0f}"
        cut = "?" if row["cut_off_share"] is None else f"{row['cut_off_share']:.0%}"
        wait = "?" if row["median_wait_s"] is None else span(row["median_wait_s"])
        again = row["recurrence"]["user_and_name_again_share"]
        name = printable(row["pool"])
        name = name if len(name) <= _POOL_NAME else name[: _POOL_NAME - 3] + "..."
        yield (
            f"{name:<{_POOL_NAME}} {row['jobs']:>9,} {hours:>12} {row['users']:>6,} "
            f"{span(row['median_life_s']):>12} {cut:>8} {wait:>12}  "
            + ("?" if again is None else f"{again:.0%}")
        )


def _findings(findings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield ""
    if not findings:
        yield "nothing was found that this history cannot support"
        return
    yield "what to know before trusting it"
    for one in findings:
        yield f"  {one['finding']}: {one['meaning']}"
        yield f"      {printable(one['message'])}"


def _supports(supports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield ""
    yield "what it supports"
    for use, found in supports.items():
        because = f" ({', '.join(found['because'])})" if found["because"] else ""
        yield f"  {use:<9} {found['verdict']}{because}"
