"""Lines as `sacct --parsable2` prints them, as many as wanted, with what real files have mixed in."""

from collections.abc import Iterator
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
_ODD = (
    ("step", 0.02), ("twice", 0.005), ("requeued", 0.01), ("never-ran", 0.03), ("bar", 0.005),
    ("unicode", 0.01), ("invisible", 0.001), ("latin-1", 0.0002), ("unknown-state", 0.001), ("no-id", 0.0005),
    ("pending-array", 0.002), ("het", 0.004), ("shard", 0.005), ("suspended", 0.005),
)  # fmt: skip


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
        odd = np.searchsorted(np.cumsum([share for _, share in _ODD]), rng.random(_BLOCK), side="right")
        self.odd = [_ODD[k][0] if k < len(_ODD) else "" for k in odd.tolist()]

    def lines(self) -> Iterator[bytes]:
        array = task = 0
        for k in range(_BLOCK):
            job = self.next_job
            self.next_job += 1
            odd = self.odd[k]
            shown = str(job)
            if self.array[k] and not odd:
                array, task = (array, task + 1) if task and task < 40 else (job, 1)
                shown = f"{array}_{task}"
            else:
                task = 0
            if not odd:
                yield self._line(k, str(job), shown).encode()
            else:
                yield from self._odd_lines(k, job, odd)

    def _odd_lines(self, k: int, job: int, odd: str) -> Iterator[bytes]:
        raw = str(job)
        match odd:
            case "step":
                yield self._line(k, f"{raw}.batch", f"{raw}.batch", name="batch").encode()
            case "twice":
                line = self._line(k, raw, raw).encode()
                yield line
                yield line
            case "requeued":
                yield self._line(k, raw, raw, state="REQUEUED").encode()
                yield self._line(k, raw, raw, later_s=self.wait[k] + self.life[k]).encode()
            case "never-ran":
                yield self._line(k, raw, raw, state="CANCELLED by 1021", ran=False).encode()
            case "bar":
                yield self._line(k, raw, raw, name="a|b").encode()
            case "unicode":
                yield self._line(k, raw, raw, name=f"d\u00e9d\u00e9 {k}").encode()
            case "invisible":
                yield self._line(k, raw, raw, name=f"x\u202e{k}").encode()
            case "latin-1":
                yield self._line(k, raw, raw, name=f"d\u00e9j\u00e0 {k}").encode("latin-1")
            case "unknown-state":
                yield self._line(k, raw, raw, state="TELEPORTED").encode()
            case "no-id":
                yield self._line(k, "", "").encode()
            case "pending-array":
                yield self._line(k, raw, f"{raw}_[1-{40 + k % 100}%4]", state="PENDING", ran=False).encode()
            case "het":
                yield self._line(k, raw, f"{job}+0").encode()
                yield self._line(k, str(job + 1), f"{job}+1").encode()
                self.next_job += 1
            case "shard":
                yield self._line(k, raw, raw, gpus="gres/shard=2").encode()
            case "suspended":
                yield self._line(k, raw, raw, suspended_s=self.life[k] // 2).encode()

    def _line(
        self,
        k: int,
        raw: str,
        shown: str,
        *,
        name: str | None = None,
        state: str | None = None,
        ran: bool = True,
        later_s: int = 0,
        suspended_s: int = 0,
        gpus: str | None = None,
    ) -> str:
        width, cores, user = self.width[k], self.cores[k], self.user[k]
        submit_s = self.submit[k] + later_s
        start_s = submit_s + self.wait[k]
        end_s = start_s + self.life[k]
        words = "" if not width else f",gres/gpu={width}"
        given = "" if not width else f",gres/gpu:{self.kind[k]}={width}{words}"
        if gpus is not None:
            words = given = f",{gpus}"
        energy = f",energy={self.energy[k]}" if self.energy[k] else ""
        asked = f"billing={cores},cpu={cores}{words},mem={4 * cores}G,node=1"
        got = f"billing={cores},cpu={cores}{energy}{given},mem={4 * cores}G,node=1" if ran else ""
        state = state or self.state[k]
        is_over = ran or state != "PENDING"
        minutes, seconds = divmod(suspended_s, 60)
        return (
            f"{raw}|{shown}|alpha|u{user:03d}|g{user % 20:02d}|{'gpu' if width else 'cpu'}|normal|{state}"
            f"|{_stamp(submit_s)}|{_stamp(submit_s)}|{_stamp(start_s) if ran else 'None'}"
            f"|{_stamp(end_s) if is_over else 'Unknown'}|{self.life[k] - suspended_s if ran else 0}"
            f"|{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}|{self.limit[k]}|1"
            f"|{f'n{self.name[k] % 200:03d}' if ran else 'None assigned'}|{cores}|{4 * cores}G|{asked}|{got}|None"
            f"|{name or f'train-{self.name[k]}'}\n"
        )
