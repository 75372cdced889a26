"""What-ifs on the wire."""

from datetime import datetime
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from app.schemas.base import Name, Received, Sent, with_example
from app.schemas.clusters import MAX_POOLS, PolicyName, Quota, SettingKey, Settings
from app.schemas.runs import RunState
from domain.changes import MAX_CHANGES

MAX_LISTED: Final = 10_000

Number = Annotated[float, Field(strict=True, ge=-1e11, le=1e11)]
Whole = Annotated[int, Field(strict=True, ge=-(10**11), le=10**11)]
Text = Annotated[str, Field(max_length=255)]
Scalar = Annotated[bool, Field(strict=True)] | Whole | Number | Text | None
ChangeValue = (
    Scalar
    | Annotated[list[Text], Field(max_length=MAX_LISTED)]
    | Annotated[dict[Name, Scalar], Field(max_length=MAX_POOLS)]
)
ChangeIn = Annotated[
    dict[SettingKey, ChangeValue],
    Field(
        max_length=16,
        description="one change: `kind` (quota, quotas, add_nodes, remove_nodes, policy, settings, "
        "no_lending, arrivals, gang, leave_out) and the fields of that kind: docs/what-if.md",
        examples=[{"kind": "quota", "pool": "vision", "by_pct": 20}],
    ),
]


class FuturesIn(Received):
    """Futures to draw from days of the past."""

    count: Annotated[int, Field(strict=True, ge=1, le=200, description="how many")] = 9
    days: Annotated[int, Field(strict=True, ge=1, le=60, description="length of each")] = 7
    from_days: Annotated[
        int, Field(strict=True, ge=1, le=366, description="drawn from so many days before the newest submit")
    ] = 28
    block_days: Annotated[int, Field(strict=True, ge=1, le=60, description="days that stay together")] = 1
    half_life_days: Annotated[
        float | None,
        Field(
            strict=True,
            gt=0.0,
            le=1e6,
            description="days so much older are drawn half as often; null: all alike",
        ),
    ] = None


class Over(Received):
    """Over which time a what-if is asked."""

    days: Annotated[
        float, Field(strict=True, gt=0.0, le=366.0, description="days of the past to go through again")
    ] = 7.0
    warm_up_days: Annotated[
        float,
        Field(
            strict=True,
            ge=0.0,
            le=366.0,
            description="the replay begins so much earlier, on an empty cluster",
        ),
    ] = 1.0
    futures: Annotated[FuturesIn | None, Field(description="draw futures instead of the past again")] = None
    seed: Annotated[
        int | None, Field(strict=True, ge=0, lt=2**31, description="the cluster's where null")
    ] = None
    learn_days: Annotated[
        float | None,
        Field(strict=True, gt=0.0, le=366.0, description="forecasts learn from so many days; null: from all"),
    ] = None


class WhatIfIn(Over):
    """What is to be different from the cluster as it is; something has to be.

    Either `changes`, or `quotas`, `policy` and `settings`; with these the replay has no warm-up.
    """

    model_config = with_example(
        changes=[{"kind": "quota", "pool": "vision", "by_pct": 20, "from": "others"}], days=3.0
    )

    name: Annotated[Name | None, Field(description="what people call it")] = None
    changes: Annotated[
        list[ChangeIn] | None,
        Field(
            max_length=MAX_CHANGES,
            description="made one after the other",
            examples=[
                [
                    {"kind": "quota", "pool": "vision", "by_pct": 20, "from": "others"},
                    {"kind": "settings", "set": {"eps": 0.005}},
                    {"kind": "arrivals", "pool": "vision", "times": 2},
                    {"kind": "gang", "pool": "vision", "gpus": 64, "at": "2026-11-02T10:00Z"},
                ]
            ],
        ),
    ] = None
    quotas: Annotated[
        dict[Name, Quota],
        Field(max_length=MAX_POOLS, description="pools whose quota changes", examples=[{"vision": 48}]),
    ] = Field(default_factory=dict)
    policy: Annotated[PolicyName | None, Field(description="another policy")] = None
    settings: Annotated[
        Settings | None, Field(description="its settings; by default the cluster's, or another policy's own")
    ] = None

    @model_validator(mode="after")
    def _is_one_of_two_forms(self) -> Self:
        plain = {"quotas", "policy", "settings"} & self.model_fields_set
        others = {"warm_up_days", "futures", "seed", "learn_days"} & self.model_fields_set
        if self.changes is not None and plain:
            raise ValueError(f"changes and {min(plain)} exclude each other: there is a kind of change for it")
        if self.changes is None and others:
            raise ValueError(f"{min(others)} goes with changes")
        return self

    def arguments(self) -> dict[str, Any]:
        """As the arguments of a run."""
        if self.changes is None:
            return {
                "quotas": self.quotas,
                "policy": self.policy,
                "settings": self.settings,
                "days": self.days,
            }
        return over_arguments(self, self.changes)


