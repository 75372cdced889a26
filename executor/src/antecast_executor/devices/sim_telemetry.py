"""Steps of pretended workers: as long as their shares make them, and uneven as real ones are."""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from antecast_executor.record import Record, RunState
from antecast_executor.telemetry import Step

RateModel = Callable[[Mapping[str, float]], Mapping[str, float]]
"""From the shares in force, per cent by placement id, to steps per second by placement id."""

RATE = "ANTECAST_SIM_STEPS_PER_S"
"""In a placement's environment: its steps per second alone on its GPU. Without it it tells no steps."""
USE = "ANTECAST_SIM_USE"
"""Likewise: the part of a GPU that it uses alone, in (0, 1]; 1 where it is not said."""

_KEPT = 1000
"""Steps of each placement that are remembered."""


class SimTelemetry:
    """`Telemetry` of a simulated node. The same seed and the same questions give the same steps.

    A step takes as long as the shares allow that are in force when it is looked at; the coordinator leaves
    out the step that was under way when a share changed.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        shares: Callable[[], Mapping[str, float]],
        rates: RateModel,
        *,
        seed: int,
        jitter: float = 0.02,
        forward_part: float = 0.3,
    ) -> None:
        """Pretend steps.

        Args:
            clock: monotonic, seconds.
            shares: what is in force now, per cent by placement id.
            rates: how fast that makes the placements.
            seed: of the lengths of steps.
            jitter: standard deviation of the logarithm of a step's length.
            forward_part: part of a step that is the forward pass, in (0, 1).
        """
        self._clock = clock
        self._shares = shares
        self._rates = rates
        self._seed = seed
        self._jitter = jitter
        self._forward_part = forward_part
        self._began_s = clock()
        self._ready_s: dict[str, float] = {}
        self._steps: dict[str, list[Step]] = {}
        self._random: dict[str, random.Random] = {}

    def steps(self, placement_id: str, since_s: float) -> Sequence[Step]:
        """What has been over by now."""
        self._advance()
        return [step for step in self._steps.get(placement_id, ()) if step.began_s >= since_s]

    def _advance(self) -> None:
        now_s = self._clock()
        for name, rate in sorted(self._rates(self._shares()).items()):
            done = self._steps.setdefault(name, [])
            draw = self._random.setdefault(name, random.Random(f"{self._seed}/{name}"))  # noqa: S311
            if rate <= 0:
                self._ready_s[name] = now_s
                continue
            # After a long time in which nobody has looked only the last steps matter.
            last_s = max(self._ready_s.get(name, self._began_s), now_s - _KEPT / rate)
            while True:
                state = draw.getstate()
                length_s = draw.lognormvariate(0.0, self._jitter) / rate
                if last_s + length_s > now_s:
                    # Not over yet: the same step is drawn again at the next look.
                    draw.setstate(state)
                    break
                done.append(Step(last_s, length_s, length_s * self._forward_part))
                last_s += length_s
            self._ready_s[name] = last_s
            del done[:-_KEPT]


def of_node(clock: Callable[[], float], records: Callable[[], Iterable[Record]]) -> SimTelemetry:
    """Steps of the placements of a simulated node, as their environment, shares and neighbours make them."""

    def running() -> dict[str, Record]:
        return {item.placement_id: item for item in records() if item.state is RunState.RUNNING}

    return SimTelemetry(
        clock,
        lambda: {name: _in_force_pct(item) for name, item in running().items()},
        lambda shares: _rates([item for name, item in running().items() if name in shares], shares),
        seed=0,
    )


def _in_force_pct(record: Record) -> float:
    """A share below the one that it started with is kept by time slices, or not at all."""
    started_pct = record.started_share_pct or 100.0
    if not record.is_throttled or record.share_pct is None:
        return started_pct
    return min(started_pct, record.share_pct)


def _rates(records: Sequence[Record], shares: Mapping[str, float]) -> dict[str, float]:
    """Steps per second: a world that is easy to reckon with, and no claim about real GPUs.

    Each worker wants the part of its GPU that it uses alone, or its share if that is less. Where the wishes
    come to more than the GPU, all get the same part of their wish. Workers of a job wait for the slowest.
    """
    wishes = {
        item.placement_id: min(_number(item, USE, 1.0), shares[item.placement_id] / 100.0) for item in records
    }
    wanted: dict[str, float] = {}
    for item in records:
        for uuid in item.placement.gpus:
            wanted[uuid] = wanted.get(uuid, 0.0) + wishes[item.placement_id]
    speeds: dict[str, float] = {}
    for item in records:
        crowd = max(1.0, *(wanted[uuid] for uuid in item.placement.gpus))
        alone = _number(item, RATE, 0.0)
        speed = alone * wishes[item.placement_id] / (crowd * _number(item, USE, 1.0))
        job_id = item.placement.job_id
        speeds[job_id] = min(speeds.get(job_id, math.inf), speed)
    return {item.placement_id: speeds[item.placement.job_id] for item in records}


def _number(record: Record, name: str, default: float) -> float:
    """A number above 0 in the placement's environment; the default where there is none."""
    try:
        value = float(record.placement.env.get(name, ""))
    except ValueError:
        return default
    return value if math.isfinite(value) and value > 0 else default
