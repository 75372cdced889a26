"""What every device back-end promises, tried on the simulated world and on NVML over a stub library."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antecast_executor import devices
from antecast_executor.devices.world import World
from antecast_executor.interfaces import DeviceError, Reading

MIB = 1024 * 1024


def _only(backend: Any, uuid: str) -> Any:
    return next(item for item in backend.devices() if item.uuid == uuid)


def test_every_gpu_is_listed_with_its_readings(gpus: Any) -> None:
    first, second = gpus.backend.devices()
    assert (first.index, second.index) == (0, 1)
    assert first.uuid != second.uuid
    assert first.uuid.startswith("GPU-")
    assert first.memory_total_mib == Reading(81_559)
    assert first.memory_reserved_mib == Reading(561)
    assert first.memory_used_mib == Reading(0)
    assert first.temperature_c == Reading(40)
    assert (first.is_lost, first.is_mig) == (False, False)


def test_readings_are_taken_anew(gpus: Any) -> None:
    uuid = gpus.backend.devices()[0].uuid
    gpus.set_temperature(uuid, 71)
    assert _only(gpus.backend, uuid).temperature_c == Reading(71)


def test_a_process_and_its_memory_are_seen(gpus: Any, eventually: Callable[..., Any]) -> None:
    uuid, other = (item.uuid for item in gpus.backend.devices())
    assert list(gpus.backend.processes(uuid)) == []
    pid = gpus.use(uuid, 1500)
    found = eventually(lambda: gpus.backend.processes(uuid), "the process on the GPU")
    assert [(item.pid, item.memory_used_mib) for item in found] == [(pid, Reading(1500))]
    assert _only(gpus.backend, uuid).memory_used_mib == Reading(1500)
    assert list(gpus.backend.processes(other)) == []


def test_a_lost_gpu_is_named_and_hides_no_other(gpus: Any) -> None:
    lost, kept = gpus.backend.devices()
    gpus.lose(lost.uuid)
    now = {item.uuid: item for item in gpus.backend.devices()}
    assert set(now) == {lost.uuid, kept.uuid}
    assert now[kept.uuid] == kept
    gone = now[lost.uuid]
    assert gone.is_lost
    assert gone.reason == "lost"
    assert gone.memory_used_mib == gone.temperature_c == gone.utilisation_pct == Reading(None, "lost")
    with pytest.raises(DeviceError) as caught:
        gpus.backend.processes(lost.uuid)
    assert caught.value.code == "lost"
    gpus.bring_back(lost.uuid)
    assert _only(gpus.backend, lost.uuid) == lost


def test_mig_is_noticed(gpus: Any) -> None:
    uuid = gpus.backend.devices()[1].uuid
    gpus.set_mig(uuid)
    assert [item.is_mig for item in gpus.backend.devices()] == [False, True]


def test_an_unknown_gpu_is_refused(gpus: Any) -> None:
    with pytest.raises(DeviceError) as caught:
        gpus.backend.processes("GPU-00000000-0000-0000-0000-000000000000")
    assert caught.value.code == "unknown_uuid"


@pytest.mark.parametrize("code", ["no_driver", "version_mismatch"])
def test_a_driver_that_goes_away_is_said_and_its_return_noticed(gpus: Any, code: str) -> None:
    before = gpus.backend.devices()
    gpus.break_driver(code)
    with pytest.raises(DeviceError) as caught:
        gpus.backend.devices()
    assert caught.value.code == code
    capability = gpus.backend.capabilities()[0]
    assert not capability.supported
    assert code in capability.reason
    gpus.mend_driver()
    assert gpus.backend.devices() == before
    assert gpus.backend.capabilities()[0].supported


def test_after_close_it_can_be_used_again(gpus: Any) -> None:
    before = gpus.backend.devices()
    gpus.backend.close()
    gpus.backend.close()
    assert gpus.backend.devices() == before


# NVML only


@pytest.mark.parametrize(
    ("code", "reason"), [(3, "not_supported"), (4, "no_permission"), (13, "not_supported"), (999, "error")]
)
def test_a_reading_that_fails_is_none_with_a_reason(nvml: Any, code: int, reason: str) -> None:
    nvml.set(gpu0__temp_error=code, gpu0__util_error=code)
    device = nvml.backend.devices()[0]
    assert device.temperature_c == device.utilisation_pct == Reading(None, reason)
    assert device.memory_total_mib == Reading(81_559)
    assert not device.is_lost


@pytest.mark.parametrize("code", [pytest.param(3, id="T58")])
def test_a_gpu_in_slices_has_no_utilisation_and_that_is_not_zero(nvml: Any, code: int) -> None:
    uuid = nvml.backend.devices()[0].uuid
    nvml.set_mig(uuid)
    nvml.set(gpu0__util_error=code)
    sliced, whole = nvml.backend.devices()[:2]
    assert sliced.is_mig
    assert sliced.utilisation_pct == Reading(None, "not_supported")
    assert whole.utilisation_pct.value is not None
    assert nvml.backend.capabilities()[0].supported


@pytest.mark.parametrize("code", [2, 3, 13, 25])
def test_an_old_driver_says_used_and_reserved_as_one(nvml: Any, code: int) -> None:
    nvml.set(gpu0__memory_v2_error=code, gpu0__used=1000 * MIB)
    device = nvml.backend.devices()[0]
    assert device.memory_used_mib == Reading(1561)
    assert device.memory_reserved_mib == Reading(None, "not_supported")


def test_memory_that_cannot_be_read_is_not_zero(nvml: Any) -> None:
    nvml.set(gpu0__memory_v2_error=3, gpu0__memory_error=3)
    device = nvml.backend.devices()[0]
    nothing = Reading(None, "not_supported")
    assert device.memory_total_mib == device.memory_used_mib == device.memory_reserved_mib == nothing


def test_a_gpu_lost_while_it_is_read_is_lost(nvml: Any) -> None:
    nvml.set(gpu1__temp_error=15)
    first, second = nvml.backend.devices()
    assert not first.is_lost
    assert second.is_lost
    assert second.temperature_c == Reading(None, "lost")


def test_a_gpu_that_is_lost_before_it_was_ever_seen_has_no_name(nvml: Any) -> None:
    nvml.set(gpu0__handle=15)
    first, second = nvml.backend.devices()
    assert (first.uuid, first.index, first.is_lost, first.reason) == ("", 0, True, "lost")
    assert not second.is_lost


def test_a_gpu_that_vanishes_without_a_word_is_missed(nvml: Any) -> None:
    lost = nvml.backend.devices()[1].uuid
    nvml.set(count=1)
    device = _only(nvml.backend, lost)
    assert (device.is_lost, device.reason) == (True, "not_found")
    assert len(nvml.backend.devices()) == 2


def test_gpus_are_known_by_uuid_when_indices_change(nvml: Any) -> None:
    first, second = nvml.backend.devices()
    nvml.set(gpu0__uuid=second.uuid, gpu1__uuid=first.uuid)
    now = nvml.backend.devices()
    assert [(item.uuid, item.index, item.is_lost) for item in now] == [
        (second.uuid, 0, False),
        (first.uuid, 1, False),
    ]


def test_mps_clients_are_listed_once_and_memory_may_be_unknown(nvml: Any) -> None:
    nvml.set(gpu0__procs="7:na", gpu0__mps_procs=f"7:na,9:{5 * MIB}")
    uuid = nvml.backend.devices()[0].uuid
    assert [(item.pid, item.memory_used_mib) for item in nvml.backend.processes(uuid)] == [
        (7, Reading(None, "not_supported")),
        (9, Reading(5)),
    ]


def test_a_library_without_the_mps_list_does(nvml: Any) -> None:
    nvml.set(gpu0__procs=f"7:{MIB}", gpu0__mps_procs_error=13)
    uuid = nvml.backend.devices()[0].uuid
    assert [item.pid for item in nvml.backend.processes(uuid)] == [7]


def test_a_code_the_binding_does_not_know_is_an_error_in_words(nvml: Any) -> None:
    uuid = nvml.backend.devices()[0].uuid
    nvml.set(gpu0__procs_error=77)
    with pytest.raises(DeviceError, match="77") as caught:
        nvml.backend.processes(uuid)
    assert caught.value.code == "error"


def test_without_the_library_it_says_so(tmp_path: Path) -> None:
    """In a process of its own: a machine with a driver has the library on its path."""
    script = (
        "import ctypes\n"
        "def no_library(name, *rest, **more): raise OSError(name)\n"
        "ctypes.CDLL = no_library\n"
        "from antecast_executor.devices.nvml import NvmlDevices\n"
        "from antecast_executor.interfaces import DeviceError\n"
        "try: NvmlDevices().devices()\n"
        "except DeviceError as error: raise SystemExit(error.code)\n"
    )
    source = Path(__file__).parents[1] / "src"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.stderr.strip() == "no_library"


# The world only


def test_a_world_outlives_who_made_it(tmp_path: Path) -> None:
    first = devices.make("sim", tmp_path, node="n1", sim_gpus=3).devices
    uuids = [item.uuid for item in first.devices()]
    World(tmp_path / "world").set_gpu(uuids[2], is_lost=True)
    again = devices.make("sim", tmp_path, node="n1", sim_gpus=8).devices
    assert [(item.uuid, item.is_lost) for item in again.devices()] == [
        (uuids[0], False),
        (uuids[1], False),
        (uuids[2], True),
    ]


def test_a_nodes_name_gives_its_gpus_their_uuids(tmp_path: Path) -> None:
    def uuids(folder: str, node: str) -> list[str]:
        return [item.uuid for item in devices.make("sim", tmp_path / folder, node=node).devices.devices()]

    assert uuids("a", "n1") == uuids("b", "n1")
    assert not set(uuids("a", "n1")) & set(uuids("c", "n2"))


def test_a_damaged_world_is_an_error(tmp_path: Path) -> None:
    backend = devices.make("sim", tmp_path).devices
    (tmp_path / "world" / "world.json").write_text("{")
    with pytest.raises(DeviceError) as caught:
        backend.devices()
    assert caught.value.code == "error"


def test_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither nvml nor sim"):
        devices.make("cuda", tmp_path)


def test_without_a_control_program_there_is_no_sharing(tmp_path: Path) -> None:
    share = devices.make("nvml", tmp_path, control="no-such-program").share
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    assert not any(item.supported for item in share.capabilities())
    assert share.client_env(uuid, share_pct=100, memory_mib=None, priority=0) == {
        "CUDA_VISIBLE_DEVICES": uuid
    }
    for refused in (
        lambda: share.ensure(uuid),
        lambda: share.client_env(uuid, share_pct=50, memory_mib=None, priority=0),
        lambda: share.client_env(uuid, share_pct=100, memory_mib=1024, priority=0),
    ):
        with pytest.raises(DeviceError) as caught:
            refused()
        assert caught.value.code == "no_mps"
