"""Every source of jobs becomes one validated history table."""
