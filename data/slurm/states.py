"""Job states in Slurm's words: the whole vocabulary of accounting and queue, and what each means here."""

import re
from types import MappingProxyType
from typing import Final

from domain.attempts import EndCause

_CAUSES: Final = MappingProxyType(
    {
        "BOOT_FAIL": EndCause.BOOT_FAIL,
        "CANCELLED": EndCause.CANCELLED,
        "COMPLETED": EndCause.COMPLETED,
        "CONFIGURING": EndCause.NOT_ENDED,
        "COMPLETING": EndCause.NOT_ENDED,
        "DEADLINE": EndCause.DEADLINE,
        "FAILED": EndCause.FAILED,
        "LAUNCH_FAILED": EndCause.BOOT_FAIL,
        "NODE_FAIL": EndCause.NODE_FAIL,
        "OUT_OF_MEMORY": EndCause.OUT_OF_MEMORY,
        "PENDING": EndCause.NOT_ENDED,
        "PREEMPTED": EndCause.PREEMPTED,
        "RECONFIG_FAIL": EndCause.BOOT_FAIL,
        "REQUEUED": EndCause.REQUEUED,
        "REQUEUE_FED": EndCause.REQUEUED,
        "REQUEUE_HOLD": EndCause.REQUEUED,
        "RESIZING": EndCause.NOT_ENDED,
        "RESV_DEL_HOLD": EndCause.NOT_ENDED,
        "REVOKED": EndCause.REVOKED,
        "RUNNING": EndCause.NOT_ENDED,
        "SIGNALING": EndCause.NOT_ENDED,
        "SPECIAL_EXIT": EndCause.REQUEUED,
        "STAGE_OUT": EndCause.NOT_ENDED,
        "STOPPED": EndCause.NOT_ENDED,
        "SUSPENDED": EndCause.NOT_ENDED,
        "TIMEOUT": EndCause.TIMEOUT,
    }
)
_SHORT: Final = MappingProxyType(
    {
        "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING",
        "DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING",
        "PR": "PREEMPTED", "R": "RUNNING", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD",
        "RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "SI": "SIGNALING", "SE": "SPECIAL_EXIT",
        "SO": "STAGE_OUT", "ST": "STOPPED", "S": "SUSPENDED", "TO": "TIMEOUT",
    }
)  # fmt: skip
_FIRST_WORD: Final = re.compile(r"[A-Za-z_]+")


def parse_state(text: str) -> EndCause | None:
    """What a state means: its first word counts, whatever follows (`CANCELLED by 1001`, `CANCELLED+`).

    A word that was cut short by a narrow column (`OUT_OF_ME+`) is the state that begins with it.

    Returns:
        None for a word that is not in Slurm's vocabulary.
    """
    found = _FIRST_WORD.match(text.strip())
    if found is None:
        return None
    word = found[0].upper()
    word = _SHORT.get(word, word)
    if word not in _CAUSES and text.strip()[found.end() :].startswith("+"):
        longer = [state for state in _CAUSES if state.startswith(word)]
        word = longer[0] if len(longer) == 1 else word
    return _CAUSES.get(word)


def cancelled_by(text: str) -> str | None:
    """Who cancelled it, of `CANCELLED by 1001`; None where that is not said."""
    _, by, actor = text.strip().partition(" by ")
    return actor.strip() or None if by else None
