"""Two jobs on one GPU: who may share, at which rates, and who is chosen."""