class ParameterIn(Received):
    """One axis of a sweep."""

    name: Annotated[Name, Field(examples=["eps"])]
    change: Annotated[
        ChangeIn,
        Field(
            description='a change in which "$" stands where the value goes',
            examples=[{"kind": "settings", "set": {"eps": "$"}}],
        ),
    ]
    values: Annotated[
        list[Whole | Number | Text], Field(min_length=1, max_length=64, examples=[[0.001, 0.005]])
    ]


class SweepIn(Over):
    """A grid of what-ifs."""

    model_config = with_example(
        parameters=[
            {
                "name": "GPUs",
                "change": {"kind": "quota", "pool": "vision", "by_gpus": "$", "from": "others"},
                "values": [1, 2],
            }
        ],
        days=3.0,
    )

    name: Annotated[Name | None, Field(description="what people call it")] = None
    changes: Annotated[
        list[ChangeIn], Field(max_length=MAX_CHANGES - 2, description="what all points have in common")
    ] = Field(default_factory=list)
    parameters: Annotated[
        list[ParameterIn], Field(min_length=1, max_length=2, description="the last one varies fastest")
    ]

    def arguments(self) -> dict[str, Any]:
        """What all points have in common, as the arguments of a run."""
        return over_arguments(self, self.changes)


class WhatIfOut(Sent):
    """A what-if, and where its run is."""

    what_if_id: str = Field(description="also the id of its run")
    cluster: str
    name: str | None
    sweep_id: str | None = Field(description="the sweep that it is a point of")
    point: dict[str, Any] | None = Field(description="the values of the sweep's parameters here")
    question: dict[str, Any]
    status: RunState
    progress: dict[str, float] | None = Field(description="while it runs: `done` and `total`")
    error: str | None
    requested_by: str
    requested_at: datetime
    answered_at: datetime | None


class AnsweredOut(WhatIfOut):
    """A what-if with its answer."""

    answer: dict[str, Any] | None = Field(
        description="figures as it is (`baseline`), changed, their `difference` and its `intervals`, by pool "
        "too; `who` wins and loses; null until there is one"
    )


class WhatIfsOut(Sent):
    """A page of a cluster's what-ifs, the newest first."""

    items: list[WhatIfOut]
    next: str | None = Field(description="give it as `before` for the next page; null on the last")


class CellOut(Sent):
    """A figure of one what-if. `low` and `high`: interval of the difference at 95 %."""

    baseline: float | None
    changed: float | None
    difference: float | None
    low: float | None
    high: float | None
    range_low: float | None
    range_high: float | None


class FigureOut(Sent):
    """A figure of several what-ifs, in their order; null where there is no answer, or no such figure."""

    figure: str = Field(examples=["mean_queue_delay_s"])
    values: list[CellOut | None]


class ComparisonOut(Sent):
    """Several what-ifs side by side."""

    what_ifs: list[WhatIfOut]
    pool: str | None = Field(description="figures of this pool; null: of the cluster")
    is_same_base: bool = Field(description="false: they rest on other jobs, or the cluster was another")
    figures: list[FigureOut]


class SweepOut(Sent):
    """A sweep, and how far it is."""

    sweep_id: str
    cluster: str
    name: str | None
    question: dict[str, Any] = Field(description="what all points have in common")
    parameters: dict[str, Any]
    requested_by: str
    requested_at: datetime
    cancelled_at: datetime | None
    counts: dict[RunState, int] = Field(description="how many points are where")
    progress: float = Field(ge=0.0, le=1.0, description="part of all points that is done")
    points: list[WhatIfOut]


class SweepsOut(Sent):
    """A page of a cluster's sweeps, the newest first."""

    items: list[SweepOut]
    next: str | None = Field(description="give it as `before` for the next page; null on the last")


def over_arguments(over: Over, changes: list[ChangeIn]) -> dict[str, Any]:
    """The fields of a `domain.questions.Question`; the seed only where it is said."""
    said: dict[str, Any] = {
        "changes": changes,
        "days": over.days,
        "warm_up_days": over.warm_up_days,
        "futures": None if over.futures is None else over.futures.model_dump(),
        "learn_days": over.learn_days,
    }
    return said if over.seed is None else {**said, "seed": over.seed}
