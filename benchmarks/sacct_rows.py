"""Lines as `sacct --parsable2` prints them, as many as wanted, with what real files have mixed in."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

ZONE = ZoneInfo("Europe/Zurich")
BEGIN_S = datetime(2024, 8, 1, tzinfo=UTC).timestamp()
ROWS_PER_DAY = 10_000
HEADER = (
    "JobIDRaw|JobID|Cluster|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|Suspended"
    "|TimelimitRaw|NNodes|NodeList|ReqCPUS|ReqMem|ReqTRES|AllocTRES|Reason|JobName"
)
_BLOCK = 20_000
_STATES = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1021", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED")
_STATE_SHARES = (0.62, 0.13, 0.07, 0.13, 0.02, 0.01, 0.02)
_LIMITS = ("60", "240", "1440", "2880", "10080", "UNLIMITED", "Partition_Limit", "")
_LIMIT_SHARES = (0.2, 0.2, 0.25, 0.2, 0.08, 0.03, 0.02, 0.02)
_TYPES = ("a100", "h100", "v100", "a100_1g.5gb")
_TYPE_SHARES = (0.6, 0.2, 0.17, 0.03)
_WIDTHS = (0, 1, 2, 4, 8)
_WIDTH_SHARES = (0.15, 0.55, 0.12, 0.12, 0.06)


@dataclass(frozen=True, slots=True)
class Odd:
    """What is not usual about a line; `{job}` and `{next}` stand for its job and the one after it."""

    raw: str = "{job}"
    shown: str = "{job}"
    name: str | None = None
    state: str | None = None
    has_run: bool = True
    is_later: bool = False
    is_suspended: bool = False
    gpus: str | None = None
    encoding: str = "utf-8"


_ODD = (
    (0.02, (Odd(raw="{job}.batch", shown="{job}.batch", name="batch"),)),
    (0.005, (Odd(), Odd())),
    (0.01, (Odd(state="REQUEUED"), Odd(is_later=True))),
    (0.03, (Odd(state="CANCELLED by 1021", has_run=False),)),
    (0.005, (Odd(name="a|b"),)),
    (0.01, (Odd(name="d\u00e9d\u00e9 {job}"),)),
    (0.001, (Odd(name="x\u202e{job}"),)),
    (0.0002, (Odd(name="d\u00e9j\u00e0 {job}", encoding="latin-1"),)),
    (0.001, (Odd(state="TELEPORTED"),)),
    (0.0005, (Odd(raw="", shown=""),)),
    (0.002, (Odd(shown="{job}_[1-40%4]", state="PENDING", has_run=False),)),
    (0.004, (Odd(shown="{job}+0"), Odd(raw="{next}", shown="{job}+1"))),
    (0.005, (Odd(gpus="gres/shard=2"),)),
    (0.005, (Odd(is_suspended=True),)),
)
_USUAL = Odd()


@lru_cache(maxsize=4_096)
def _hour_text(hour: int) -> str:
    return datetime.fromtimestamp(hour * 3600, ZONE).strftime("%Y-%m-%dT%H")


def _stamp(instant_s: int) -> str:
    """As the cluster's clock showed it: an hour in October comes twice."""
    hour, past = divmod(instant_s, 3600)
    return f"{_hour_text(hour)}:{past // 60:02d}:{past % 60:02d}"


def sacct_lines(num_rows: int, seed: int) -> Iterator[bytes]:
    """The header and so many lines, by submission."""
    rng = np.random.Generator(np.random.PCG64(seed))
    yield f"{HEADER}\n".encode()
    written = 0
    job = 1_000_000
    while written < num_rows:
        block = _Block(rng, BEGIN_S + written / ROWS_PER_DAY * 86_400, job)
        for line in block.lines():
            if written == num_rows:
                return
            written += 1
            yield line
        job = block.next_job


def write_sacct(path: Path, num_rows: int, seed: int) -> None:
    """A file of so many lines."""
    with path.open("wb") as file:
        file.writelines(sacct_lines(num_rows, seed))


