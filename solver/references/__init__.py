"""Worlds without sharing that a schedule may be measured against, one file each.

Each is a pure function of what is known afterwards: jobs, their lengths, the pools' quotas. This registry is
the only list of them.
"""

from typing import Final

from solver.references import backfill, fcfs, priority
from solver.references.base import ReferenceSpec

REFERENCES: Final[dict[str, ReferenceSpec]] = {
    "fcfs": fcfs.SPEC,
    "backfill": backfill.SPEC,
    "priority": priority.SPEC,
}

DEFAULT: Final = "fcfs"
"""The one that the own lanes keep to, so the only one that decisions are made by."""
