"""One stream of forecasts under watch: how often it misses, whether that drifts, whether to trust it.

A pure state machine: the same misses in the same order give the same state.
"""

import math
from dataclasses import asdict, dataclass, fields
from typing import Final, Self

from models.calibration.reliability import share_interval

MOST_LEVEL: Final = 0.9999
"""Levels beyond are taken as this: a miss of what was said to be certain must not weigh without bound."""


@dataclass(frozen=True, slots=True)
class MonitorDesign:
    """When a stream is no longer trusted, and when it is again.

    Attributes:
        memory: observations after which one weighs 1/e in the running miss rate.
        least_observed: effective number of observations before the running rate may switch anything off.
        margin: excess of the running miss rate over what was said that is put up with, as a share of it.
        confidence: one-sided, with which the rate must exceed that.
        resume_margin: excess at or below which trust returns; at most `margin`.
        run_length: observations that lie between false alarms of drift on average, at least.
        resume_drift: share of the alarm's threshold at or below which the drift is over.

    Raises:
        ValueError: if one of them is out of its range.
    """

    memory: float = 100.0
    least_observed: float = 30.0
    margin: float = 0.25
    confidence: float = 0.98
    resume_margin: float = 0.25
    run_length: float = 500.0
    resume_drift: float = 0.5

    def __post_init__(self) -> None:
        ranges = {
            "memory": 1.0 < self.memory < math.inf,
            "least_observed": 1.0 <= self.least_observed < math.inf,
            "margin": 0.0 <= self.margin < math.inf,
            "confidence": 0.5 < self.confidence < 1.0,
            "resume_margin": 0.0 <= self.resume_margin <= self.margin,
            "run_length": 1.0 < self.run_length < math.inf,
            "resume_drift": 0.0 <= self.resume_drift < 1.0,
        }
        for name, is_in in ranges.items():
            if not is_in:
                raise ValueError(f"{name} is {getattr(self, name)}, out of its range")

    @property
    def threshold(self) -> float:
        """Drift at which the alarm goes: ln `run_length`.

        The sum of likelihood ratios R_n, for which R_n - n is a martingale, bounds exp(CUSUM), so the mean
        run length is at least exp(threshold) (Lorden, Ann. Math. Stat. 42:6, 1971), whatever the levels said;
        also for misses that depend on what happened before, as long as each is no likelier than said.
        """
        return math.log(self.run_length)

    def delay_bound(self, level: float) -> float:
        """Observations within which a doubled miss rate is noticed on average, at most.

        Wald's identity for the sum that is never set back to 0: (threshold + ln 2) over the Kullback-Leibler
        divergence of the doubled rate from the one said.
        """
        allowed = 1.0 - level
        miss, hit, doubled = _steps(allowed)
        return (self.threshold + miss) / (doubled * miss + (1.0 - doubled) * hit)


def _steps(allowed: float) -> tuple[float, float, float]:
    """What a miss and a hit add to the drift, and the miss rate it looks for: twice what is allowed."""
    doubled = min(2.0 * allowed, (1.0 + allowed) / 2.0)
    return math.log(doubled / allowed), math.log((1.0 - doubled) / (1.0 - allowed)), doubled


