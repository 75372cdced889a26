"""What a GPU is called. Whatever goes into a path or a control program is checked here first."""

import re

from antecast_executor.interfaces import DeviceError

_HEX = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_GPU = re.compile(rf"GPU-{_HEX}")
_MIG = re.compile(rf"MIG-(?:{_HEX}|GPU-{_HEX}/\d+/\d+)")
_MIN_SHARE_PCT, _MAX_SHARE_PCT = 0.1, 100.0


def checked_uuid(uuid: str) -> str:
    """The UUID of a whole GPU, as it came.

    Raises:
        DeviceError: `mig` for a slice of one, `unknown_uuid` for anything else.
    """
    if _MIG.fullmatch(uuid):
        raise DeviceError("mig", f"{uuid} is a MIG slice: MPS caps are not promised there")
    if not _GPU.fullmatch(uuid):
        raise DeviceError("unknown_uuid", f"not a GPU's UUID: {uuid[:80]!r}")
    return uuid


def checked_share(share_pct: float) -> float:
    """A share, to the tenth of a per cent that the control program reads back.

    Raises:
        DeviceError: `bad_value` if it is not in (0, 100].
    """
    rounded = round(share_pct, 1)
    if not _MIN_SHARE_PCT <= rounded <= _MAX_SHARE_PCT:
        raise DeviceError("bad_value", f"a share of {share_pct:g} % is not in (0, 100]")
    return rounded


def checked_memory(memory_mib: int | None) -> int | None:
    """A memory cap. MPS takes 0 as no cap at all, and a negative one as a huge one.

    Raises:
        DeviceError: `bad_value` if it is not positive.
    """
    if memory_mib is not None and memory_mib < 1:
        raise DeviceError("bad_value", f"a memory cap of {memory_mib} MiB is not positive")
    return memory_mib


def checked_priority(priority: int) -> int:
    """A client's priority.

    Raises:
        DeviceError: `bad_value` if it is neither 0 nor 1.
    """
    if priority not in (0, 1):
        raise DeviceError("bad_value", f"priority {priority} is neither 0 nor 1")
    return priority


def mps_env(uuid: str, share_pct: float, memory_mib: int | None, priority: int) -> dict[str, str]:
    """The caps of an MPS client as it reads them once, when it starts.

    The daemon has one GPU, so that is its device 0.
    """
    env = {
        "CUDA_VISIBLE_DEVICES": uuid,
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{share_pct:g}",
        "CUDA_MPS_CLIENT_PRIORITY": str(checked_priority(priority)),
    }
    if checked_memory(memory_mib) is not None:
        env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={memory_mib}M"
    return env