class _Block:
    """Some thousand jobs in a row; everything random is drawn at once."""

    def __init__(self, rng: np.random.Generator, begin_s: float, job: int) -> None:
        self.next_job = job
        span_s = _BLOCK / ROWS_PER_DAY * 86_400
        self.submit = (begin_s + np.sort(rng.random(_BLOCK)) * span_s).astype(np.int64).tolist()
        self.wait = rng.lognormal(5.0, 2.0, _BLOCK).astype(np.int64).tolist()
        self.life = (1 + rng.lognormal(6.5, 2.2, _BLOCK)).clip(1, 864_000).astype(np.int64).tolist()
        self.state = rng.choice(_STATES, _BLOCK, p=np.array(_STATE_SHARES)).tolist()
        self.limit = rng.choice(_LIMITS, _BLOCK, p=np.array(_LIMIT_SHARES)).tolist()
        self.kind = rng.choice(_TYPES, _BLOCK, p=np.array(_TYPE_SHARES)).tolist()
        self.width = rng.choice(_WIDTHS, _BLOCK, p=np.array(_WIDTH_SHARES)).tolist()
        self.user = rng.zipf(1.3, _BLOCK).clip(1, 400).tolist()
        self.name = rng.zipf(1.2, _BLOCK).clip(1, 5_000_000).tolist()
        self.cores = rng.choice((1, 4, 8, 16, 32), _BLOCK).tolist()
        self.array = (rng.random(_BLOCK) < 0.25).tolist()
        self.energy = np.where(rng.random(_BLOCK) < 0.3, rng.integers(1, 10**9, _BLOCK), 0).tolist()
        self.odd = np.searchsorted(
            np.cumsum([share for share, _ in _ODD]), rng.random(_BLOCK), side="right"
        ).tolist()

    def lines(self) -> Iterator[bytes]:
        array = task = 0
        for k in range(_BLOCK):
            job = self.next_job
            self.next_job += 1
            if self.odd[k] < len(_ODD):
                task = 0
                for odd in _ODD[self.odd[k]][1]:
                    self.next_job += odd.raw == "{next}"
                    yield self._line(k, job, odd.raw.format(job=job, next=job + 1), odd)
            elif self.array[k]:
                array, task = (array, task + 1) if 0 < task < 40 else (job, 1)
                yield self._line(k, job, str(job), _USUAL, f"{array}_{task}")
            else:
                task = 0
                yield self._line(k, job, str(job), _USUAL)

    def _line(self, k: int, job: int, raw: str, odd: Odd, shown: str | None = None) -> bytes:
        cores, user, life_s = self.cores[k], self.user[k], self.life[k]
        submit_s = self.submit[k] + (self.wait[k] + life_s) * odd.is_later
        start_s = submit_s + self.wait[k]
        suspended_s = life_s // 2 * odd.is_suspended
        state = odd.state or self.state[k]
        asked, given = self._tres(k, odd)
        name = (odd.name or f"train-{self.name[k]}").format(job=job)
        minutes, seconds = divmod(suspended_s, 60)
        fields = (
            raw, shown or odd.shown.format(job=job), "alpha", f"u{user:03d}", f"g{user % 20:02d}",
            "gpu" if self.width[k] else "cpu", "normal", state, _stamp(submit_s), _stamp(submit_s),
            _stamp(start_s) if odd.has_run else "None",
            "Unknown" if state == "PENDING" else _stamp(start_s + life_s),
            str(life_s - suspended_s if odd.has_run else 0),
            f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}", self.limit[k], "1",
            f"n{self.name[k] % 200:03d}" if odd.has_run else "None assigned", str(cores), f"{4 * cores}G",
            asked, given, "None", name,
        )  # fmt: skip
        return ("|".join(fields) + "\n").encode(odd.encoding)

    def _tres(self, k: int, odd: Odd) -> tuple[str, str]:
        width, cores = self.width[k], self.cores[k]
        asked = given = "" if odd.gpus is None else f",{odd.gpus}"
        if odd.gpus is None and width:
            asked = f",gres/gpu={width}"
            given = f",gres/gpu:{self.kind[k]}={width}{asked}"
        energy = f",energy={self.energy[k]}" if self.energy[k] else ""
        begin, end = f"billing={cores},cpu={cores}", f",mem={4 * cores}G,node=1"
        return f"{begin}{asked}{end}", f"{begin}{energy}{given}{end}" if odd.has_run else ""
