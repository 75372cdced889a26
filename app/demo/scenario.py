"""What happens in the demonstration: two pools, what they did before, and a stream of jobs."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

SPEED: Final = 10.0
"""Seconds of cluster time per real second: a minute of cluster time is six seconds."""

QUOTAS: Final = {"vision": 4, "speech": 4}
REQUEUEABLE: Final = frozenset({"speech"})
NODES: Final = {"node-1": 4, "node-2": 4}

_JOB: Final = Path(__file__).with_name("job.py")
_STEP_MS: Final = 20
_HISTORY_S: Final = 2 * 86_400.0


@dataclass(frozen=True)
class DemoJob:
    """One job of the stream.

    Attributes:
        at_s: when it is submitted, real seconds after the stream begins.
        job_id: its id.
        pool: whose it is.
        num_gpus: its width.
        life_s: how long it runs alone, real seconds.
        fields: further fields of the submission.
    """

    at_s: float
    job_id: str
    pool: str
    num_gpus: int
    life_s: float
    fields: dict[str, Any] = field(default_factory=dict)

    def event(self) -> dict[str, Any]:
        """Its `submitted` event."""
        steps = round(self.life_s * 1e3 / _STEP_MS)
        fields = dict(self.fields)
        spec = {
            "argv": [sys.executable, "-I", "-S", str(_JOB), str(steps), str(_STEP_MS)],
            "grace_s": 1.0,
            **fields.pop("spec", {}),
        }
        job = {"pool": self.pool, "num_gpus": self.num_gpus, "spec": spec, **fields}
        return {"kind": "submitted", "job_id": self.job_id, "uid": f"submit {self.job_id}", "job": job}


def stream() -> list[DemoJob]:
    """The jobs in the order of their submission.

    Speech has more work than its quota holds while vision's GPUs idle: lending. Some of its jobs consent to
    share a GPU: squeezing. Then vision comes back with a gang as wide as its quota: guests that can be are
    sent back, and GPUs are held until one that cannot has ended. Then all of it once more, smaller.
    """
    return sorted(_jobs(), key=lambda job: (job.at_s, job.job_id))


def _jobs() -> Iterator[DemoJob]:
    shares = {"spec": {"is_shareable": True, "memory_mib": 12_000}}
    asr = {"user": "ada", "name": "train-asr"}
    for k in range(6):
        yield DemoJob(0.0, f"speech-a{k:02}", "speech", 1, 6.0 + 0.4 * k, asr)
    # The first finds idle GPUs, so it runs alone before it is squeezed; the last is a guest, who cannot be
    # sent back, when the gang comes.
    for k, (at_s, life_s) in enumerate(((1.5, 9.0), (5.0, 7.0), (10.6, 8.0))):
        yield DemoJob(at_s, f"share-{k}", "speech", 1, life_s, {"user": "kim", "name": "notebook", **shares})
    yield DemoJob(4.0, "vision-a00", "vision", 1, 5.0, {"user": "lin", "name": "eval-detector"})
    for k in range(10):
        yield DemoJob(10.0 if k < 6 else 12.0, f"speech-b{k:02}", "speech", 1, 9.0, asr)
    yield DemoJob(17.0, "vision-gang", "vision", 4, 8.0, {"user": "lin", "name": "train-detector"})
    for k in range(5):
        yield DemoJob(22.0, f"speech-c{k:02}", "speech", 1, 5.0, asr)
    for k in range(2):
        yield DemoJob(29.0, f"vision-b{k:02}", "vision", 2, 6.0, {"user": "lin", "name": "eval-detector"})
    for k in range(4):
        yield DemoJob(30.0, f"speech-d{k:02}", "speech", 1, 4.0, {"user": "kim", "name": "eval-asr"})


def history_csv(until_s: float, seed: int) -> str:
    """Two days of jobs like those of the stream, that had ended before `until_s` (cluster's clock)."""
    rng = np.random.default_rng(seed)
    lines = ["job_id,pool,submit_s,num_gpus,duration_s,user,name"]
    kinds = (
        ("speech", 1, 70.0, "ada", "train-asr", 900.0),
        ("speech", 1, 45.0, "kim", "eval-asr", 1800.0),
        ("vision", 1, 70.0, "lin", "eval-detector", 4 * 3600.0),
        ("vision", 4, 80.0, "lin", "train-detector", 12 * 3600.0),
    )
    for pool, width, life_s, user, name, gap_s in kinds:
        submit_s = until_s - _HISTORY_S + rng.exponential(gap_s)
        number = 0
        while submit_s < until_s - 3_600.0:
            for _ in range(int(rng.integers(1, 4)) if width == 1 else 1):
                duration_s = life_s * rng.lognormal(0.0, 0.25)
                lines.append(
                    f"h-{name}-{number},{pool},{submit_s:.3f},{width},{duration_s:.3f},{user},{name}"
                )
                number += 1
            submit_s += rng.exponential(gap_s)
    return "\n".join(lines) + "\n"
