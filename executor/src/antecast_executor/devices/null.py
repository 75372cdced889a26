"""No sharing: what a node without MPS says."""

from collections.abc import Mapping, Sequence

from antecast_executor.devices import mps, names
from antecast_executor.interfaces import Capability, DeviceError, EffectiveAt, Enforcement, InForce


class NoShare:
    """`ShareBackend` of a node where GPUs are had whole or not at all."""

    def __init__(self, reason: str) -> None:
        """Remember why there is no MPS."""
        self._reason = reason

    def ensure(self, uuid: str) -> None:
        """There is no daemon to run."""
        raise DeviceError("no_mps", f"{names.checked_uuid(uuid)}: {self._reason}")

    def client_env(
        self, uuid: str, *, share_pct: float, memory_mib: int | None, priority: int
    ) -> Mapping[str, str]:
        """A whole GPU without caps; anything else is refused. A priority has nothing to bear on."""
        names.checked_priority(priority)
        if share_pct < 100 or memory_mib is not None:
            raise DeviceError("no_mps", f"no caps without MPS: {self._reason}")
        return {"CUDA_VISIBLE_DEVICES": names.checked_uuid(uuid)}

    def set_share(self, uuid: str, pid: int | None, share_pct: float) -> InForce:  # noqa: ARG002
        """Nothing is in force."""
        names.checked_uuid(uuid)
        return InForce(
            share_pct, None, EffectiveAt.NEXT_DAEMON, Enforcement.UNSUPPORTED, f"no_mps: {self._reason}"
        )

    def clients(self, uuid: str) -> Sequence[int]:
        """None."""
        names.checked_uuid(uuid)
        return []

    def terminate_client(self, uuid: str, pid: int) -> None:  # noqa: ARG002
        """There is nothing to take away."""
        names.checked_uuid(uuid)

    def release(self, uuid: str) -> None:
        """There is nothing to stop."""
        names.checked_uuid(uuid)

    def capabilities(self) -> Sequence[Capability]:
        """Nothing, and why."""
        return mps.capabilities(False, f"no_mps: {self._reason}")
