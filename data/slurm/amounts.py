"""What jobs asked for and were given beside GPUs, in Slurm's words: processors, memory, nodes."""

import re
from typing import Final, NamedTuple

from data.slurm.durations import is_null

_MEMORY: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGTPE]?)([cn]?)", re.ASCII | re.IGNORECASE)
_MIB: Final = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3, "E": 1024.0**4}
_COUNT: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMG]?)", re.ASCII)
_TIMES: Final = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3}


class Memory(NamedTuple):
    """An amount of memory.

    Attributes:
        memory_mib: MiB.
        per: what it is for: `c` each processor, `n` each node, empty all of the job.
    """

    memory_mib: float
    per: str


def parse_memory(text: str) -> Memory | None:
    """Memory as the column ReqMem or an entry `mem=` has it: `64G`, `4000Mc`, `1.50T`; bare numbers are MiB.

    Returns:
        None where nothing is said.

    Raises:
        ValueError: if it is no amount of memory.
    """
    if is_null(text):
        return None
    found = _MEMORY.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no amount of memory: a number and K, M, G or T")
    return Memory(float(found[1]) * _MIB[found[2].upper()], found[3].lower())


def parse_count(text: str) -> float | None:
    """A count of processors or nodes, which large ones shorten (`1.5K`).

    Returns:
        None where nothing is said.

    Raises:
        ValueError: if it is no count.
    """
    if is_null(text):
        return None
    found = _COUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no count")
    return float(found[1]) * _TIMES[found[2]]


def tres_entries(text: str) -> dict[str, str]:
    """Entries of a TRES string, `name=count` each; those that are none are left out."""
    pairs = (entry.partition("=") for entry in text.split(","))
    return {name.strip(): count for name, equals, count in pairs if equals}
