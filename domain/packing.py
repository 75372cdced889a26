"""Words of packing: two jobs on one GPU (Gimbal, TACO 2025, section 4.1).

A *packed set* is a star: its widest job is the *host*, all others are its *riders*, and a rider shares GPUs
with its host only.
"""

from typing import Final

MAX_WORKERS: Final = 2
"""Most workers on one GPU."""

MAX_SET_JOBS: Final = 5
"""Most jobs of one packed set: the cost of finding its best setting grows with it."""
