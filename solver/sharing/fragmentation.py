"""How much of what is free nobody who comes next could use: the measure of FGD.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023, section 3. For a node n and a task class m the fragment F_n(m) is
    all free GPU of n, where m cannot run on n at all: too little CPU or memory, a GPU type that m does not
        accept, too few GPUs with a large enough share left, or m needs no GPU;
    what is free on GPUs that have too little left for one share of m, where m can run.
F_n is its mean over the classes of the workload, weighted by how often each is asked for; the cluster's
fragmentation is the sum over nodes. A GPU in MIG mode serves a class if its profile has a legal place left.

The authors' simulator leaves main memory out of F_n; a mix whose classes ask for none does the same.
"""

from collections.abc import Sequence

import numpy as np

from solver.sharing import mig
from solver.sharing.nodes import BoolArray, FloatArray, IntArray, NodeStates
from solver.sharing.requests import NO_PROFILE, Share, TaskMix


def fragments_milli(states: NodeStates, mix: TaskMix) -> IntArray:
    """F_n(m) of every node and class, in thousandths of a GPU; shape (nodes, classes)."""
    asked = mix.columns
    shares, which = mix.shares
    gives = _gives(states, shares)
    num_gpus = gives.sum(axis=2)[:, which]
    useful = (gives * states.gpu_milli[:, None, :]).sum(axis=2)[:, which]
    total = states.gpu_milli.sum(axis=1)[:, None]
    runs = (num_gpus >= asked["num_gpus"]) & (asked["num_gpus"] > 0)
    runs &= states.cpu_milli[:, None] >= asked["cpu_milli"]
    runs &= states.memory_mib[:, None] >= asked["memory_mib"]
    runs &= (states.type_bit[:, None] & asked["types"]) != 0
    fragments: IntArray = np.where(runs, total - useful, total)
    return fragments


def expected_milli(states: NodeStates, mix: TaskMix) -> FloatArray:
    """F_n of every node: the mean fragment over the mix, in thousandths of a GPU; shape (nodes,)."""
    fragments: FloatArray = fragments_milli(states, mix) @ mix.weights
    return fragments


def _gives(states: NodeStates, shares: Sequence[Share]) -> BoolArray:
    """Whether a GPU has room for one more of each share; shape (nodes, shares, GPUs)."""
    milli = np.array([share.milli for share in shares], dtype=np.int64)
    gives: BoolArray = states.gpu_milli[:, None, :] >= milli[None, :, None]
    gives &= states.slices[:, None, :] < 0
    for column, share in enumerate(shares):
        if share.profile != NO_PROFILE:
            fits = mig.FITS[share.profile][states.geometry[:, None], np.maximum(states.slices, 0)]
            gives[:, column, :] = fits & (states.slices >= 0)
    return gives
