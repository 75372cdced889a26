"""Calibration of jobs that share GPUs: which MPS shares and local batches serve them best together.

Pure: no clock, no files, no processes, nothing but the standard library. Written once and used twice, by the
executor's coordinator on real GPUs and by the simulator.
"""

from antecast_executor.calibration.calibrator import calibrate, first_setting, rebalanced
from antecast_executor.calibration.lgrr import STEP_PCT, SWITCH_S, switched, switches
from antecast_executor.calibration.objectives import BROKEN, OBJECTIVES, Objective
from antecast_executor.calibration.search import End, Rules, Search, measuring_s, most_switches
from antecast_executor.calibration.words import (
    Call,
    Limits,
    Measurement,
    Member,
    PackedSet,
    Plan,
    Remaining,
    Setting,
    Verb,
    Worker,
    reversed_plan,
    wide_limits,
)

__all__ = [
    "BROKEN",
    "OBJECTIVES",
    "STEP_PCT",
    "SWITCH_S",
    "Call",
    "End",
    "Limits",
    "Measurement",
    "Member",
    "Objective",
    "PackedSet",
    "Plan",
    "Remaining",
    "Rules",
    "Search",
    "Setting",
    "Verb",
    "Worker",
    "calibrate",
    "first_setting",
    "measuring_s",
    "most_switches",
    "rebalanced",
    "reversed_plan",
    "switched",
    "switches",
    "wide_limits",
]
