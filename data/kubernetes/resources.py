"""What pods ask for: GPUs under the names of device plugins, slices, shares, processors, memory."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from data.intake.rows import Notes, quoted
from data.intake.rules import ImportRule
from data.kubernetes.objects import Object, count, mapping, objects, text
from data.kubernetes.quantities import parse_quantity
from data.records import MILLI, MOST

Amounts = Mapping[str, Fraction]

WHOLE: Final = frozenset(
    {"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"}
)
"""Resources that count whole devices."""

_PERCENT: Final = frozenset(
    {"tencent.com/vcuda-core", "koordinator.sh/gpu-core", "aliyun.com/gpu-core.percentage"}
)
_OPAQUE: Final = frozenset(
    {
        "aliyun.com/gpu-mem", "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/gpu-memory",
        "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpu.shared",
    }
)  # fmt: skip
"""Shares whose size in devices nothing in the pod tells."""

_MIG: Final = re.compile(
    r"nvidia\.com/mig-(?P<profile>[1-7]g\.\d{1,3}gb(?:\.me)?)(?P<shared>\.shared)?", re.ASCII
)
_PRODUCT_MIG: Final = re.compile(r"-mig-(?P<profile>[1-7]g\.\d{1,3}gb)$", re.ASCII)

PRODUCTS: Final = (
    "nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator", "karpenter.k8s.aws/instance-gpu-name", "gpu.nvidia.com/class",
    "gpu.nvidia.com/model", "aliyun.accelerator/nvidia_name", "accelerator",
)  # fmt: skip
"""Labels of nodes that name the product, as selectors ask for it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for.

    Attributes:
        gpus_milli: thousandths of devices or of slices; None where that cannot be told.
        mig_profile: the slice that each is.
        gpu_type: where one is asked for.
        cpus, memory_mib: None where nothing is asked for.
    """

    gpus_milli: int | None = 0
    mig_profile: str | None = None
    gpu_type: str | None = None
    cpus: float | None = None
    memory_mib: float | None = None


def mig_profile(name: str) -> str | None:
    """The profile of a resource that counts slices (`nvidia.com/mig-1g.5gb`), shared or not."""
    found = _MIG.fullmatch(name)
    return None if found is None else found["profile"]


def product_of(label: str | None) -> tuple[str | None, str | None]:
    """GPU type and slice of a product's label: `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb` is a slice of an A100."""
    if label is None:
        return None, None
    name = label.strip().lower().removesuffix("-shared")
    found = _PRODUCT_MIG.search(name)
    return (name[: found.start()], found["profile"]) if found else (name, None)


def amounts(found: Object, notes: Notes) -> dict[str, Fraction]:
    """Quantities by resource; one that cannot be read is left out, with a note."""
    kept = {}
    for name, value in found.items():
        try:
            amount = parse_quantity(str(value))
        except ValueError:
            notes.add(ImportRule.BAD_NUMBER, f"{quoted(name)} is {quoted(value)}, a quantity is expected")
            continue
        if not 0 <= amount <= MOST * MILLI:
            notes.add(ImportRule.BAD_NUMBER, f"{quoted(name)} is {quoted(value)}, out of range")
            continue
        kept[name] = amount
    return kept


def added(parts: Iterable[tuple[int, Amounts]]) -> dict[str, Fraction]:
    """Amounts of several, each so many times."""
    total: dict[str, Fraction] = {}
    for times, part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Fraction(0)) + times * amount
    return total


def pod_amounts(spec: Object, notes: Notes) -> dict[str, Fraction]:
    """What a pod holds at most: all its containers, or one of those that run before them."""
    first = list(objects(spec.get("initContainers")))
    beside = [one for one in first if one.get("restartPolicy") == "Always"]
    at_once = [*objects(spec.get("containers")), *beside]
    total = added((1, _container(one, notes)) for one in at_once)
    for one in first:
        if one not in beside:
            for name, amount in _container(one, notes).items():
                total[name] = max(total.get(name, Fraction(0)), amount)
    return total


def _container(container: Object, notes: Notes) -> dict[str, Fraction]:
    resources = mapping(container.get("resources"))
    return amounts({**mapping(resources.get("limits")), **mapping(resources.get("requests"))}, notes)


def asked(total: Amounts, spec: Object, annotations: Object, notes: Notes) -> Asked:
    """What amounts come to; `spec` and `annotations` are those of one of the pods."""
    product, product_slice = product_of(_selected(spec))
    gpus_milli, profile = _gpus(total, spec, annotations, notes)
    memory = total.get("memory")
    return Asked(
        gpus_milli,
        profile or (product_slice if gpus_milli else None),
        product,
        float(total["cpu"]) if "cpu" in total else None,
        None if memory is None else float(memory / 2**20),
    )


def _gpus(total: Amounts, spec: Object, annotations: Object, notes: Notes) -> tuple[int | None, str | None]:
    whole = sum((amount for name, amount in total.items() if name in WHOLE), Fraction(0))
    slices = {name: amount for name, amount in total.items() if amount and _MIG.fullmatch(name)}
    percent = sum((amount for name, amount in total.items() if name in _PERCENT), Fraction(0))
    opaque = [
        name for name, amount in total.items() if amount and (name in _OPAQUE or name.endswith(".shared"))
    ]
    if opaque or len(slices) > 1 or (slices and whole):
        names = ", ".join(sorted({*opaque, *slices}))
        notes.add(ImportRule.UNKNOWN_SHARE, f"{quoted(names)} cannot be told in devices")
        return None, None
    if slices:
        name, amount = next(iter(slices.items()))
        return round(amount * MILLI), mig_profile(name)
    if whole or percent:
        return round(whole * MILLI + percent * MILLI / 100), None
    return _annotated(spec, annotations, notes), None


def _annotated(spec: Object, annotations: Object, notes: Notes) -> int | None:
    """Thousandths of a pod that names no GPU among its resources: a fraction of KAI, a claim, or none."""
    fraction = text(annotations.get("gpu-fraction"))
    if fraction is not None:
        try:
            share = parse_quantity(fraction)
        except ValueError:
            notes.add(ImportRule.BAD_GPUS, f"gpu-fraction is {quoted(fraction)}")
            return None
        return round(share * MILLI) * count(annotations.get("gpu-fraction-num-devices"), 1)
    if text(annotations.get("gpu-memory")) is not None or any(objects(spec.get("resourceClaims"))):
        notes.add(ImportRule.UNKNOWN_SHARE, "a share by memory, or a claim, cannot be told in devices")
        return None
    return 0


def _selected(spec: Object) -> str | None:
    """The product that a pod's selector asks for, or its affinity where that leaves one."""
    selector = mapping(spec.get("nodeSelector"))
    for label in PRODUCTS:
        if (found := text(selector.get(label))) is not None:
            return found
    required = mapping(
        mapping(mapping(spec.get("affinity")).get("nodeAffinity")).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
    )
    named = {value for term in objects(required.get("nodeSelectorTerms")) for value in _required(term)}
    return named.pop() if len(named) == 1 else None


def _required(term: Object) -> Iterable[str]:
    for one in objects(term.get("matchExpressions")):
        values: Any = one.get("values")
        if one.get("operator") == "In" and one.get("key") in PRODUCTS and isinstance(values, list):
            yield from (value for value in values if isinstance(value, str))
