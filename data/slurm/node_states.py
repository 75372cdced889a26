"""Node states in Slurm's words: base states, flags and signs, and whether jobs may be started there."""

import re
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

OPEN, CLOSED, SILENT = True, False, None
"""What a word says: jobs may start there, they may not, or nothing of that."""

_WORDS: Final = MappingProxyType(
    {
        # Base states
        "ALLOCATED": OPEN, "ALLOC": OPEN, "MIXED": OPEN, "MIX": OPEN, "IDLE": OPEN,
        "DOWN": CLOSED, "ERROR": CLOSED, "FUTURE": CLOSED, "FUTR": CLOSED, "UNKNOWN": SILENT, "UNK": SILENT,
        # Taken out by a person or by Slurm
        "DRAIN": CLOSED, "DRAINED": CLOSED, "DRAINING": CLOSED, "DRNG": CLOSED,
        "FAIL": CLOSED, "FAILING": CLOSED, "FAILG": CLOSED, "LAUNCH_FAILED": CLOSED,
        "INVAL": CLOSED, "INVALID": CLOSED, "INVALID_REG": CLOSED,
        "MAINT": CLOSED, "MAINTENANCE": CLOSED, "NOT_RESPONDING": CLOSED, "NO_RESPOND": CLOSED,
        "PERFCTRS": CLOSED, "NPC": CLOSED, "BLOCKED": CLOSED, "BLOCK": CLOSED,
        "RESERVED": CLOSED, "RESV": CLOSED, "RES": CLOSED,
        # Power and reboots: what is off is switched on for a job, what goes down is not there yet
        "POWERED_DOWN": OPEN, "POWERING_UP": OPEN, "POWER_UP": OPEN, "POW_UP": OPEN,
        "POWERING_DOWN": CLOSED, "POWER_DOWN": CLOSED, "POW_DN": CLOSED, "POWER_DRAIN": CLOSED,
        "REBOOT": CLOSED, "REBOOT_ISSUED": CLOSED, "BOOT": CLOSED,
        "REBOOT_REQUESTED": SILENT, "REBOOT_CANCEL": SILENT,
        # What says nothing of it
        "CLOUD": SILENT, "COMPLETING": SILENT, "COMP": OPEN, "DYNAMIC_NORM": SILENT, "DYNAMIC_FUTURE": CLOSED,
        "EXTERNAL": SILENT, "PLANNED": SILENT, "PLND": OPEN, "RESUME": SILENT, "UNDRAIN": SILENT,
    }
)  # fmt: skip
"""The whole vocabulary of `sinfo`, `scontrol` and the REST interface, long and short."""

_SIGNS: Final = MappingProxyType(
    {
        "*": CLOSED, "$": CLOSED, "%": CLOSED, "!": CLOSED, "^": CLOSED,
        "~": SILENT, "#": SILENT, "@": SILENT, "-": SILENT,
    }
)  # fmt: skip
"""Signs behind a state (sinfo(1), NODE STATE CODES)."""

_LONGEST: Final = 500

_PART: Final = re.compile(r"(?P<word>[A-Z_]+)(?P<signs>[*$%!^~#@\-]*)", re.ASCII)


class NodeState(NamedTuple):
    """What a node's state says.

    Attributes:
        is_available: whether jobs may be started on it; None where that is not said.
        unknown: words of it that are not in Slurm's vocabulary.
    """

    is_available: bool | None
    unknown: tuple[str, ...] = ()


def parse_node_state(text: str) -> NodeState:
    """What a state means: `IDLE+DRAIN`, `MIXED*`, `DOWN~`, `idle`, `plnd-`; any word that closes, closes.

    A word outside of the vocabulary leaves open whether jobs may start, unless another closes.
    """
    return _parsed(text[:_LONGEST])


@lru_cache(maxsize=2**10)
def _parsed(text: str) -> NodeState:
    said: list[bool | None] = []
    unknown = []
    for part in filter(None, text.strip().upper().replace(",", "+").split("+")):
        found = _PART.fullmatch(part)
        if found is None or found["word"] not in _WORDS:
            unknown.append(part)
            continue
        said.append(_WORDS[found["word"]])
        said.extend(_SIGNS[sign] for sign in found["signs"])
    if CLOSED in said:
        return NodeState(False, tuple(unknown))
    return NodeState(True if OPEN in said and not unknown else None, tuple(unknown))
