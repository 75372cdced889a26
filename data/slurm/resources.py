"""Resources of one job from all the columns that speak of them, each of which may be missing or wrong.

What was given comes from the allocation, what was asked for from the request, and neither is zero where
nothing is said. TRES count for all of a job; GRES are what older versions have instead.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from data.intake.rows import Note, quoted
from data.intake.rules import ImportRule
from data.records import MILLI
from data.slurm.amounts import parse_count, parse_memory, tres_entries
from data.slurm.gpus import MIG_NAME, Gpus, mig_profile, parse_gres, parse_tres

NO_GPU_COUNTS: Final = (
    "the site does not account for GPUs. Set AccountingStorageTRES=gres/gpu in slurm.conf: jobs from then on "
    "are counted. If this is a time or a partition without GPU jobs, export more"
)
"""What to do where no TRES of a file names a GPU."""

Parsed = TypeVar("Parsed")


class Words(NamedTuple):
    """Columns of one job that speak of resources, as they stand; empty where there is no such column."""

    req_tres: str = ""
    alloc_tres: str = ""
    req_gres: str = ""
    alloc_gres: str = ""
    req_cpus: str = ""
    alloc_cpus: str = ""
    req_mem: str = ""
    num_nodes: str = ""


class Resources(NamedTuple):
    """What they come to.

    Attributes:
        gpus_asked_milli, gpus_given_milli: thousandths of a GPU; None is not known.
        gpu_type, mig_profile: of all of its GPUs.
        gpu_shards: shares of `gres/shard`, where it has no other GPUs.
        cpus, memory_mib, num_nodes: of all of the job.
        notes: what was found out on the way.
        names_tres: whether any TRES is said at all.
        names_gpus: whether any GPU, share of one or percent of one is.
    """

    gpus_asked_milli: int | None = None
    gpus_given_milli: int | None = None
    gpu_type: str | None = None
    mig_profile: str | None = None
    gpu_shards: int | None = None
    cpus: float | None = None
    memory_mib: float | None = None
    num_nodes: int | None = None
    notes: tuple[Note, ...] = ()
    names_tres: bool = False
    names_gpus: bool = False


@lru_cache(maxsize=2**16)
def resources(words: Words) -> Resources:
    """Resources of a job; what cannot be read is not known, and said so."""
    notes: list[Note] = []
    asked, given = _asked_and_given(words, notes)
    kind = _kind_of(given) or _kind_of(asked)
    shards = next((one.shards for one in (given, asked) if one and one.shards and not one.total), None)
    if shards:
        text = f"{shards} shares of gres/shard are a part of a GPU that accounting does not say"
        notes.append(Note(ImportRule.SHARES_UNSIZED, text))
    cpus, memory_mib, num_nodes = _others(words, notes)
    return Resources(
        gpus_asked_milli=_milli(asked),
        gpus_given_milli=_milli(given),
        gpu_type=kind[0] if kind else None,
        mig_profile=kind[1] if kind else None,
        gpu_shards=shards,
        cpus=cpus,
        memory_mib=memory_mib,
        num_nodes=num_nodes,
        notes=tuple(notes),
        names_tres=bool(tres_entries(words.req_tres) or tres_entries(words.alloc_tres)),
        names_gpus=any(_names_gpus(one) for one in words[:4]),
    )


def _asked_and_given(words: Words, notes: list[Note]) -> tuple[Gpus | None, Gpus | None]:
    given = _one_of("Alloc", words.alloc_tres, words.alloc_gres, notes)
    asked = _one_of("Req", words.req_tres, words.req_gres, notes)
    if asked is not None and given is not None and not _is_any(asked) and _is_any(given):
        text = f"the request {quoted(words.req_tres or words.req_gres)} names no GPU, the job was given some"
        notes.append(Note(ImportRule.GPUS_DISAGREE, text))
        asked = given
    return asked, given


def _one_of(kind: str, tres: str, gres: str, notes: list[Note]) -> Gpus | None:
    """GPUs by TRES, or by GRES where TRES do not count GPUs at that site."""
    by_tres = _parsed(parse_tres, tres, ImportRule.BAD_GPUS, f"{kind}TRES", notes)
    by_gres = _parsed(parse_gres, gres, ImportRule.BAD_GPUS, f"{kind}GRES", notes)
    if by_tres is None or (by_gres is not None and _is_any(by_gres) and not _is_any(by_tres)):
        if by_tres is not None and by_gres is not None:
            text = f"{kind}TRES names no GPU, {kind}GRES {quoted(gres)} does"
            notes.append(Note(ImportRule.GPUS_DISAGREE, text))
        return by_gres
    return by_tres


def _is_any(gpus: Gpus) -> bool:
    return bool(gpus.total or gpus.shards or gpus.mps_pct)


def _milli(gpus: Gpus | None) -> int | None:
    """Thousandths of a GPU; None where shares are of a size that is not known."""
    if gpus is None:
        return None
    if gpus.total:
        return gpus.total * MILLI
    if gpus.mps_pct:
        return gpus.mps_pct * MILLI // 100
    return None if gpus.shards else 0


def _kind_of(gpus: Gpus | None) -> tuple[str | None, str | None] | None:
    """Type of device and profile of slice; None where it is not said or not one."""
    name = None if gpus is None else gpus.gpu_type
    if name is None:
        return None
    profile = mig_profile(name)
    if profile is None:
        return name, None
    return MIG_NAME.sub("", name).strip("_.:-") or None, f"{profile.slices}g.{profile.memory_gib}gb"


def _names_gpus(text: str) -> bool:
    return any(kind in text for kind in ("gpu", "gres/shard", "gres/mps", "shard:", "mps:"))


def _others(words: Words, notes: list[Note]) -> tuple[float | None, float | None, int | None]:
    req, alloc = tres_entries(words.req_tres), tres_entries(words.alloc_tres)
    cpus = _first(
        parse_count,
        (
            ("ReqCPUS", words.req_cpus),
            ("AllocCPUS", words.alloc_cpus),
            ("cpu of ReqTRES", req.get("cpu", "")),
            ("cpu of AllocTRES", alloc.get("cpu", "")),
        ),
        notes,
    )
    nodes = _first(
        parse_count,
        (
            ("NNodes", words.num_nodes),
            ("node of AllocTRES", alloc.get("node", "")),
            ("node of ReqTRES", req.get("node", "")),
        ),
        notes,
    )
    memory = _first(
        parse_memory,
        (
            ("mem of ReqTRES", req.get("mem", "")),
            ("ReqMem", words.req_mem),
            ("mem of AllocTRES", alloc.get("mem", "")),
        ),
        notes,
    )
    num_nodes = int(nodes) if nodes else None
    memory_mib = None
    if memory is not None and memory.memory_mib:
        times = {"c": cpus, "n": num_nodes, "": 1}[memory.per]
        memory_mib = memory.memory_mib * times if times else None
    return cpus or None, memory_mib, num_nodes


def _first(
    parse: Callable[[str], Parsed | None], found: tuple[tuple[str, str], ...], notes: list[Note]
) -> Parsed | None:
    values: Iterator[Parsed | None] = (
        _parsed(parse, text, ImportRule.BAD_NUMBER, what, notes) for what, text in found
    )
    return next((value for value in values if value), None)


def _parsed(
    parse: Callable[[str], Parsed | None], text: str, rule: ImportRule, what: str, notes: list[Note]
) -> Parsed | None:
    try:
        return parse(text)
    except ValueError as error:
        notes.append(Note(rule, f"{what} {quoted(text)} is taken as not known: {quoted(error)}"))
        return None
