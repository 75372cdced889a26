"""Traps of GPU telemetry, by their ids; the inputs are ours, as the DCGM exporter's series look."""

from collections.abc import Callable
from pathlib import Path

import pytest
from telemetry_support import END_S, FREE, USED, UTIL, found, gpu, mig, series, verdicts

from data.telemetry.allocations import Allocation
from data.telemetry.idle import Verdict


def memory_without_use_is_not_free(folder: Path) -> None:
    result = [
        *gpu(0, 92.0, gpu="0"),
        *gpu(0, 92.0, gpu="1"),
        *gpu(0, 0.0, gpu="2"),
        *gpu(0, 0.0, gpu="3", pid="4711"),
        *gpu(0, 30.0, gpu="4"),
        *gpu(0, 30.0, gpu="5"),
        *gpu(1, 92.0, gpu="6", pod="serving", namespace="prod"),
    ]
    given = [Allocation("17", "n1", "1"), Allocation("18", "n1", "5")]
    findings = found(folder, result, given)
    assert verdicts(findings) == {
        "0": "memory-held",  # a zombie: nobody holds it
        "1": "memory-held",  # a resident service: it is not simply idle
        "2": "free",
        "3": "memory-held",  # a process without a job
        "4": "memory-held",
        "5": "idle",
        "6": "memory-held",
    }
    by_gpu = {one.device.gpu: one for one in findings.gpus}
    assert by_gpu["0"].why == "memory stays, nobody holds it"
    assert by_gpu["3"].why == "a process stays, nobody holds it"
    assert by_gpu["1"].memory_pct == pytest.approx(92.0)
    assert findings.gpu_hours[Verdict.FREE] == pytest.approx(0.5)


def idle_is_of_the_window_and_held_by_the_scheduler(folder: Path) -> None:
    used_once = [100] * 200 + [0] * 40
    idle_first = [0] * 200 + [100] * 40
    result = [
        *gpu(used_once, 20.0, gpu="0"),
        *gpu(idle_first, 20.0, gpu="1"),
        *gpu(0, 0.0, gpu="2"),
        *gpu(0, 0.0, gpu="3"),
        *gpu(0, 0.5, gpu="4"),
        *gpu(0, 0.0, gpu="5"),
    ]
    begun_s = END_S - 7200.0
    given = [Allocation("a", "n1", gpu, 1, begun_s) for gpu in "0124"]
    findings = found(folder, result, [*given, Allocation("new", "n1", "5", 1, END_S - 300.0)])
    assert verdicts(findings) == {
        "0": "idle", "1": "working", "2": "held-empty", "3": "free", "4": "idle", "5": "unknown"
    }  # fmt: skip
    first, second, empty, *_, new = findings.gpus
    assert (first.util_pct, second.util_pct) == (0.0, 100.0)
    assert first.since_s == END_S - 40 * 60
    assert not first.is_longer
    assert second.since_s is None
    assert empty.since_s == END_S - 7200.0
    assert new.why == "held for less than the window"


def not_measured_is_not_zero(folder: Path) -> None:
    result = [
        *gpu("NaN", 0.0, gpu="0"),
        *gpu(None, 0.0, gpu="1"),
        *gpu("NotSupported", 0.0, gpu="2"),
        *gpu(9223372036854775794, 0.0, gpu="3"),
        *gpu(0, None, gpu="4"),
        *gpu(["NaN"] * 20 + [0] * 100, 0.0, gpu="5"),
        *gpu([0] * 100 + ["NaN"] * 20, 0.0, gpu="6"),
        *mig(None, 0.0, "1", "1g.10gb", gpu="7"),
        series(UTIL, 0, {"gpu": "7", "GPU_I_ID": "1", "GPU_I_PROFILE": "1g.10gb"}),
        *mig(0, 0.0, "1", "1g.10gb", gpu="8"),
    ]
    findings = found(folder, result, [])
    by_gpu = {one.device.gpu: one for one in findings.gpus}
    for name in ("0", "1", "2", "3", "7"):
        assert by_gpu[name].verdict is Verdict.UNKNOWN, name
        assert by_gpu[name].util_pct is None, name
        assert by_gpu[name].why == "its utilisation was not measured"
    assert by_gpu["4"].verdict is Verdict.UNKNOWN
    assert by_gpu["4"].memory_pct is None
    assert by_gpu["5"].verdict is Verdict.FREE
    assert by_gpu["6"].why == "not measured any more"
    assert (by_gpu["8"].verdict, by_gpu["8"].util_pct) == (Verdict.FREE, 0.0)


def a_device_counts_once_and_nobodys_share_is_told(folder: Path) -> None:
    shared = [
        one
        for pod in ("a", "b", "c")
        for one in gpu(60, 40.0, gpu="0", pod=pod, namespace="lab", container="main", vgpu=pod)
    ]
    repeated = [one for vgpu in "01" for one in gpu(0, 0.0, gpu="1", vgpu=vgpu)]
    slices = [
        *mig(0.0, 0.0, "1", "3g.40gb", gpu="2", pod="m", namespace="lab"),
        *mig(0.5, 10.0, "2", "4g.40gb", gpu="2"),
        *gpu(50, 5.0, gpu="2"),  # the whole of the same device, which has no use of its own
    ]
    exporters = gpu(0, 0.0, gpu="3", pod="dcgm-exporter-x7", namespace="mon", container="dcgm-exporter")
    findings = found(folder, [*shared, *repeated, *slices, *exporters])
    assert verdicts(findings) == {
        "0": "working", "1": "free", "2/1": "held-empty", "2/2": "working", "3": "free"
    }  # fmt: skip
    assert sum(findings.gpu_hours.values()) == pytest.approx(4 * 0.5)
    sixth = pytest.approx(0.5 / 3)
    assert findings.attributed == {
        "lab/a": sixth, "lab/b": sixth, "lab/c": sixth, "lab/m": pytest.approx(0.5 * 3 / 7)
    }  # fmt: skip
    assert findings.unattributed == pytest.approx(0.5 * (1 + 4 / 7 + 1))


def slices_without_labels_are_nobodys_not_free(folder: Path) -> None:
    result = [
        *gpu(0, 0.0, gpu="0", exported_pod="p", exported_namespace="lab", pod="e", namespace="mon"),
        *gpu(0, 0.0, gpu="1"),
        *mig(0.0, 0.0, "1", "1g.10gb", gpu="2"),
    ]
    findings = found(folder, result)
    assert verdicts(findings) == {"0": "held-empty", "1": "free", "2/1": "unknown"}
    assert findings.gpus[-1].why == "nothing says who holds it"
    assert findings.attributed == {"lab/p": pytest.approx(0.5)}
    assert findings.unattributed == pytest.approx(1.0)


CASES = [
    ("T56", memory_without_use_is_not_free),
    ("T57", idle_is_of_the_window_and_held_by_the_scheduler),
    ("T58", not_measured_is_not_zero),
    ("T59", a_device_counts_once_and_nobodys_share_is_told),
    ("T59", slices_without_labels_are_nobodys_not_free),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{name}-{case.__name__}") for name, case in CASES])
def test_trap(case: Callable[[Path], None], tmp_path: Path) -> None:
    case(tmp_path)


def test_memory_is_that_of_the_last_sample_and_of_both_metrics(tmp_path):
    result = [series(UTIL, 0, {}), series(USED, [80] * 60 + [20], {}), series(FREE, [20] * 60 + [80], {})]
    (one,) = found(tmp_path, result, []).gpus
    assert one.memory_pct == 20.0
