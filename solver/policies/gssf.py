"""Global shortest service first: one room for all pools, and nobody is protected. Clairvoyant."""

from solver.policies.base import PolicyContext, PolicySpec
from solver.policies.ssf import ShortestServiceFirst, SsfSettings

_CLUSTER = "cluster"


def _build(context: PolicyContext, settings: SsfSettings) -> ShortestServiceFirst:
    """The rule of `ssf` over the whole cluster: quotas do not count, the least service that fits is next."""
    rooms = {_CLUSTER: sum(context.quotas.values())}
    return ShortestServiceFirst(context, settings, rooms, lambda _job: _CLUSTER)


SPEC = PolicySpec(build=_build, settings=SsfSettings, is_clairvoyant=True, uses_lives=True)
