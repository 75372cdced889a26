"""Shares of GPUs: who fits where, what a placement leaves unusable, and rules that place one request.

A share of one GPU is either so many thousandths of it (`gpu_milli`) or a MIG slice (`profile`). Node states
are arrays, so that one call looks at all nodes; `fragmentation` is the measure of FGD, `rules` the family of
placement rules and `placer` the state they work on.
"""
