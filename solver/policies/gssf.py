"""Global shortest service first: one room for all pools, and nobody is protected. Clairvoyant."""

from solver.policies.base import LevelSettings, PolicyContext, PolicySpec
from solver.policies.ssf import ShortestServiceFirst

_CLUSTER = "cluster"


def _build(context: PolicyContext, settings: LevelSettings) -> ShortestServiceFirst:
    """The rule of `ssf` over the whole cluster: quotas do not count, the least service that fits is next."""
    rooms = {_CLUSTER: sum(context.quotas.values())}
    return ShortestServiceFirst(context, settings, rooms, lambda _job: _CLUSTER)


SPEC = PolicySpec(build=_build, settings=LevelSettings, is_clairvoyant=True, uses_lives=True)
