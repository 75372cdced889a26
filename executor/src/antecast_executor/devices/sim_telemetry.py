"""Steps of pretended workers: as long as their shares make them, and uneven as real ones are."""

import random
from collections.abc import Callable, Mapping, Sequence

from antecast_executor.telemetry import Step

RateModel = Callable[[Mapping[str, float]], Mapping[str, float]]
"""From the shares in force, per cent by placement id, to steps per second by placement id."""

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
            last_s = done[-1].began_s + done[-1].length_s if done else self._began_s
            while rate > 0:
                state = draw.getstate()
                length_s = draw.lognormvariate(0.0, self._jitter) / rate
                if last_s + length_s > now_s:
                    # Not over yet: the same step is drawn again at the next look.
                    draw.setstate(state)
                    break
                done.append(Step(last_s, length_s, length_s * self._forward_part))
                last_s += length_s
            del done[:-_KEPT]
