"""Settings that policies which lend by forecast have in common."""

import math
from dataclasses import dataclass

from solver.reclaim_time import check_reclaim_s


@dataclass(frozen=True, slots=True)
class LenderSettings:
    """Settings that policies which lend by forecast have in common.

    Attributes:
        eps: share of jobs that may be slowed; 0 lends to nobody who must run to its end.
        requeueable: share R of jobs that may be sent back and start again, from zero or from what they saved.
        share: part of what is left of the budget that one early start may use besides eps.
        finish: a requeueable job is lent to if its chance of being sent back, times the share of its work
            that it would have to repeat (1 without checkpoints), is at most this.
        kinship: correlation of the lives of jobs that are submitted in one burst.
        patience_s: how long lane starts are taken to wait where GPUs are missing, in the mean: the urgency
            of a start falls by e with each such time by which its pool is ahead of the reference.
        burst_weight: what the charge for bursts counts. It is an upper bound by far: it takes all of a burst
            to be slowed wherever a GPU is missing, and each pool to have the room that it has now.
        reclaim_s: for how long nobody has the GPUs of a guest that was sent back, seconds.
        packing: whether jobs that wait may also start beside running ones, on their GPUs (`docs/packing.md`).
        liss: with `packing`, samples move between the workers of a job, so that it runs at their mean rate.
        sigma: most of its speed that a host may lose to all of its riders.
        gain: least that a ride has to be worth, of what the rider would be worth alone.
        waits: how often a job waits for what a ride costs it and its host, in seconds, before it rides.
    """

    eps: float = 0.001
    requeueable: float = 0.0
    share: float = 0.0003
    finish: float = 0.3
    kinship: float = 0.3
    patience_s: float = 3600.0
    burst_weight: float = 0.02
    reclaim_s: float = 0.0
    packing: bool = False
    liss: bool = True
    sigma: float = 0.25
    gain: float = 0.35
    waits: float = 0.0

    def __post_init__(self) -> None:
        for name in ("eps", "requeueable", "share", "finish", "kinship", "burst_weight", "sigma", "gain"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, must lie in [0, 1]")
        if not self.patience_s > 0.0:
            raise ValueError(f"patience_s is {self.patience_s}, must be positive")
        if not 0.0 <= self.waits < math.inf:
            raise ValueError(f"waits is {self.waits}, must be at least 0 and finite")
        check_reclaim_s(self.reclaim_s)
