"""The end of the last job. The job that takes longest is protected.

The formula printed for the priority in Gimbal's paper has the opposite sign; its text says this.
"""

from collections.abc import Sequence

from antecast_executor.calibration.words import Measurement, Remaining


def value(measured: Measurement, remaining: Sequence[Remaining]) -> float:
    """Seconds until the last job ends."""
    return max(job.time_s(rate) for job, rate in zip(remaining, measured.rates, strict=True))


def priority(measured: Measurement, remaining: Sequence[Remaining], place: int) -> float:
    """The longer it still takes, the higher."""
    return remaining[place].time_s(measured.rates[place])
