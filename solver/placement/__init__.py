"""Where gangs and held GPUs go on real nodes: counts of cells, a greedy rule, and a model."""

from solver.placement.greedy import place

__all__ = ["place"]
