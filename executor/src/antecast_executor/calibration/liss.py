"""Moving samples from slow to fast workers of a job (Gimbal's LISS, lossless input sample stealing).

The samples of one step stay what they are, to the sample; only who takes how many changes. So the job learns
what it would have learnt, and the slow workers are no longer waited for.
"""

import math
from collections.abc import Sequence

UNEVEN = 0.10
"""A worker is slow once its forward pass takes this much longer, relatively, than that of the fastest one."""


def split(
    batch: int, speeds: Sequence[float], most: Sequence[int] = (), *, least: int = 1
) -> tuple[int, ...]:
    """Samples for each worker in proportion to its speed, within its limits, and `batch` of them in all.

    Each is less than one sample from its ideal part where no limit is in the way. Ties go to the lower index.

    Args:
        batch: samples of one step.
        speeds: samples per second of each worker, in forward passes.
        most: most samples of each worker; empty if there is no limit.
        least: fewest samples of each worker.

    Raises:
        ValueError: if a speed is not positive, or the limits leave no way to share the batch out.
    """
    if not all(speed > 0 and math.isfinite(speed) for speed in speeds):
        raise ValueError(f"speeds {tuple(speeds)} are not all positive")
    caps = [min(batch, cap) for cap in most] if most else [batch] * len(speeds)
    if len(caps) != len(speeds) or not least * len(speeds) <= batch <= sum(caps):
        raise ValueError(f"a batch of {batch} cannot be shared out between {least} and {list(most)}")
    if min(caps) < least:
        raise ValueError(f"a worker has room for {min(caps)} samples and needs {least}")
    return _rounded(batch, _ideal(batch, speeds, caps, least), caps, least)


def _ideal(batch: int, speeds: Sequence[float], caps: Sequence[int], least: int) -> list[float]:
    """Parts in proportion to speed; those that would break a limit are set to it, and the rest goes on.

    Of the two kinds only the one that moves more samples is set in a round: setting it can free the other.
    """
    parts = [0.0] * len(speeds)
    free = list(range(len(speeds)))
    left = float(batch)
    while free:
        total = sum(speeds[i] for i in free)
        wish = {i: left * speeds[i] / total for i in free}
        over = [i for i in free if wish[i] > caps[i]]
        under = [i for i in free if wish[i] < least]
        excess = sum(wish[i] - caps[i] for i in over)
        lack = sum(least - wish[i] for i in under)
        if not over and not under:
            for i in free:
                parts[i] = wish[i]
            break
        bound = over if excess >= lack else under
        for i in bound:
            parts[i] = float(caps[i]) if excess >= lack else float(least)
            left -= parts[i]
        free = [i for i in free if i not in bound]
    return parts


def _rounded(batch: int, parts: Sequence[float], caps: Sequence[int], least: int) -> tuple[int, ...]:
    """Whole samples by the largest remainder."""
    whole = [min(cap, max(least, math.floor(part))) for part, cap in zip(parts, caps, strict=True)]
    order = sorted(range(len(parts)), key=lambda i: (whole[i] - parts[i], i))
    missing = batch - sum(whole)
    while missing:
        step = 1 if missing > 0 else -1
        for i in order if missing > 0 else reversed(order):
            if missing and least <= whole[i] + step <= caps[i]:
                whole[i] += step
                missing -= step
    return tuple(whole)


def steal(batches: Sequence[int], forwards_s: Sequence[float], most: Sequence[int] = ()) -> tuple[int, ...]:
    """The same samples, shared out anew by how fast the workers were with what they had.

    Args:
        batches: samples of each worker now.
        forwards_s: seconds of a forward pass of each worker with these samples.
        most: as in `split`.

    Raises:
        ValueError: as `split`.
    """
    if len(batches) != len(forwards_s):
        raise ValueError(f"{len(batches)} workers, but {len(forwards_s)} forward passes")
    speeds = [count / seconds for count, seconds in zip(batches, forwards_s, strict=True)]
    return split(sum(batches), speeds, most)


def slow_workers(forwards_s: Sequence[float]) -> frozenset[int]:
    """Indices of the stragglers: workers that the others wait for noticeably. Empty if nothing is known."""
    if not forwards_s:
        return frozenset()
    bound_s = (1.0 + UNEVEN) * min(forwards_s)
    return frozenset(i for i, seconds in enumerate(forwards_s) if seconds > bound_s)
