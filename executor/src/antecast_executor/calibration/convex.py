"""The convex sequence nearest to noisy values: what may be believed of a curve that has no second valley."""

from collections.abc import Sequence

_SWEEPS = 400
_RELAX = 1.7
"""Over-relaxation of the sweeps; they converge for all values between 0 and 2."""
_EXACT = 1e-6
"""Sweeps end once no constraint is moved by more than this, relative to the spread of the values."""


def fit(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Weighted least squares among sequences whose second differences are not negative.

    Hildreth's method: the multiplier of each second difference is set in turn so that it is not negative.

    Args:
        values: finite, at equal distances.
        weights: positive; the number of windows that a value is the mean of.
    """
    fitted = list(values)
    spread = max(values) - min(values)
    forces = [0.0] * max(0, len(values) - 2)
    pulls = [1.0 / weight for weight in weights]
    for _ in range(_SWEEPS):
        moved = 0.0
        for i, force in enumerate(forces):
            bend = fitted[i] - 2.0 * fitted[i + 1] + fitted[i + 2]
            stiffness = pulls[i] + 4.0 * pulls[i + 1] + pulls[i + 2]
            change = max(-force, -_RELAX * bend / stiffness)
            if change:
                forces[i] = force + change
                fitted[i] += pulls[i] * change
                fitted[i + 1] -= 2.0 * pulls[i + 1] * change
                fitted[i + 2] += pulls[i + 2] * change
                moved = max(moved, abs(change))
        if moved <= _EXACT * spread:
            break
    return fitted
