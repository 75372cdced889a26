"""Shortest job first, by forecast life, each alone on its GPUs."""

from solver.policies.base import Lends, LevelSettings, PolicyContext, PolicySpec
from solver.policies.ssf import ShortestServiceFirst


def _build(context: PolicyContext, settings: LevelSettings) -> ShortestServiceFirst:
    return ShortestServiceFirst(
        context, settings, context.quotas, lambda job: job.pool, weight_of=lambda _job: 1.0
    )


SPEC = PolicySpec(build=_build, settings=LevelSettings, uses_lives=True, lends=Lends.NOBODY)
"""Inside each pool's own quota; a job that does not fit is passed over. Ties: (submit, id)."""
