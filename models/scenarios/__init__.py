"""Joint scenarios of the pools' need ahead."""
