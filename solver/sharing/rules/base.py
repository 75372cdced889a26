"""What a placement rule is: it says what each of some hypothetical placements costs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from solver.sharing.nodes import FloatArray, NodeSpec
from solver.sharing.options import Options
from solver.sharing.requests import Demand, TaskMix


class Rule(Protocol):
    """Costs of placements; the cheapest node gets the request. A cost rests on nothing but the options."""

    @property
    def is_drawn(self) -> bool:
        """Whether equal costs are settled by a draw; otherwise the first in the order of the nodes wins."""
        ...

    def cost(self, options: Options) -> FloatArray:
        """What each option costs, shape (options,); lower is better, the unit is the rule's own."""
        ...


@dataclass(frozen=True, slots=True)
class Workload:
    """What a rule may know of the cluster and of the requests to come.

    Attributes:
        specs: the nodes.
        mix: the task classes that fragmentation is measured against.
        counts: how often each class is asked for, all classes, main memory left out.
    """

    specs: tuple[NodeSpec, ...]
    mix: TaskMix
    counts: dict[Demand, float]


RuleBuilder = Callable[[Workload], Rule]
"""How a registered rule is built."""
