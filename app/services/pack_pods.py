"""Shares of GPUs: files in, each request to its node by a rule, and what stays usable."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from data.readers.checked_rows import Rows
from data.readers.share_csv import read_hosts, read_pods
from data.rules import FaultLog, Rule, shown
from data.schema import WHOLE_MILLI
from domain.cluster import ANY_TYPE
from domain.errors import Fault, InputError, PlanError, SettingError
from solver.check_packing import Given, packing_faults
from solver.sharing import mig
from solver.sharing.fragmentation import expected_milli
from solver.sharing.no_room import Reason, why_no_room
from solver.sharing.nodes import NodeSpec, NodeStates, empty_states, types_of
from solver.sharing.placer import Placer, Spot
from solver.sharing.requests import Demand, Request, counted, demand_of, mix_of
from solver.sharing.rules import RULES
from solver.sharing.rules.base import Workload

ALL_RULES: Final = "all"
COVERAGE: Final = 0.95
"""Share of the requests whose classes fragmentation is measured against, as in FGD's published runs."""

_SHOWN_FAULTS: Final = 20


@dataclass(frozen=True)
class Host:
    """A node by name."""

    name: str
    spec: NodeSpec


@dataclass(frozen=True)
class Pod:
    """A request by name."""

    name: str
    request: Request


@dataclass(frozen=True)
class PackInputs:
    """What is to be packed.

    Attributes:
        hosts: nodes by name.
        pods: requests in the order in which they come.
        skipped: faults of the rows that were left out (lenient reading only).
    """

    hosts: tuple[Host, ...]
    pods: tuple[Pod, ...]
    skipped: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class Packed:
    """What a rule did.

    Attributes:
        rule: its name.
        spots: where each request went, None where it found no place; in the order of the requests.
        reasons: why, by place in that order.
        allocated_milli: thousandths of GPUs that are given out.
        fragmented_milli: thousandths that stay free and that the next request is expected not to use (FGD).
        free_cpu_milli: CPU that stays free.
    """

    rule: str
    spots: tuple[Spot | None, ...]
    reasons: Mapping[int, Reason]
    allocated_milli: int
    fragmented_milli: float
    free_cpu_milli: int


def load(nodes: Path, pods: Path, *, is_lenient: bool = False, may_share_several: bool = False) -> PackInputs:
    """Read nodes and requests.

    Args:
        nodes: CSV of nodes; a bad row is always refused.
        pods: CSV of requests.
        is_lenient: whether bad rows of requests are left out and listed instead of refused.
        may_share_several: whether a request may ask for a part of each of several GPUs.

    Raises:
        InputError: with every fault found in a file.
    """
    hosts = hosts_of(read_hosts(nodes))
    rows = read_pods(pods, is_lenient=is_lenient, may_share_several=may_share_several)
    known = rows.frame["profile"].isna() | rows.frame["profile"].isin(mig.PROFILE_NAMES)
    log = FaultLog(rows.source)
    for line, name in zip(rows.lines[~known].tolist(), rows.frame["profile"][~known].tolist(), strict=True):
        there = ", ".join(mig.PROFILE_NAMES)
        log.add(line, Rule.UNKNOWN_PROFILE, f"profile is {shown(name)}, there are: {there}")
    if log and not (is_lenient and known.any()):
        raise InputError(log.listed())
    good = replace(rows, frame=rows.frame[known.to_numpy()].reset_index(drop=True), lines=rows.lines[known])
    return PackInputs(hosts, pods_of_rows(good), (*rows.skipped, *log.listed()))


def hosts_of(rows: Rows) -> tuple[Host, ...]:
    """Nodes by name, so that the order of rows decides nothing.

    Raises:
        InputError: if GPUs are to be partitioned that cannot be.
    """
    hosts, log = [], FaultLog(rows.source)
    for line, row in zip(rows.lines.tolist(), rows.frame.to_dict("records"), strict=True):
        gpu_type = row["gpu_type"] if isinstance(row["gpu_type"], str) else ANY_TYPE
        if row["partitioned"] and mig.geometry_code(gpu_type) < 0:
            there = ", ".join(one.gpu_type for one in mig.GEOMETRIES)
            message = f"gpu_type is {shown(gpu_type)}, types with a MIG mode are: {there}"
            log.add(line, Rule.NO_MIG_MODE, message)
            continue
        amounts = int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpus"])
        spec = NodeSpec(*amounts, gpu_type if row["num_gpus"] else "", int(row["partitioned"]))
        hosts.append(Host(str(row["node"]), spec))
    if log:
        raise InputError(log.listed())
    return tuple(sorted(hosts, key=lambda host: host.name))


def pods_of_rows(rows: Rows) -> tuple[Pod, ...]:
    """Requests in the order of the rows."""
    return tuple(Pod(str(row["job_id"]), _request(row)) for row in rows.frame.to_dict("records"))


def _request(row: Mapping[Any, Any]) -> Request:
    num_gpus, kinds = int(row["num_gpus"]), row["gpu_types"]
    return Request(
        int(row["cpu_milli"]),
        int(row["memory_mib"]),
        num_gpus,
        int(row["gpu_milli"]) if num_gpus else WHOLE_MILLI,
        profile=row["profile"] if isinstance(row["profile"], str) else "",
        gpu_types=tuple(sorted(set(filter(None, kinds.split("|"))))) if isinstance(kinds, str) else (),
    )


