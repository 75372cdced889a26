"""Cuts of a history along time: what may be learned from, what is replayed, what is evaluated."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from domain.errors import SettingError
from domain.jobs import JobState


@dataclass(frozen=True)
class Split:
    """A history cut in time. Jobs that had been submitted but not ended by the cut are in no part.

    Attributes:
        train: what had ended by the cut, the only rows that may be learned from.
        replay: what was submitted at the cut or later.
        evaluated: ids of the jobs of `replay` that measures are taken of.
    """

    train: pd.DataFrame
    replay: pd.DataFrame
    evaluated: frozenset[str]


def ended_before(frame: pd.DataFrame, as_of_s: float) -> pd.DataFrame:
    """Rows of the jobs that had ended by `as_of_s`, in the order given, with a dense index.

    Where the record has no start, the earliest possible end, submit_s + duration_s, stands in for the end.
    What is learned from must never hold a job whose end lies after `as_of_s`.

    Args:
        frame: rows that obey the schema.
        as_of_s: instant on the clock of the table, seconds; infinity keeps every row.

    Raises:
        SettingError: if `as_of_s` is not a number.
    """
    _check_instant("as_of_s", as_of_s)
    return frame[started_s(frame) + frame["duration_s"] <= as_of_s].reset_index(drop=True)


def started_s(frame: pd.DataFrame) -> pd.Series:
    """Instant each job began to run, seconds; its submit where the record does not say."""
    return frame["start_s"].fillna(frame["submit_s"]) if "start_s" in frame else frame["submit_s"]


def hides_life(frame: pd.DataFrame) -> pd.Series:
    """Whether each job's state says that it would have run longer than it did (`JobState.hides_life`)."""
    if "state" not in frame:
        return pd.Series(np.zeros(len(frame), np.bool_), index=frame.index)
    return frame["state"].isin([state.value for state in JobState if state.hides_life])


def split(frame: pd.DataFrame, *, train_until_s: float, eval_from_s: float) -> Split:
    """Cut a history at `train_until_s`; evaluate from `eval_from_s` on, so that a replay can warm up.

    Args:
        frame: rows that obey the schema.
        train_until_s: the cut, seconds on the clock of the table.
        eval_from_s: earliest submit of an evaluated job, seconds; not before the cut.

    Raises:
        SettingError: if an instant is not a number or evaluation begins before the cut.
    """
    _check_instant("train_until_s", train_until_s)
    _check_instant("eval_from_s", eval_from_s)
    if eval_from_s < train_until_s:
        raise SettingError(f"eval_from_s is {eval_from_s}, must be at least train_until_s = {train_until_s}")
    replay = frame[frame["submit_s"] >= train_until_s].reset_index(drop=True)
    evaluated = frozenset(replay.loc[replay["submit_s"] >= eval_from_s, "job_id"])
    earlier = frame[frame["submit_s"] < train_until_s]
    return Split(ended_before(earlier, train_until_s), replay, evaluated)


def _check_instant(name: str, instant_s: float) -> None:
    if math.isnan(instant_s):
        raise SettingError(f"{name} is {instant_s}, must be a number of seconds")
