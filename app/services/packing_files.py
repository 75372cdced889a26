"""Advice on packing as a document, and what a file of measurements covers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.services.packing_advice import Advice, AskedJob, Ends, Question
from app.services.packing_hosts import Hosts
from data.pairs import PairTable, read_pairs
from data.profiles import ModelProfile, read_profiles
from data.readers.csv_table import read_table
from domain.interference import RateForecast


def document(advice: Advice, question: Question) -> dict[str, Any]:
    """Everything about one piece of advice. Times in seconds from now, shares in percent, chances 0 to 1."""
    setting = advice.setting
    return {
        "pack": advice.is_advised,
        "why": advice.why,
        "objective": question.objective,
        "budget_pct": round(100.0 * question.budget, 9),
        "host": _job(advice.host),
        "rider": _job(advice.rider),
        "basis": advice.basis.value,
        "shares": None
        if setting is None
        else {
            "host_pct": setting.shares_pct[0],
            "rider_pct": setting.shares_pct[1],
            "measured": setting.is_measured,
        },
        "rates": None
        if setting is None
        else {"host": _interval(setting.rates[0]), "rider": _interval(setting.rates[1])},
        "risk": {
            "unfit_chance": None if advice.fit_chance is None else 1.0 - advice.fit_chance,
            "host_over_budget_chance": advice.over_budget_chance,
        },
        "ends": {"packed": _ends(advice.packed), "apart": _ends(advice.apart)},
    }


def hosts_document(hosts: Hosts, question: Question) -> dict[str, Any]:
    """Everything about the candidates for one rider, the best first."""
    ranked = [document(one, question) for one in hosts.ranked]
    best = next((one["host"]["name"] for one in ranked if one["pack"]), None)
    return {
        "best_host": best,
        "hosts": ranked,
        "excluded": [{"job_id": name, "why": why} for name, why in hosts.excluded],
        "notes": list(hosts.notes),
    }


def coverage(path: Path) -> dict[str, Any]:
    """What a file of pairs or of profiles covers; which of the two it is, its columns say.

    Raises:
        InputError: with every fault found.
    """
    if _is_pairs(path):
        return _pairs_coverage(read_pairs(path))
    return _profiles_coverage(read_profiles(path))


def _is_pairs(path: Path) -> bool:
    return bool({"model_a", "model_b"}.intersection(read_table(path, ()).frame.columns))


def _pairs_coverage(table: PairTable) -> dict[str, Any]:
    count = len(table.models)
    return {
        "kind": "pairs",
        "models": list(table.models),
        "pairs_measured": len(table.rates),
        "pairs_possible": count * (count + 1) // 2,
        "pairs_without_row": [list(pair) for pair in sorted(table.unfit)],
        "settings_under_shares": [
            {"model_a": a, "model_b": b, "share_a_pct": at[0], "share_b_pct": at[1]}
            for (a, b), by in sorted(table.under_shares.items())
            for at in sorted(by)
        ],
    }


def _profiles_coverage(profiles: Mapping[str, ModelProfile]) -> dict[str, Any]:
    return {
        "kind": "profiles",
        "models": sorted(profiles),
        **{
            f"with_{name}": sum(getattr(one, name) is not None for one in profiles.values())
            for name in ModelProfile._fields
        },
    }


def _job(job: AskedJob) -> dict[str, Any]:
    return {
        "name": job.name,
        "model": job.model,
        "num_gpus": job.width,
        "memory_mib": job.memory_mib,
        "left_s": job.left_s,
        "deadline_s": job.deadline_s,
    }


def _interval(rate: RateForecast) -> dict[str, float]:
    return {"lower": rate.lower, "median": rate.median, "upper": rate.upper}


def _ends(ends: Ends | None) -> dict[str, float] | None:
    return None if ends is None else {"host_s": ends.host_s, "rider_s": ends.rider_s}
