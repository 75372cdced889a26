"""How fast the workers of a placement get on: what a training library tells, and what a window of it says."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Protocol

from antecast_executor.calibration import Measurement
from antecast_executor.record import Record

ROUGH = 0.1
"""Relative error of a rate of which there is one step only: nothing is known of how steps differ."""


@dataclass(frozen=True, slots=True)
class Step:
    """One training step of one worker.

    Attributes:
        began_s: on the monotonic clock of this boot.
        length_s: from its begin to that of the next.
        forward_s: of its forward pass; None if that was not measured.
    """

    began_s: float
    length_s: float
    forward_s: float | None = None


class Telemetry(Protocol):
    """Who knows the steps of the workers on this node."""

    def steps(self, placement_id: str, since_s: float) -> Sequence[Step]:
        """The steps that began at `since_s` or later and are over, oldest first; none if nothing is known."""
        ...


TelemetryMaker = Callable[[Callable[[], float], Callable[[], Iterable[Record]]], Telemetry]
"""From a monotonic clock and a look at the node's records to what tells the steps there."""


def measure(jobs: Sequence[Sequence[Sequence[Step]]]) -> Measurement:
    """What a window has seen.

    Args:
        jobs: for each job and each of its workers the steps in the window, at least one.
    """
    lengths = [[step.length_s for worker in workers for step in worker] for workers in jobs]
    return Measurement(
        rates=tuple(1.0 / fmean(row) for row in lengths),
        forwards=tuple(_forwards(workers) for workers in jobs),
        error=max(_error([step.length_s for step in workers[0]]) for workers in jobs),
    )


def _forwards(workers: Sequence[Sequence[Step]]) -> tuple[float, ...]:
    means: list[float] = []
    for steps in workers:
        known = [step.forward_s for step in steps if step.forward_s is not None]
        if not known:
            return ()
        means.append(fmean(known))
    return tuple(means)


def _error(lengths_s: Sequence[float]) -> float:
    """Of the steps of one worker: the others' are the same ones, since they wait for each other."""
    if len(lengths_s) < 2:
        return ROUGH
    return min(0.99, stdev(lengths_s) / fmean(lengths_s) / math.sqrt(len(lengths_s)))
