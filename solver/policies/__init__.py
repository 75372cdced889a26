"""One file per policy; this registry is the only list of them."""

from solver.policies import (
    ablated,
    anticipatory,
    backfill,
    fcfs,
    gandiva,
    gavel_makespan,
    gssf,
    lucid,
    maxmin,
    packing,
    planned,
    planned_perfect,
    reclaim,
    sia,
    sia_vc,
    sjf,
    ssf,
)
from solver.policies.base import PolicySpec

POLICIES: dict[str, PolicySpec] = {
    "fcfs": fcfs.SPEC,
    "backfill": backfill.SPEC,
    "sjf": sjf.SPEC,
    "ssf": ssf.SPEC,
    "gssf": gssf.SPEC,
    "maxmin": maxmin.SPEC,
    "packing": packing.SPEC,
    "lucid": lucid.SPEC,
    "gandiva": gandiva.SPEC,
    "gavel-makespan": gavel_makespan.SPEC,
    "reclaim": reclaim.SPEC,
    "sia": sia.SPEC,
    "sia-perfect": sia.PERFECT_SPEC,
    "sia-vc": sia_vc.SPEC,
    "anticipatory": anticipatory.SPEC,
    "anticipatory-perfect": anticipatory.PERFECT_SPEC,
    "planned": planned.SPEC,
    "planned-perfect": planned_perfect.SPEC,
    "ablated": ablated.SPEC,
}
