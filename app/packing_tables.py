"""Advice on packing, as tables and sentences for people."""

from collections.abc import Mapping
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from app.services.packing_advice import Advice, Question
from app.services.packing_hosts import Hosts
from app.services.packing_rates import FREE, Setting
from data.rules import printable
from domain.interference import RateForecast

_MINUTE_S: Final = 60.0


def advice_table(advice: Advice) -> Table:
    """One row per job: its share, its rate, and when it ends packed and apart."""
    table = Table(box=box.SIMPLE_HEAD, caption_justify="left")
    table.caption = (
        "rate: speed over alone, with its 80 % interval; ends in minutes from now, by the medians;\n"
        "apart: one after the other; solo: alone on the GPU at once"
    )
    for name in ("", "job", "model"):
        table.add_column(name, overflow="fold")
    for name in (
        "GPUs",
        "MPS\nshare %",
        "\nrate",
        "80 %\ninterval",
        "packed\nmin",
        "apart\nmin",
        "solo\nmin",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for k, (role, job) in enumerate((("host", advice.host), ("rider", advice.rider))):
        setting, packed = advice.setting, advice.packed
        rate = None if setting is None else setting.rates[k]
        table.add_row(
            role,
            Text(printable(job.name)),
            Text(printable(job.model)),
            str(job.width),
            "-" if setting is None else f"{setting.shares_pct[k]:.0f}",
            "-" if rate is None else f"{rate.median:.2f}",
            "-" if rate is None else _interval(rate),
            "-" if packed is None else _minutes(packed[k]),
            _minutes(advice.apart[k]),
            _minutes(job.left_s),
        )
    return table


def advice_lines(advice: Advice, question: Question) -> list[str]:
    """The verdict, the risks and where the rates are from."""
    verdict = "pack" if advice.is_advised else "do not pack"
    lines = [f"{verdict} ({question.objective}): {advice.why}"]
    fit = "not known" if advice.fit_chance is None else f"{100 * (1 - advice.fit_chance):.0f} %"
    over = f"{100 * advice.over_budget_chance:.0f} %"
    if advice.setting is not None:
        lines.append(
            f"risk: does not fit into memory {fit}; "
            f"host slowed by more than {100 * question.budget:g} % {over}"
        )
        lines.append(f"rates: {advice.basis.value}{_of_shares(advice.setting)}")
    return lines


def hosts_table(hosts: Hosts, most: int) -> Table:
    """One row per possible host, the best first; at most so many rows."""
    table = Table(title="hosts", title_justify="left", box=box.SIMPLE_HEAD, caption_justify="left")
    for name in ("host", "model"):
        table.add_column(name, overflow="fold")
    for name in (
        "\npack",
        "shares\n%",
        "host\nrate",
        "rider\nrate",
        "no fit\n%",
        "over\nbudget %",
        "host\nlater min",
        "rider\nearlier min",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for one in hosts.ranked[:most]:
        table.add_row(Text(printable(one.host.name)), Text(printable(one.host.model)), *_cells(one), one.why)
    if len(hosts.ranked) > most:
        table.caption = f"{len(hosts.ranked) - most} more: --most, or --json"
    return table


def coverage_lines(found: Mapping[str, Any], most: int) -> list[str]:
    """What a file of measurements covers."""
    names = ", ".join(printable(name) for name in found["models"][:most])
    more = f", {len(found['models']) - most} more" if len(found["models"]) > most else ""
    lines = [f"{found['kind']}: {len(found['models'])} models: {names}{more}"]
    if found["kind"] == "pairs":
        lines.append(
            f"{found['pairs_measured']} of {found['pairs_possible']} pairs are measured; "
            f"{len(found['pairs_without_row'])} have no row: not known, or with --complete-pairs not fitting"
        )
        lines.append(f"{len(found['settings_under_shares'])} settings are measured under MPS shares")
        return lines
    known = ", ".join(f"{found[f'with_{name}']} with {name}" for name in _FEATURES)
    return [*lines, known]


_FEATURES: Final = ("sm_utilisation", "memory_mib", "solo_step_s")


def _cells(one: Advice) -> list[str]:
    fit = "?" if one.fit_chance is None else f"{100 * (1 - one.fit_chance):.0f}"
    if one.setting is None or one.packed is None:
        return ["no", "-", "-", "-", fit, "-", "-", "-"]
    host, rider = one.setting.rates
    return [
        "yes" if one.is_advised else "no",
        f"{one.setting.shares_pct[0]:.0f}/{one.setting.shares_pct[1]:.0f}",
        f"{host.median:.2f}",
        f"{rider.median:.2f}",
        fit,
        f"{100 * one.over_budget_chance:.0f}",
        _minutes(one.packed.host_s - one.apart.host_s),
        _minutes(one.apart.rider_s - one.packed.rider_s),
    ]


def _of_shares(setting: Setting) -> str:
    if setting.shares_pct == FREE:
        return "; no limit is needed"
    return "; at these shares " + (
        "measured" if setting.is_measured else "modelled (docs/models/share-model.md)"
    )


def _interval(rate: RateForecast) -> str:
    return f"{rate.lower:.2f}-{rate.upper:.2f}"


def _minutes(seconds: float) -> str:
    return f"{seconds / _MINUTE_S:.0f}"
