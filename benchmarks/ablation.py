"""What each part of the planner is worth: the same workload without it.

    python -m benchmarks.ablation --jobs jobs.csv --pools pools_load080.csv --workers 2 \\
        --csv benchmarks/results/ablation.csv --also "eps of a per cent=planned:eps=0.01"

The variants stand in `VARIANTS`, what they leave out in docs/policies/ablated.md; --only chooses some, --also
adds others. One replay per process; rows of the CSV are not run again while nothing they rest on has
changed. Perfect forecasts see the truth and are starred. Variants in which nobody may be sent back have rows
at R = 0 only.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.services.compare import Choice, parse_choice
from benchmarks.rows import Figures, markdown, number
from benchmarks.runs import (
    Row,
    add_options,
    asked_policy,
    between,
    exit_code,
    figures_of_rows,
    takes,
)
from simulator.forecasting import COMMON_SETTINGS
from solver.policies import POLICIES


@dataclass(frozen=True)
class Variant:
    """The planner with something changed.

    Attributes:
        label: what is changed.
        settings: on top of those of the policy.
        policy: another policy in its place; None keeps it.
        may_see_truth: whether it looks at the truth.
    """

    label: str
    settings: dict[str, str] = field(default_factory=dict)
    policy: str | None = None
    may_see_truth: bool = False


AS_BUILT: Final = "as built"

VARIANTS: Final = (
    Variant(AS_BUILT),
    Variant("no lane", {"without": "lane"}, policy="ablated"),
    Variant("no conversion", {"without": "conversion"}, policy="ablated"),
    Variant("sum of quantiles", {"without": "sum"}, policy="ablated"),
    Variant("lives not conditional", {"without": "age"}, policy="ablated"),
    Variant("no online calibration", {"lives": "uncorrected", "arrivals": "nearest"}),
    Variant("greedy instead of plans", policy="anticipatory"),
    Variant("siblings live independently", {"kinship": "0"}),
    Variant("bursts not counted", {"burst_weight": "0"}),
    Variant("random forecasts", {"lives": "random", "arrivals": "random"}),
    Variant("perfect forecasts*", {"lives": "true", "arrivals": "true"}, may_see_truth=True),
)
"""All variants of the table, in its order."""

_COLUMNS: Final = {
    "load": lambda row: row["load"],
    "R": lambda row: row["series"].rpartition("R=")[2],
    "variant": lambda row: row["label"],
    "ratio": number("ratio"),
    "geo": number("geo"),
    "slowed %": number("slowed_pct", ".3f"),
    "over days": between("days_low_pct", "days_high_pct"),
    "worst min": number("worst_min", ",.0f"),
    "worst pool %": number("worst_pool_pct", ".2f"),
    "warm-up %": number("warm_up_pct", ".3f"),
    "requeues": number("requeues", ",.0f"),
    "repeated GPU-h": number("lost_gpu_hours", ",.0f"),
}


def rows_of(
    pools: Sequence[Path], asked: str, shares: Sequence[float], variants: Sequence[Variant]
) -> list[Row]:
    """All rows, load by load and R by R; those of variants that know no R, or send nobody back, at R = 0."""
    base = parse_choice(asked)
    rows = []
    for path in pools:
        for share in shares:
            for variant in variants:
                policy = variant.policy or base.policy
                has_shares = takes(policy, "requeueable") and POLICIES[policy].may_send_back
                if share > 0.0 and not has_shares:
                    continue
                settings = {**inherited(base, policy), **variant.settings}
                if has_shares:
                    settings["requeueable"] = f"{share:g}"
                series = f"{asked} R={share:g}"
                rows.append(Row(path, series, variant.label, policy, settings, variant.may_see_truth))
    return rows


def inherited(base: Choice, policy: str) -> dict[str, str]:
    """The settings asked for, without those that the policy in its place does not have."""
    common = COMMON_SETTINGS if POLICIES[policy].uses_lives and POLICIES[policy].uses_demand else ()
    return {name: value for name, value in base.settings.items() if takes(policy, name) or name in common}


def changes(row: Figures, built: Figures | None) -> str:
    """How a row differs from the planner as built: ratio, geometric mean, points of slowed jobs."""
    if built is None or row["label"] == AS_BUILT:
        return ""
    ratio, geo = (100.0 * (float(row[one]) / float(built[one]) - 1.0) for one in ("ratio", "geo"))
    slowed = float(row["slowed_pct"]) - float(built["slowed_pct"])
    return f"{ratio:+.1f} % / {geo:+.1f} % / {slowed:+.3f}"


def columns_of(figures: Sequence[Figures]) -> dict[str, Callable[[Figures], str]]:
    """The columns of the table; the last but one compares with the planner as built at that load and R."""
    built = {(row["load"], row["series"]): row for row in figures if row["label"] == AS_BUILT}
    compared = {
        "against as built": lambda row: changes(row, built.get((row["load"], row["series"]))),
        "seconds": number("seconds", ",.0f"),
    }
    return {**_COLUMNS, **compared}


def parse_variant(text: str) -> Variant:
    """Parse "label=policy:key=value:..."; a star at the end of the label lets it see the truth."""
    label, _, asked = text.partition("=")
    choice = parse_choice(asked)
    return Variant(label, dict(choice.settings), choice.policy, label.endswith("*"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--policy", type=asked_policy, default="planned", help="name or name:key=value")
    parser.add_argument("--requeueable", type=float, nargs="+", default=(0.0,))
    labels = [variant.label for variant in VARIANTS]
    parser.add_argument("--only", nargs="+", choices=labels, help="variants to run")
    parser.add_argument("--also", nargs="+", default=(), type=parse_variant, help="label=policy:key=value")
    chosen = parser.parse_args()
    variants = [one for one in VARIANTS if chosen.only is None or one.label in chosen.only]
    rows = rows_of(chosen.pools, chosen.policy, chosen.requeueable, [*variants, *chosen.also])
    figures: list[Figures] = figures_of_rows(rows, chosen)
    print(markdown(figures, columns_of(figures)))
    raise SystemExit(exit_code(rows, figures))


if __name__ == "__main__":
    main()
