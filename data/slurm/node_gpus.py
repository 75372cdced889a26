"""GPUs of a node from the fields that count them, which need not agree.

A site that does not track `gres/gpu` has a CfgTRES without GPUs on nodes full of them; Gres and GresUsed are
right then (gres.conf(5), AccountingStorageTRES in slurm.conf(5)). Shards stand beside devices, not on top.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from data.slurm.durations import is_null
from data.slurm.gpus import Gpus, mig_profile, parse_gres, parse_tres

MAX_CHARACTERS: Final = 4_096

_PARENTHESES: Final = re.compile(r"\(([^()]*)\)")
_SHARED: Final = re.compile(r"(?:^|,)\s*(?:gres/)?shard:[^,()]*\(([^()]*)\)", re.IGNORECASE)
_TAKEN: Final = re.compile(r"([1-9]\d{0,8})/\d{1,9}", re.ASCII)
_PROFILE: Final = re.compile(r"[_.:](?:mig[-_])?[1-7]g\.\d{1,3}gb(?:[.+]me)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """GPUs of a node.

    Attributes:
        num_gpus: whole devices; None where nothing counts them.
        num_gpus_in_use: devices given out, whole or for a share; None where that is not said.
        gpu_type: their type where they have one and the same.
        mig_slices: slices by profile.
        num_shards: shares that devices are offered in.
        doubts: where fields disagree, what they say.
    """

    num_gpus: int | None = None
    num_gpus_in_use: int | None = None
    gpu_type: str | None = None
    mig_slices: tuple[tuple[str, int], ...] = ()
    num_shards: int = 0
    doubts: tuple[str, ...] = ()


def node_gpus(
    gres: str | None, cfg_tres: str | None = None, gres_used: str | None = None, alloc_tres: str | None = None
) -> NodeGpus:
    """GPUs of a node from its fields as they stand; None where the source has no such field.

    Raises:
        ValueError: if a field cannot be read.
    """
    if any(
        field is not None and len(field) > MAX_CHARACTERS for field in (gres, cfg_tres, gres_used, alloc_tres)
    ):
        raise ValueError(f"GPUs of a node are told in more than {MAX_CHARACTERS} characters")
    return _node_gpus(gres, cfg_tres, gres_used, alloc_tres)


@lru_cache(maxsize=2**10)
def _node_gpus(
    gres: str | None, cfg_tres: str | None, gres_used: str | None, alloc_tres: str | None
) -> NodeGpus:
    has = _gres(gres)
    tracked = None if cfg_tres is None else parse_tres(cfg_tres)
    used = _gres(gres_used)
    total, doubts = _total(has, tracked, used, is_said=gres is not None or tracked is not None)
    if total is None:
        return NodeGpus()
    slices = _slices(total)
    in_use, shares = _in_use(gres_used, used, alloc_tres, tracked)
    if in_use is not None:
        in_use += _touched(gres_used, shares, total)
    return NodeGpus(
        total.total - sum(slices.values()),
        in_use,
        _type(total),
        tuple(sorted(slices.items())),
        total.shards,
        doubts,
    )


def _total(
    has: Gpus | None, tracked: Gpus | None, used: Gpus | None, *, is_said: bool
) -> tuple[Gpus | None, tuple[str, ...]]:
    """What the node has: of Gres if it names GPUs, else of CfgTRES, else no less than is given out."""
    counted = 0 if tracked is None else tracked.total
    if has is not None and has.total:
        if tracked is None or counted == has.total:
            return has, ()
        return has, (f"Gres has {has.total} GPUs, CfgTRES {counted}",)
    if tracked is not None and counted:
        return tracked, () if has is None else (f"Gres has no GPU, CfgTRES {counted}",)
    if used is not None and used.total:
        return used, (f"only GresUsed names GPUs: {used.total}, and there may be more",)
    return (has or tracked or Gpus()) if is_said else None, ()


def _in_use(
    gres_used: str | None, used: Gpus | None, alloc_tres: str | None, tracked: Gpus | None
) -> tuple[int | None, int]:
    """Whole devices given out, and shards; GresUsed counts them however the site accounts."""
    if used is not None or (gres_used is not None and is_null(gres_used) and not alloc_tres):
        return (None, 0) if used is None else (_whole(used), used.shards)
    if alloc_tres is None or tracked is None or not (tracked.total or tracked.shards):
        return None, 0
    given = parse_tres(alloc_tres) or Gpus()
    return _whole(given), given.shards


def _touched(gres_used: str | None, shares: int, total: Gpus) -> int:
    """Devices that shards are used of: `shard:2(1/4,1/4)` says which, else the fewest that can hold them."""
    listed = _SHARED.search(gres_used or "")
    if listed is not None:
        return len(_TAKEN.findall(listed[1]))
    if not shares or not total.shards or not total.total:
        return 0
    of_each = max(1, total.shards // total.total)
    return -(-shares // of_each)


def _gres(text: str | None) -> Gpus | None:
    return None if text is None else parse_gres(_PARENTHESES.sub("", text))


def _slices(gpus: Gpus) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, count in gpus.by_type.items():
        profile = mig_profile(name)
        if profile is not None:
            key = f"{profile.slices}g.{profile.memory_gib}gb"
            found[key] = found.get(key, 0) + count
    return found


def _whole(gpus: Gpus) -> int:
    return gpus.total - sum(_slices(gpus).values())


def _type(gpus: Gpus) -> str | None:
    types = {_PROFILE.sub("", name) for name in gpus.by_type}
    return next(iter(types)) or None if len(types) == 1 else None
