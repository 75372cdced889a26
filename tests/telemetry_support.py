"""Answers of Prometheus as the tests need them: one sample a minute, the last of them at `END_S`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from data.telemetry.allocations import Allocation
from data.telemetry.holding import holdings
from data.telemetry.idle import Findings, Thresholds, judge
from data.telemetry.prometheus import read_telemetry

END_S = 1_767_225_600
STEP_S = 60
UTIL = "DCGM_FI_DEV_GPU_UTIL"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
USED = "DCGM_FI_DEV_FB_USED"
FREE = "DCGM_FI_DEV_FB_FREE"

Values = float | str | Sequence[float | str]


def series(metric: str, values: Values, labels: Mapping[str, str]) -> dict[str, Any]:
    """One series; a single value is that of two hours."""
    told = [values] * 121 if isinstance(values, str | int | float) else list(values)
    first_s = END_S - STEP_S * (len(told) - 1)
    samples = [[first_s + STEP_S * k, str(value)] for k, value in enumerate(told)]
    return {"metric": {"__name__": metric, "Hostname": "n1", "gpu": "0"} | dict(labels), "values": samples}


def gpu(util: Values | None, memory_pct: float | None, **labels: str) -> list[dict[str, Any]]:
    """Utilisation and memory (of 80,000 MiB) of one GPU; None: no such series."""
    found = [] if util is None else [series(UTIL, util, labels)]
    if memory_pct is not None:
        found += [series(USED, memory_pct * 800.0, labels), series(FREE, (100 - memory_pct) * 800.0, labels)]
    return found


def mig(engine: Values | None, memory_pct: float, instance: str, profile: str, **labels: str):
    """The same of a slice; its engine activity is a share."""
    labels = {"GPU_I_ID": instance, "GPU_I_PROFILE": profile} | labels
    found = [] if engine is None else [series(ENGINE, engine, labels)]
    return found + gpu(None, memory_pct, **labels)


def answer(result: Iterable[Mapping[str, Any]]) -> str:
    """The body of an answer."""
    data = {"resultType": "matrix", "result": list(result)}
    return json.dumps({"status": "success", "data": data})


def found(
    folder: Path,
    result: Iterable[Mapping[str, Any]],
    given: Sequence[Allocation] | None = None,
    limits: Thresholds | None = None,
) -> Findings:
    """What is found in one file of these series."""
    path = folder / "telemetry.json"
    path.write_text(answer(result))
    telemetry = read_telemetry([path])
    return judge(telemetry, holdings(telemetry, given), limits or Thresholds())


def verdicts(findings: Findings) -> dict[str, str]:
    """By GPU of one node."""
    return {one.device.shown: one.verdict.value for one in findings.gpus}
