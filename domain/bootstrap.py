"""Shares of jobs whose errors come in clusters: intervals by drawing whole blocks of time anew."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from domain.measures import quantile
from domain.shares import Share

DAY_S: Final = 86_400.0
RESAMPLES: Final = 2_000


def blocks_of(instants_s: Iterable[float], hits: Iterable[bool], block_s: float = DAY_S) -> list[Share]:
    """Jobs counted block by block of the clock, in the order of time.

    Args:
        instants_s: one per job, such as its submit; seconds.
        hits: whether the job counts, place by place.
        block_s: length of a block. Blocks without a job are no observations and are left out.

    Raises:
        ValueError: if there are not as many of one as of the other.
    """
    counted: dict[int, tuple[int, int]] = {}
    for instant_s, is_hit in zip(instants_s, hits, strict=True):
        block = int(instant_s // block_s)
        hit, total = counted.get(block, (0, 0))
        counted[block] = (hit + is_hit, total + 1)
    return [Share(*counted[block]) for block in sorted(counted)]


def bootstrap_bounds(
    blocks: Sequence[Share], *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Bounds of a true share when hits cluster inside blocks and blocks are alike and independent.

    As many blocks as there are, drawn with replacement, many times over; the percentiles of the pooled
    share of each draw (block bootstrap: Kuensch 1989; percentile interval: Efron and Tibshirani 1993,
    chapter 13). It knows no episode but those that were seen: without a hit it is (0, 0), and with hits in
    two or three blocks it is too narrow. Read it beside `clopper_pearson`, which is too narrow for
    another reason.

    Args:
        blocks: hits and jobs of each block.
        confidence: in (0, 1), (1 - confidence) / 2 in each tail.
        resamples: how many draws.
        seed: of the draws.

    Returns:
        Lower and upper bound; (0, 1) where nothing was counted.

    Raises:
        ValueError: unless 0 < confidence < 1 and there is at least one draw.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}, must lie in (0, 1)")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}, must be at least 1")
    counted = [block for block in blocks if block.total]
    if not counted:
        return 0.0, 1.0
    if not any(block.hits for block in counted):
        return 0.0, 0.0
    rng = Random(seed)  # noqa: S311 - a resample, no secret
    shares = []
    for _ in range(resamples):
        drawn = rng.choices(counted, k=len(counted))
        shares.append(sum(block.hits for block in drawn) / sum(block.total for block in drawn))
    tail = (1.0 - confidence) / 2.0
    return quantile(shares, tail), quantile(shares, 1.0 - tail)
