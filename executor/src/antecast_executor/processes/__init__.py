"""Placements' process trees: start, hold, end, adopt. Light, because the supervisors import it too."""

TYPE_CHECKING = False  # the type checker knows better; typing itself is too heavy here
if TYPE_CHECKING:
    from pathlib import Path

    from antecast_executor.processes.backend import SupervisedProcesses


def make(root: "Path", means: str = "auto", *, pause_ttl_s: float = 900.0) -> "SupervisedProcesses":
    """The back-end of a node whose placements' files live under `root`.

    Raises:
        DeviceError: `unsupported` if `means` (auto, cgroup_v2, cgroup_v1, signals) cannot be used here.
    """
    from antecast_executor.processes.backend import SupervisedProcesses  # noqa: PLC0415 -- see above

    return SupervisedProcesses(root, means, pause_ttl_s=pause_ttl_s)
