"""How Slurm writes durations, limits, GPUs, ids and states; one module each, no files, no tables."""
