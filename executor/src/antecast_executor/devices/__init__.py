"""GPUs of a node and how they are shared: NVIDIA's own means, or a simulated world."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from antecast_executor.interfaces import DeviceBackend, ShareBackend
from antecast_executor.telemetry import TelemetryMaker

CONTROL = "nvidia-cuda-mps-control"


@dataclass(frozen=True, slots=True)
class Backends:
    """What `make` makes.

    Attributes:
        telemetry: makes what tells the steps of training on this node; None where nothing does.
    """

    devices: DeviceBackend
    share: ShareBackend
    telemetry: TelemetryMaker | None = None


def make(kind: str, run: Path, *, node: str = "node", sim_gpus: int = 2, control: str = CONTROL) -> Backends:
    """The back-ends of a node.

    Args:
        kind: `nvml` for the GPUs of this machine, `sim` for a simulated world.
        run: folder for the MPS daemons' files, which has to be short, or for the world (`run`/world).
        node: name of the node, which gives simulated GPUs their UUIDs.
        sim_gpus: how many GPUs a world gets when it is made.
        control: the MPS control program.

    Raises:
        ValueError: if the kind is neither.
    """
    # Only what is asked for is imported: a node needs no simulation, and a simulation no pynvml.
    if kind == "sim":
        from antecast_executor.devices.sim_devices import SimDevices, SimShare  # noqa: PLC0415
        from antecast_executor.devices.sim_telemetry import of_node  # noqa: PLC0415
        from antecast_executor.devices.world import World  # noqa: PLC0415

        world = World.at(run / "world", node=node, gpus=sim_gpus)
        return Backends(SimDevices(world), SimShare(world), of_node)
    if kind == "nvml":
        from antecast_executor.devices.nvml import NvmlDevices  # noqa: PLC0415

        devices = NvmlDevices()
        return Backends(devices, _share(run, control, devices))
    raise ValueError(f"devices: {kind!r} is neither nvml nor sim")


def _share(run: Path, control: str, devices: DeviceBackend) -> ShareBackend:
    if shutil.which(control) is None:
        from antecast_executor.devices.null import NoShare  # noqa: PLC0415

        return NoShare(f"{control} is not on this machine")
    from antecast_executor.devices.mps import CliShare  # noqa: PLC0415

    return CliShare(run, control=control, devices=devices)
