"""What the history table holds, as data: one row per job, one `Column` per column.

The table has all of these columns whether or not the source had them, in this order, then the columns
of the source that are not ours. Missing values are NaN. Columns are data so that checks, readers and
documentation cannot disagree about them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from data.rules import Rule
from domain.cluster import MAX_GPUS_OF_A_NODE
from domain.jobs import JobState

MAX_TIME_S: Final = 1e11
"""Largest instant or duration, seconds: far beyond any clock in seconds, short of one in milliseconds."""

MAX_GPUS: Final = 2**31 - 1
"""Largest width and quota."""

MAX_VALUE: Final = 1_000_000
"""Largest worth of a gang and price of a move: sums of them stay far from what a solver can count to."""

MAX_AMOUNT: Final = 2**40
"""Largest amount of CPU and memory."""

WHOLE_MILLI: Final = 1000
"""A whole GPU in thousandths."""


class Kind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    INT = "int"
    FLOAT = "float"

    @property
    def dtype(self) -> Literal["str", "int64", "float64"]:
        """Name of the column's dtype in pandas."""
        match self:
            case Kind.TEXT:
                return "str"
            case Kind.INT:
                return "int64"
            case Kind.FLOAT:
                return "float64"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: its name; ends in the unit where there is one.
        kind: what it holds.
        unit: unit of its numbers, empty for text and bare numbers.
        is_nullable: whether a row may leave it empty; such a column may also be absent.
        meaning: one line.
        low, high: inclusive range of its numbers.
        low_rule: rule that a number below `low` breaks.
        words: the closed vocabulary of its text in lower case, None where any text will do.
        default: number that an empty field, or an absent column, is read as; None: it stays missing. A whole
            number that may be left empty has one.
    """

    name: str
    kind: Kind
    unit: str
    is_nullable: bool
    meaning: str
    low: float = -MAX_TIME_S
    high: float = MAX_TIME_S
    low_rule: Rule = Rule.OUT_OF_RANGE
    words: frozenset[str] | None = None
    default: float | None = None

    @property
    def allowed(self) -> str:
        """What its values may be, for messages."""
        if self.words is not None:
            return "one of " + ", ".join(sorted(self.words))
        if self.kind is Kind.TEXT:
            return "text"
        noun = "an integer" if self.kind is Kind.INT else "a number"
        unit = f" {self.unit}" if self.unit else ""
        return f"{noun} from {self.low:.12g} to {self.high:.12g}{unit}"


COLUMNS: Final = (
    Column("job_id", Kind.TEXT, "", False, "unique name of the job; upper and lower case differ"),
    Column("pool", Kind.TEXT, "", False, "pool the job was submitted to"),
    Column("submit_s", Kind.FLOAT, "s", False, "instant it became eligible, on the clock of the file"),
    Column("num_gpus", Kind.INT, "GPUs", False, "width of the gang", 1, MAX_GPUS, Rule.WIDTH_BELOW_ONE),
    Column(
        "duration_s", Kind.FLOAT, "s", False, "length when alone", 0.0, MAX_TIME_S, Rule.NEGATIVE_DURATION
    ),
    Column("user", Kind.TEXT, "", True, "who submitted it"),
    Column("name", Kind.TEXT, "", True, "name the user gave it"),
    Column("model", Kind.TEXT, "", True, "what it trains"),
    Column("limit_s", Kind.FLOAT, "s", True, "requested time limit; empty where there is none", 1.0),
    Column("state", Kind.TEXT, "", True, "how it ended", words=frozenset(state.value for state in JobState)),
    Column("deadline_s", Kind.FLOAT, "s", True, "instant by which it should have ended"),
    Column("requeue_u", Kind.FLOAT, "", True, "requeueable where the share R of such jobs exceeds it", 0, 1),
    Column("gpu_type", Kind.TEXT, "", True, "type of GPU it asks for; empty where any will do"),
    Column("array_id", Kind.TEXT, "", True, "the array or group it was submitted as part of"),
    Column("priority", Kind.FLOAT, "", True, "the higher, the sooner; empty: 0"),
    Column("checkpoint_s", Kind.FLOAT, "s", True, "saves its progress every so often; empty: never", 1.0),
    Column("restart_s", Kind.FLOAT, "s", True, "time to be back at its last checkpoint; empty: 0", 0.0),
    Column("start_s", Kind.FLOAT, "s", True, "instant it began to run; empty: not known, taken as submit_s"),
)
"""The history table."""

POOL_COLUMNS: Final = (
    Column("pool", Kind.TEXT, "", False, "name of the pool"),
    Column("quota_gpus", Kind.INT, "GPUs", False, "GPUs that are its own", 0, MAX_GPUS, Rule.NEGATIVE_QUOTA),
)
"""The table of pools."""

NODE_COLUMNS: Final = (
    Column("node", Kind.TEXT, "", False, "name of the node"),
    Column("num_gpus", Kind.INT, "GPUs", False, "GPUs that it has", 1, MAX_GPUS_OF_A_NODE),
    Column("gpu_type", Kind.TEXT, "", True, "their type; empty: not said"),
    Column("pool", Kind.TEXT, "", True, "pool that owns it; empty: none in particular"),
)
"""The table of nodes."""

WAITING_COLUMNS: Final = (
    Column("job_id", Kind.TEXT, "", False, "unique name of the job"),
    Column("num_gpus", Kind.INT, "GPUs", False, "width of the gang", 1, MAX_GPUS, Rule.WIDTH_BELOW_ONE),
    Column("pool", Kind.TEXT, "", True, "pool it belongs to"),
    Column("submit_s", Kind.FLOAT, "s", True, "instant it became eligible; among equals the earlier starts"),
    Column("gpu_type", Kind.TEXT, "", True, "type of GPU it asks for; empty where any will do"),
    Column("guest", Kind.INT, "", True, "1: a guest, served after own gangs and holds", 0, 1, default=0),
    Column("value", Kind.INT, "", True, "worth of starting it; empty: its GPUs", 1, MAX_VALUE, default=0),
    Column("gpus", Kind.TEXT, "", True, "GPUs that an earlier plan gave it: node/index;node/index-index"),
)
"""The table of gangs that wait for a place."""

RUNNING_COLUMNS: Final = (
    Column("job_id", Kind.TEXT, "", False, "unique name of the job"),
    Column("gpus", Kind.TEXT, "", False, "GPUs it runs on: node/index;node/index-index"),
    Column("num_gpus", Kind.INT, "GPUs", True, "width of the gang; empty: its GPUs", 1, MAX_GPUS, default=0),
    Column("pool", Kind.TEXT, "", True, "pool it belongs to"),
    Column("submit_s", Kind.FLOAT, "s", True, "instant it became eligible"),
    Column("gpu_type", Kind.TEXT, "", True, "type of GPU it asks for; empty where any will do"),
    Column("movable", Kind.INT, "", True, "1: it may be moved to other GPUs", 0, 1, default=0),
    Column("move_cost", Kind.FLOAT, "GPUs", True, "price of moving it, as GPUs left unusable", 0, MAX_VALUE),
)
"""The table of gangs that run, and of what moving them costs."""

HELD_COLUMNS: Final = (
    Column("pool", Kind.TEXT, "", False, "pool for which GPUs are kept idle"),
    Column("num_gpus", Kind.INT, "GPUs", False, "GPUs to keep idle", 1, MAX_GPUS, Rule.WIDTH_BELOW_ONE),
    Column("widest_gpus", Kind.INT, "GPUs", True, "widest gang; empty: num_gpus", 1, MAX_GPUS, default=0),
    Column("gpu_type", Kind.TEXT, "", True, "type that they have to be of; empty where any will do"),
)
"""The table of holds."""

ALLOCATION_COLUMNS: Final = (
    Column("job_id", Kind.TEXT, "", False, "name of the job that the scheduler gave the GPU to"),
    Column("node", Kind.TEXT, "", False, "name of the node"),
    Column("gpu", Kind.TEXT, "", False, "index of the GPU on it, index/slice of a MIG slice, or its UUID"),
    Column("since_s", Kind.FLOAT, "s", True, "instant from which it has it; empty where not known"),
)
"""The table of GPUs that a scheduler has given out, one row for each."""

POD_COLUMNS: Final = (
    Column("job_id", Kind.TEXT, "", False, "unique name of the job"),
    Column("num_gpus", Kind.INT, "GPUs", False, "GPUs on which it needs a share each", 0, MAX_GPUS_OF_A_NODE),
    Column(
        "gpu_milli", Kind.INT, "", True, "share of each, in thousandths", 0, WHOLE_MILLI, default=WHOLE_MILLI
    ),
    Column("profile", Kind.TEXT, "", True, "MIG slice that it asks for instead, such as 3g.20gb"),
    Column("gpu_types", Kind.TEXT, "", True, "types of GPU that it accepts, as A|B; empty: any"),
    Column("cpu_milli", Kind.INT, "", True, "thousandths of a CPU", 0, MAX_AMOUNT, default=0),
    Column("memory_mib", Kind.INT, "MiB", True, "main memory", 0, MAX_AMOUNT, default=0),
)
"""The table of jobs that ask for shares: each runs on one node."""

HOST_COLUMNS: Final = (
    Column("node", Kind.TEXT, "", False, "name of the node"),
    Column("num_gpus", Kind.INT, "GPUs", False, "GPUs that it has", 0, MAX_GPUS_OF_A_NODE),
    Column("gpu_type", Kind.TEXT, "", True, "their type; empty: not said"),
    Column("cpu_milli", Kind.INT, "", False, "thousandths of a CPU that it has", 0, MAX_AMOUNT),
    Column("memory_mib", Kind.INT, "MiB", False, "main memory that it has", 0, MAX_AMOUNT),
    Column(
        "partitioned", Kind.INT, "GPUs", True, "GPUs in MIG mode, the last", 0, MAX_GPUS_OF_A_NODE, default=0
    ),
)
"""The table of nodes with what they have beside GPUs."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType({"limit": "limit_s"})
"""Other names under which a source may carry a column of ours."""

POD_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"name": "job_id", "num_gpu": "num_gpus", "gpu_spec": "gpu_types", "gpu_type": "gpu_types"}
)
"""Names of the published openb pods, and what they are here."""

HOST_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"sn": "node", "gpu": "num_gpus", "model": "gpu_type"}
)
"""Names of the published openb nodes, and what they are here."""


def required_names(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """Names of the columns that a source must have."""
    return tuple(column.name for column in columns if not column.is_nullable)
