"""Which waiting job may ride along on the GPU of one that runs, live: consenting pairs of one GPU each.

The host is squeezed and the rider starts beside it; when either ends, the other has the GPU alone again.
Nobody is packed who has not consented, so the promise to everybody else is untouched. A first rule: no rates,
no gangs.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

HOST_SHARE_PCT: Final = 60.0
RIDER_SHARE_PCT: Final = 40.0
"""Together the whole GPU, in the steps of 10 % that Gimbal's LGRR uses."""

CONTEXT_MIB: Final = 512
"""Memory that a second context and the sharing server take, kept free."""


class Packable(NamedTuple):
    """A consenting job of one GPU.

    Attributes:
        job_id: its id.
        memory_mib: most GPU memory it uses, as its record says.
        gpu_memory_mib: memory of the GPU it runs on; 0 for one that waits.
    """

    job_id: str
    memory_mib: int
    gpu_memory_mib: int = 0


class Pair(NamedTuple):
    """A rider and its host."""

    rider: str
    host: str


def pair_up(riders: Sequence[Packable], hosts: Iterable[Packable]) -> list[Pair]:
    """Pair each rider, in order, with the first host whose GPU holds both; a host takes one rider."""
    free = list(hosts)
    pairs: list[Pair] = []
    for rider in riders:
        fits = (
            host for host in free if host.memory_mib + rider.memory_mib + CONTEXT_MIB <= host.gpu_memory_mib
        )
        host = next(fits, None)
        if host is not None:
            free.remove(host)
            pairs.append(Pair(rider.job_id, host.job_id))
    return pairs
