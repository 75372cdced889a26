"""A plan of a policy that packs passes the checker if, and only if, what it leaves may run by brute force."""

import itertools
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from packing_by_hand import MODELS, may_run, rates

from domain.cluster import Node
from domain.jobs import Job
from domain.plans import Placement, Plan, Start
from solver.check_plan import check_plan
from solver.plan_rules import Hosts, Known, PlanOptions, PlanRule, Standing, state_of

NODES = (Node("n0", 4), Node("n1", 2))
GPUS = [gpu for node in NODES for gpu in node.gpus()]
GANGS = {
    width: [
        gpus
        for gpus in itertools.combinations(GPUS, width)
        if width > 4 or len({gpu.node for gpu in gpus}) == 1
    ]
    for width in range(1, 7)
}
PACKS = PlanOptions(packs=True, hosts=Hosts.EVERYONE, rates=rates, has_own_lanes=False, may_suspend=True)


@st.composite
def scenes(draw):
    """Jobs that run in lawful packed sets, and a plan that starts others anywhere and suspends some."""
    random = draw(st.randoms(use_true_random=False))
    running, starting = [], []
    for k in range(random.randrange(1, 9)):
        job = Job(f"j{k}", "a", float(k), random.choice((1, 1, 2, 3, 4, 6)), model=random.choice(MODELS))
        gang = random.choice(GANGS[job.num_gpus])
        if may_run([*running, (job, gang)], GPUS):
            running.append((job, gang))
    for k in range(random.randrange(1, 4)):
        job = Job(f"s{k}", "a", 20.0 + k, random.choice((1, 1, 2, 3, 4, 6)), model=random.choice(MODELS))
        starting.append((job, random.choice(GANGS[job.num_gpus])))
    stops = random.sample(running, random.choice((0, 0, min(2, len(running)))))
    return running, starting, stops


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_what_passes_is_what_may_run(scene):
    running, starting, stops = scene
    line = [Known(job, Standing.OWN, gpus) for job, gpus in running]
    line += [Known(job) for job, _ in starting]
    taken = {gpu for _, gpus in running for gpu in gpus}
    state = state_of(30.0, len(GPUS) - len(taken), {"a": 6}, line, NODES)
    plan = Plan(
        suspends=tuple(job for job, _ in stops),
        starts=tuple(Start(job, False) for job, _ in starting),
        placements=tuple(Placement(job.job_id, gpus) for job, gpus in starting),
    )
    faults = check_plan(state, plan, PACKS)
    after = [one for one in running if one not in stops] + starting
    assert (faults == ()) == may_run(after, GPUS)
    if not faults:
        consenting = replace(PACKS, hosts=Hosts.CONSENTING)
        sharing = {gpu for _, gpus in starting for gpu in gpus if sum(gpu in its for _, its in after) > 1}
        rules = {fault.rule for fault in check_plan(state, plan, consenting)}
        assert rules == ({PlanRule.PROTECTED_JOB_SHARES} if sharing else set())
