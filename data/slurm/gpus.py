"""GPUs in Slurm's resource strings: TRES of accounting, GRES of nodes and requests (gres.conf(5)).

`gres/gpu` without a type is the total and typed entries split it, so the two are never added up
(`gres/gpu:a100=1,gres/gpu=1` is one GPU). Shards and MPS percents are shares of devices, not devices.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from data.slurm.durations import is_null

UNTYPED: Final = ""
"""Type of GPUs whose type is not said."""

_COUNT: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([KMGTPE]?)", re.ASCII | re.IGNORECASE)
_SCALE: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
_INDICES: Final = re.compile(r"\((?:IDX|S|CNT):[^()]*\)", re.IGNORECASE)
MIG_NAME: Final = re.compile(
    r"(?:^|[_.:])(?:mig[-_])?(?P<slices>[1-7])g\.(?P<memory_gib>\d{1,3})gb(?:\.me|\+me)?$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of a job or a node.

    Attributes:
        by_type: whole devices or MIG slices by type, types in lower case, `UNTYPED` where not said; none is
            zero.
        shards: shares of `gres/shard`.
        mps_pct: percent of a device of `gres/mps`.
    """

    by_type: dict[str, int] = field(default_factory=dict)
    shards: int = 0
    mps_pct: int = 0

    @property
    def total(self) -> int:
        """Devices and slices of all types."""
        return sum(self.by_type.values())

    @property
    def gpu_type(self) -> str | None:
        """The type of all of them; None where they differ or it is not said."""
        types = set(self.by_type)
        return next(iter(types)) if len(types) == 1 and UNTYPED not in types else None


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A slice of a GPU, as in `1g.5gb`.

    Attributes:
        slices: compute slices of seven.
        memory_gib: memory as the profile's name has it.
    """

    slices: int
    memory_gib: int


def mig_profile(gpu_type: str) -> MigProfile | None:
    """The MIG profile a type ends in (`a100_1g.5gb`, `nvidia_a100_3g.20gb`); None for a whole device."""
    found = MIG_NAME.search(gpu_type)
    return None if found is None else MigProfile(int(found["slices"]), int(found["memory_gib"]))


def parse_tres(text: str) -> Gpus | None:
    """GPUs of a TRES string such as `cpu=8,mem=64G,gres/gpu=4,gres/gpu:a100=4`.

    Returns:
        None where the string is empty or stands for nothing: unknown, which is not zero. A string that
        names other resources and no GPU has zero.

    Raises:
        ValueError: if an entry is not `name=count`, or typed entries exceed the total.
    """
    if is_null(text):
        return None
    found = _Counts()
    for entry in filter(None, map(str.strip, text.split(","))):
        name, equals, count = entry.partition("=")
        if not equals or not name:
            raise ValueError(f"{entry!r} in a TRES string is not name=count")
        kind, _, gpu_type = name.removeprefix("gres/").partition(":")
        if name.startswith("gres/") and kind in _KINDS:
            found.add(kind, gpu_type, _count(count, entry), entry)
    return found.gpus(text)


def parse_gres(text: str) -> Gpus | None:
    """GPUs of a GRES string such as `gpu:a100:4(S:0-1),gpu:2,shard:8(IDX:0-3)`; a name alone counts one.

    Returns:
        None where the string is empty or stands for nothing (`(null)`, `N/A`): unknown, which is not zero.

    Raises:
        ValueError: if a count is no number.
    """
    if is_null(text):
        return None
    found = _Counts()
    for entry in filter(None, map(str.strip, _INDICES.sub("", text).split(","))):
        kind, *rest = entry.removeprefix("gres/").replace("=", ":").split(":")
        if kind.lower() not in _KINDS:
            continue
        last = rest[-1] if rest else "1"
        has_count = bool(_COUNT.fullmatch(last))
        gpu_type = ":".join(rest[:-1] if has_count else rest)
        found.add(kind.lower(), gpu_type, _count(last if has_count else "1", entry), entry)
    return found.gpus(text, is_total_untyped=False)


_KINDS: Final = frozenset({"gpu", "shard", "mps"})


class _Counts:
    def __init__(self) -> None:
        self._by_kind: dict[str, Counter[str]] = {kind: Counter() for kind in _KINDS}

    def add(self, kind: str, gpu_type: str, count: int, entry: str) -> None:
        if count < 0:
            raise ValueError(f"{entry!r} counts below zero")
        self._by_kind[kind][gpu_type.lower()] += count

    def gpus(self, text: str, *, is_total_untyped: bool = True) -> Gpus:
        """What was counted; with `is_total_untyped` the untyped entry is the total of all types."""
        gpus, shards, mps = (
            _split_total(self._by_kind[kind], text) if is_total_untyped else self._by_kind[kind]
            for kind in ("gpu", "shard", "mps")
        )
        kept = {name: count for name, count in sorted(gpus.items()) if count}
        return Gpus(kept, sum(shards.values()), sum(mps.values()))


def _split_total(counted: Counter[str], text: str) -> dict[str, int]:
    """Counts by type of which the untyped one is what the others leave of it."""
    by_type = dict(counted)
    if UNTYPED in by_type:
        typed = sum(count for name, count in by_type.items() if name)
        by_type[UNTYPED] -= typed
        if by_type[UNTYPED] < 0:
            raise ValueError(f"{text!r} has {typed} by type and {by_type[UNTYPED] + typed} in all")
    return by_type


def _count(text: str, entry: str) -> int:
    found = _COUNT.fullmatch(text)
    value = float(found[1]) * _SCALE[found[2].upper()] if found else -0.5
    if not value.is_integer():
        raise ValueError(f"{entry!r} does not end in a whole count")
    return int(value)
