"""Mean time to completion. The job that leaves its GPUs idle most is protected: it costs the other least."""

from collections.abc import Sequence

from antecast_executor.calibration.words import Measurement, Remaining


def value(measured: Measurement, remaining: Sequence[Remaining]) -> float:
    """Mean seconds that the jobs still take."""
    times = [job.time_s(rate) for job, rate in zip(remaining, measured.rates, strict=True)]
    return sum(times) / len(times)


def priority(measured: Measurement, remaining: Sequence[Remaining], place: int) -> float:  # noqa: ARG001
    """The less it uses its GPUs, the higher; one of unknown utilisation counts as using them all."""
    utilisation = remaining[place].utilisation
    return -1.0 if utilisation is None else -utilisation
