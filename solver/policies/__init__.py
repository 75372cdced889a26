"""One file per policy; this registry is the only list of them."""

from solver.policies import backfill, fcfs, gssf, maxmin, reclaim, ssf
from solver.policies.base import PolicySpec

POLICIES: dict[str, PolicySpec] = {
    "fcfs": fcfs.SPEC,
    "backfill": backfill.SPEC,
    "ssf": ssf.SPEC,
    "gssf": gssf.SPEC,
    "maxmin": maxmin.SPEC,
    "reclaim": reclaim.SPEC,
}