def rules_of(text: str) -> tuple[str, ...]:
    """Rules that a comma-separated list names; `all` are all of them.

    Raises:
        SettingError: if there is no such rule, or one is named twice.
    """
    names = tuple(RULES) if text.strip() == ALL_RULES else tuple(part.strip() for part in text.split(","))
    unknown = next((name for name in names if name not in RULES), None)
    if unknown is not None:
        raise SettingError(f"unknown rule {unknown!r}; there are: {', '.join(RULES)}, or {ALL_RULES}")
    if len(set(names)) < len(names):
        raise SettingError("a rule is named twice")
    return names


def pack(inputs: PackInputs, rule: str, seed: int) -> Packed:
    """Place the requests one after another by a rule; nothing ends in between.

    Args:
        inputs: nodes and requests.
        rule: its name.
        seed: of the draws of a rule that draws.

    Raises:
        PlanError: if the packing breaks a rule of the independent checker.
    """
    specs = [host.spec for host in inputs.hosts]
    demands = demands_of([pod.request for pod in inputs.pods], specs)
    workload = workload_of(specs, demands)
    placer = Placer(specs, RULES[rule](workload), seed=seed)
    empty = empty_states(specs)
    spots: list[Spot | None] = []
    reasons: dict[int, Reason] = {}
    full: set[Demand] = set()
    for place, demand in enumerate(demands):
        spot = None if demand in full else placer.place(demand)
        spots.append(spot)
        if spot is None:
            full.add(demand)
            reasons[place] = why_no_room(placer.states, empty, demand)
    _require_sound(specs, inputs.pods, spots)
    return _packed(rule, spots, reasons, workload, placer.states, empty)


def _packed(
    rule: str,
    spots: Sequence[Spot | None],
    reasons: Mapping[int, Reason],
    workload: Workload,
    states: NodeStates,
    empty: NodeStates,
) -> Packed:
    return Packed(
        rule,
        tuple(spots),
        reasons,
        int(empty.gpu_milli.sum() - states.gpu_milli.sum()),
        float(expected_milli(states, workload.mix).sum()),
        int(states.cpu_milli.sum()),
    )


def demands_of(requests: Sequence[Request], specs: Sequence[NodeSpec]) -> list[Demand]:
    """Requests in the numbers of a cluster. Types that it lacks are passed over.

    GPUs of which nobody said a type are any type's.
    """
    types = types_of(specs)
    untyped = {ANY_TYPE}.intersection(types)
    demands = []
    for request in requests:
        known = tuple(sorted((set(request.gpu_types) & set(types)) | untyped)) if request.gpu_types else ()
        demand = demand_of(replace(request, gpu_types=known), types)
        demands.append(demand._replace(types=0) if request.gpu_types and not known else demand)
    return demands


def workload_of(specs: Sequence[NodeSpec], demands: Sequence[Demand]) -> Workload:
    """What a rule may know: the nodes, and how often each class of request comes."""
    counts = counted(demands)
    return Workload(tuple(specs), mix_of(counts, COVERAGE), dict(counts))


def _require_sound(specs: Sequence[NodeSpec], pods: Sequence[Pod], spots: Sequence[Spot | None]) -> None:
    given = [
        Given(pod.name, pod.request, spot) for pod, spot in zip(pods, spots, strict=True) if spot is not None
    ]
    faults = packing_faults(specs, given)
    if faults:
        more = [f"... and {len(faults) - _SHOWN_FAULTS} more"] if len(faults) > _SHOWN_FAULTS else []
        raise PlanError("\n".join(["the packing breaks rules:", *faults[:_SHOWN_FAULTS], *more]))


def figures(inputs: PackInputs, packed: Packed) -> dict[str, Any]:
    """The main figures of a packing; shares are per cents of all GPUs or CPUs."""
    specs = [host.spec for host in inputs.hosts]
    total_milli = WHOLE_MILLI * sum(spec.num_gpus for spec in specs)
    total_cpu_milli = sum(spec.cpu_milli for spec in specs)
    asked = demands_of([pod.request for pod in inputs.pods], specs)
    free_milli = total_milli - packed.allocated_milli
    return {
        "rule": packed.rule,
        "jobs": len(inputs.pods),
        "placed": sum(spot is not None for spot in packed.spots),
        "gpus": total_milli / WHOLE_MILLI,
        "asked_gpus": sum(one.num_gpus * one.gpu_milli for one in asked) / WHOLE_MILLI,
        "allocated_gpus": packed.allocated_milli / WHOLE_MILLI,
        "allocated_pct": _pct(packed.allocated_milli, total_milli),
        "fragmented_gpus": packed.fragmented_milli / WHOLE_MILLI,
        "fragmented_pct": _pct(packed.fragmented_milli, total_milli),
        "fragmented_of_free_pct": _pct(packed.fragmented_milli, free_milli),
        "cpu_pct": _pct(total_cpu_milli - packed.free_cpu_milli, total_cpu_milli),
        "nodes_in_use": len({spot.node for spot in packed.spots if spot is not None}),
        "left_out": dict(sorted(Counter(str(one.why) for one in packed.reasons.values()).items())),
    }


def _pct(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0
