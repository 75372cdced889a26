"""What policies that lend owe where they also let jobs ride on GPUs of others."""

from functools import cache

import numpy as np
import pandas as pd
from causality import rewritten_after, seen_by

from data.history import from_frame
from data.pairs import PairTable
from data.synthetic import philly_like
from domain.cluster import Node
from simulator.replay import replay
from simulator.workload import Workload, make_workload
from solver.check_packed import PackedOptions, check_packed

DAY_S = 86_400.0
CUT_S = 1.35 * DAY_S
PAIRS = PairTable.of({("m", "m"): (0.85, 0.85), ("m", "o"): (0.7, 0.95), ("o", "o"): (0.6, 0.6)})
RIDING = {"packing": "on", "waits": "0"}


@cache
def world() -> Workload:
    """Jobs of three pools with a model each, on nodes of eight GPUs, too few for all of them."""
    made = philly_like(12, days=1.5, load=1.5, num_pools=3)
    models = pd.array(["mo"[k % 2] for k in range(len(made.frame))], dtype="string")
    gpus = sum(made.quotas.values())
    nodes = tuple(Node(f"n{k}", min(8, gpus - 8 * k)) for k in range(-(-gpus // 8)))
    history = from_frame(made.frame.assign(model=models), source="test", quotas=made.quotas)
    return make_workload(history, made.quotas, train_until_s=DAY_S, eval_from_s=DAY_S, nodes=nodes)


def test_jobs_ride_by_the_rules_and_by_nothing_that_happens_later():
    work = world()
    done = replay(work, "anticipatory", RIDING, pairs=PAIRS)
    told = check_packed(
        work.jobs,
        done.schedule.stretches,
        work.cluster.nodes,
        PAIRS.rate,
        PackedOptions(redistributes=True),
        durations={name: one.duration_s for name, one in work.outcomes.items()},
    )
    assert told == ()
    assert sum(one.rate < 1.0 for one in done.schedule.stretches) > 5
    rewritten = rewritten_after(work, done.schedule, CUT_S, np.random.default_rng(3))
    other = replay(rewritten, "anticipatory", RIDING, pairs=PAIRS)
    assert seen_by(done.schedule, CUT_S) == seen_by(other.schedule, CUT_S)
