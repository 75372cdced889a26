"""How well rates of two jobs on one GPU are forecast, for what was left out of a table of measured pairs.

python -m benchmarks.interference_scores --pairs ../shared/bench/packing/pairs.csv

Tables: each model left out in turn; each family (all batch sizes of it); a tenth of the pairs; and models
left out whose steps are then observed beside one, three and eight others, on the pairs that were not.
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from data.pairs import PairTable, read_pairs
from models.interference.pairs import PairInterference
from models.interference.scores import (
    RIVALS,
    LeftOut,
    families,
    figures,
    forecast_pairs,
    leave_out,
    measured_models,
)

COLUMNS = (
    "mae",
    "mae_own",
    "mae_partner",
    "pinball",
    "coverage_80",
    "coverage_80_own",
    "coverage_80_partner",
    "width",
    "unfit_found",
    "fit_kept",
)
HEARD = (0, 1, 3, 8)
NAMES = {"": "pairs", "_mean_rate": "mean", "_utilisation": "utilisation"}


def print_rows(title: str, rows: Mapping[str, list[LeftOut]]) -> None:
    print(f"\n{title}\n\n| model | " + " | ".join(COLUMNS) + " |\n|---|" + "---:|" * len(COLUMNS))
    for name, parts in rows.items():
        found = figures(parts)
        cells = ("" if found[key] is None else f"{found[key]:.3f}" for key in COLUMNS)
        print(f"| {name} | " + " | ".join(cells) + " |")


def tenths_left_out(table: PairTable, seed: int) -> dict[str, list[LeftOut]]:
    """Ten times a tenth of the pairs, both models of which stay known by their other pairs."""
    pairs = sorted(table.rates)
    order = np.random.default_rng(seed).permutation(len(pairs))
    rows: dict[str, list[LeftOut]] = {name: [] for name in NAMES.values()}
    for part in np.array_split(order, 10):
        left = [pairs[k] for k in sorted(part.tolist())]
        rest = PairTable(
            MappingProxyType({pair: both for pair, both in table.rates.items() if pair not in set(left)}),
            table.unfit,
        )
        for suffix, make in RIVALS.items():
            rows[NAMES[suffix]].append(forecast_pairs(make(rest, {}), table, left, [], frozenset()))
    return rows


def after_steps(table: PairTable, seed: int) -> dict[str, list[LeftOut]]:
    """Each model left out, then heard beside some partners, both ways: 32 steps with 10 % of noise each."""
    rows: dict[str, list[LeftOut]] = {f"{heard} partners heard": [] for heard in HEARD}
    for name in measured_models(table):
        rng = np.random.default_rng(seed)
        pairs = sorted(pair for pair in table.rates if name in pair)
        order = [pairs[k] for k in rng.permutation(len(pairs)).tolist()]
        model, rest = PairInterference(table.without(frozenset({name}))), sorted(order[max(HEARD) :])
        for num_heard in range(max(HEARD) + 1):
            if num_heard in HEARD:
                part = forecast_pairs(model, table, rest, [], frozenset({name}))
                rows[f"{num_heard} partners heard"].append(part)
            a, b = order[num_heard]
            for whose, beside in ((a, b), (b, a)):
                rate = table.rate(whose, beside) or 1.0
                for noise in np.exp(rng.normal(0.0, 0.1, 32)).tolist():
                    model.observe(whose, beside, noise / rate, 1.0)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    table = read_pairs(options.pairs)
    begun_s = time.process_time()
    RIVALS[""](table, {})
    print(f"{len(table.rates)} pairs, {len(table.unfit)} that do not fit; ", end="")
    print(f"to learn: {time.process_time() - begun_s:.1f} CPU s")
    models = [frozenset({name}) for name in measured_models(table)]
    by_model = {}
    for title, groups in (("Each model left out", models), ("Each family left out", families(table))):
        rows = {
            NAMES[suffix]: [leave_out(table, group, make, {}) for group in groups]
            for suffix, make in RIVALS.items()
        }
        by_model = by_model or dict(zip(measured_models(table), rows["pairs"], strict=True))
        print_rows(title, rows)
    print_rows("A tenth of the pairs left out", tenths_left_out(table, options.seed))
    print_rows("Each model left out, then observed", after_steps(table, options.seed))
    print_rows("Each model left out, by model (pairs)", {name: [part] for name, part in by_model.items()})


if __name__ == "__main__":
    main()
