"""One file per placement rule; this registry is the only list of them."""

from solver.sharing.rules import bestfit, complement, dotprod, fgd, fgd_exact, packing, random
from solver.sharing.rules.base import RuleBuilder

RULES: dict[str, RuleBuilder] = {
    "random": random.build,
    "dotprod": dotprod.build,
    "packing": packing.build,
    "bestfit": bestfit.build,
    "fgd": fgd.build,
    "fgd-exact": fgd_exact.build,
    "complement": complement.build,
}

DEFAULT_RULE = "complement"