@dataclass(slots=True)
class Track:
    """What is remembered of one stream.

    Attributes:
        observed: observations so far.
        missed: misses so far.
        weight: sum of the weights in the running rate.
        weight_squared: sum of the weights, faded twice as fast.
        missed_weight: sum of the weights of the misses.
        allowed_weight: sum of the weights, each times the chance of a miss that was said.
        drift: one-sided CUSUM of log-likelihood ratios of a doubled miss rate (Page, Biometrika 41, 1954),
            kept within [0, threshold], so that a long bad time does not take as long to be forgiven.
        run: misses in a row up to the last observation.
        longest_run: the most misses in a row so far.
        is_off: whether the stream is not trusted.
        since_s: since when that is so; the first observation, while it was never otherwise.
        last_s: instant of the last observation.
        times_off: how often trust was lost.
    """

    observed: int = 0
    missed: int = 0
    weight: float = 0.0
    weight_squared: float = 0.0
    missed_weight: float = 0.0
    allowed_weight: float = 0.0
    drift: float = 0.0
    run: int = 0
    longest_run: int = 0
    is_off: bool = False
    since_s: float = 0.0
    last_s: float = 0.0
    times_off: int = 0

    def observe(
        self, design: MonitorDesign, level: float, is_miss: bool, now_s: float, weight: float = 1.0
    ) -> None:
        """Take in one outcome and decide about trust.

        Args:
            design: of the monitor.
            level: said chance that there would be no miss, in (0, 1).
            is_miss: whether there was one.
            now_s: instant at which that became known.
            weight: in (0, 1]; below 1 where the outcome is not independent of others that are told. The bound
                on false alarms stays: the mean of a likelihood ratio's power up to 1 is at most 1 (Jensen).

        Raises:
            ValueError: if the level leaves (0, 1) or the weight (0, 1], or time is not finite or runs
                backwards.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level is {level}, must lie in (0, 1)")
        if not 0.0 < weight <= 1.0:
            raise ValueError(f"weight is {weight}, must lie in (0, 1]")
        if not math.isfinite(now_s) or (self.observed and now_s < self.last_s):
            raise ValueError(f"told of instant {now_s} after {self.last_s}")
        allowed = 1.0 - min(level, MOST_LEVEL)
        if not self.observed:
            self.since_s = now_s
        self.last_s = now_s
        self._count(design, allowed, is_miss, weight)
        miss, hit, _ = _steps(allowed)
        step = weight * (miss if is_miss else hit)
        self.drift = min(max(0.0, self.drift + step), design.threshold)
        self._decide(design, now_s)

    def _count(self, design: MonitorDesign, allowed: float, is_miss: bool, weight: float) -> None:
        kept = (1.0 - 1.0 / design.memory) ** weight
        self.observed += 1
        self.missed += is_miss
        self.weight = kept * self.weight + weight
        self.weight_squared = kept * kept * self.weight_squared + weight
        self.missed_weight = kept * self.missed_weight + weight * is_miss
        self.allowed_weight = kept * self.allowed_weight + weight * allowed
        self.run = self.run + 1 if is_miss else 0
        self.longest_run = max(self.longest_run, self.run)

    def _decide(self, design: MonitorDesign, now_s: float) -> None:
        if self.is_off:
            is_calm = self.drift <= design.resume_drift * design.threshold
            changes = is_calm and self.miss_rate <= (1.0 + design.resume_margin) * self.allowed_rate
        else:
            changes = self.is_drifting(design) or self.is_exceeding(design)
        if changes:
            self.is_off = not self.is_off
            self.since_s = now_s
            self.times_off += self.is_off

    def is_drifting(self, design: MonitorDesign) -> bool:
        """Whether the drift has reached its threshold."""
        return self.drift >= design.threshold

    def is_exceeding(self, design: MonitorDesign) -> bool:
        """Whether the running miss rate exceeds what was said by more than the margin, with confidence."""
        if self.effective_number < design.least_observed:
            return False
        return self.bounds(2.0 * design.confidence - 1.0)[0] > (1.0 + design.margin) * self.allowed_rate

    @property
    def miss_rate(self) -> float:
        """Running miss rate; 0 while nothing was observed."""
        return self.missed_weight / self.weight if self.observed else 0.0

    @property
    def allowed_rate(self) -> float:
        """Running mean of the chances of a miss that were said."""
        return self.allowed_weight / self.weight if self.observed else 0.0

    def bounds(self, confidence: float = 0.9) -> tuple[float, float]:
        """Interval of the running miss rate.

        At the effective number of observations.
        """
        number = self.effective_number
        return share_interval(min(self.miss_rate, 1.0) * number, number, confidence)

    @property
    def effective_number(self) -> float:
        """Equally weighted observations that would tell as much.

        (sum w)^2 / sum w^2 (Kish, Survey Sampling, 1965), w being what has not faded; an outcome told with
        half a weight is half an observation.
        """
        return self.weight**2 / self.weight_squared if self.observed else 0.0

    def to_state(self) -> dict[str, object]:
        """Its fields by name."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: object) -> Self:
        """The track of which `to_state` spoke.

        Raises:
            ValueError: if fields are missing, unknown, of the wrong type, or contradict each other.
        """
        track = cls(**checked_fields(cls, state))  # type: ignore[arg-type]
        in_order = (
            0 <= track.missed <= track.observed
            and 0 <= track.run <= track.longest_run <= track.missed
            and 0.0 <= track.missed_weight <= track.weight <= track.observed
            and 0.0 <= track.allowed_weight <= track.weight
            and 0.0 <= track.weight_squared <= track.weight
            and (track.weight_squared > 0) == (track.observed > 0)
            and track.drift >= 0.0
            and track.since_s <= track.last_s
            and (track.times_off > 0 or not track.is_off)
        )
        if not in_order:
            raise ValueError(f"the state of a track contradicts itself: {state}")
        return track


def checked_fields(kind: type[Track] | type[MonitorDesign], state: object) -> dict[str, int | float | bool]:
    """Values of a dataclass of numbers, each of its declared type and finite.

    Raises:
        ValueError: if `state` is no mapping of exactly its fields, or a value is of another type.
    """
    declared = {one.name: type(one.default) for one in fields(kind)}
    if not isinstance(state, dict) or state.keys() != declared.keys():
        raise ValueError(f"a {kind.__name__} has exactly the fields {sorted(declared)}")
    values: dict[str, int | float | bool] = {}
    for name, type_ in declared.items():
        value = state[name]
        is_of_type = type(value) in ((int, float) if type_ is float else (type_,))
        if not is_of_type or not math.isfinite(value):
            raise ValueError(f"{kind.__name__}.{name} is {value!r}, must be a finite {type_.__name__}")
        values[name] = value
    return values
