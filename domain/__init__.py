"""The words: what a job, a pool, a forecast, a plan and a schedule are. Standard library only."""
