"""What each part of the planner is worth: the same workload without it.

    python -m benchmarks.ablation --jobs jobs.csv --pools pools_load080.csv \\
        --csv benchmarks/results/ablation.csv --also "eps of a per cent=anticipatory:eps=0.01"

The variants stand in `VARIANTS`; --also adds others. One replay per process; rows of the CSV are not run
again while nothing they rest on has changed. Perfect forecasts see the truth and are starred.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.services.compare import parse_choice
from benchmarks.runs import (
    Figures,
    Row,
    add_options,
    asked_policy,
    between,
    complete,
    exit_code,
    number,
    protocol_of,
    table,
    takes,
)


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


VARIANTS: Final = (
    Variant("as built"),
    Variant("siblings live independently", {"kinship": "0"}),
    Variant("greedy instead of plans", policy="anticipatory"),
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
    "seconds": number("seconds", ",.0f"),
}


def rows_of(
    pools: Sequence[Path], asked: str, shares: Sequence[float], variants: Sequence[Variant]
) -> list[Row]:
    """All rows, load by load and R by R; settings that a replacing policy does not have are left out."""
    base = parse_choice(asked)
    rows = []
    for path in pools:
        for share in shares:
            for variant in variants:
                policy = variant.policy or base.policy
                settings = {**(base.settings if policy == base.policy else {}), **variant.settings}
                if takes(policy, "requeueable"):
                    settings["requeueable"] = f"{share:g}"
                series = f"{asked} R={share:g}"
                rows.append(Row(path, series, variant.label, policy, settings, variant.may_see_truth))
    return rows


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
    parser.add_argument("--policy", type=asked_policy, default="anticipatory", help="name or name:key=value")
    parser.add_argument("--requeueable", type=float, nargs="+", default=(0.0,))
    parser.add_argument("--only", nargs="+", help="labels of the variants to run")
    parser.add_argument("--also", nargs="+", default=(), type=parse_variant, help="label=policy:key=value")
    chosen = parser.parse_args()
    variants = [one for one in VARIANTS if chosen.only is None or one.label in chosen.only]
    rows = rows_of(chosen.pools, chosen.policy, chosen.requeueable, [*variants, *chosen.also])
    figures: list[Figures] = complete(rows, protocol_of(chosen), chosen.csv, chosen.workers)
    print(table(figures, _COLUMNS))
    raise SystemExit(exit_code(rows, figures))


if __name__ == "__main__":
    main()
