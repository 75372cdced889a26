"""Trainings and backtests on the wire."""

from typing import Annotated

from pydantic import Field

from app.schemas.base import Received
from app.schemas.clusters import PolicyName, Settings


class TrainingIn(Received):
    """What to train on, and what to hold out."""

    holdout_days: Annotated[
        float,
        Field(gt=0.0, le=90.0, description="the last days, that models are tried on", examples=[7.0]),
    ] = 7.0
    begins_epoch: Annotated[
        bool,
        Field(description="begin an epoch first, so that forecasts learn from what has ended since the last"),
    ] = False


class CandidateIn(Received):
    """A policy to replay."""

    policy: PolicyName
    settings: Settings = Field(default_factory=dict)


class BacktestIn(Received):
    """Which policies are replayed over how much of the past."""

    policies: Annotated[
        list[CandidateIn],
        Field(
            min_length=1,
            max_length=8,
            examples=[[{"policy": "fcfs"}, {"policy": "anticipatory", "settings": {"eps": "0.001"}}]],
        ),
    ]
    days: Annotated[float, Field(gt=0.0, le=366.0, description="days of the past", examples=[7.0])] = 7.0
