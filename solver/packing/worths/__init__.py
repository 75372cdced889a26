"""Objectives of packing, one file each; this registry is the only list of them."""

from collections.abc import Callable, Mapping
from typing import Final

from solver.packing.books import PackingBooks
from solver.packing.worths.base import Worth
from solver.packing.worths.deadline import DeadlineWorth
from solver.packing.worths.jct import JctWorth
from solver.packing.worths.makespan import MakespanWorth

WORTHS: Final[Mapping[str, Callable[[PackingBooks], Worth]]] = {
    "jct": JctWorth,
    "deadline": DeadlineWorth,
    "makespan": MakespanWorth,
    "promise": JctWorth,
}
"""By the name of the objective. `promise` is the mean completion time where nobody's budget is broken."""
