"""What passes the plan checker can be carried out, and what is left of a plan passes it."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.cluster import Gpu, Node
from domain.jobs import Job
from domain.plans import Hold, Placement, Plan, Start
from solver.check_plan import check_plan, inside_lanes, lawful_part
from solver.plan_books import PlanBooks
from solver.plan_rules import Known, Places, PlanOptions, PlanState, Standing, state_of

NODES = (Node("n0", 4), Node("n1", 2), Node("n2", 2))
GPUS = [gpu for node in NODES for gpu in node.gpus()]
QUOTAS = {"a": 4, "b": 3, "c": 1}


@st.composite
def scenes(draw: st.DrawFn) -> tuple[PlanState, Plan, PlanOptions]:
    """A possible state, and a plan somebody might make of it in a hurry."""
    free, line = list(GPUS), []
    own = Counter[str]()
    for k in range(draw(st.integers(0, 8))):
        pool = draw(st.sampled_from(sorted(QUOTAS)))
        job = Job(f"j{k}", pool, float(k // 2), draw(st.integers(1, QUOTAS[pool])), requeue_u=k / 8)
        standing = draw(st.sampled_from(Standing))
        fits_quota = own[pool] + job.num_gpus <= QUOTAS[pool]
        if standing is Standing.WAITING or job.num_gpus > len(free):
            line.append(Known(job, may_share=draw(st.booleans())))
            continue
        own[pool] += job.num_gpus if standing is Standing.OWN and fits_quota else 0
        standing = standing if fits_quota else Standing.GUEST
        line.append(Known(job, standing, tuple(free[: job.num_gpus]), draw(st.booleans())))
        del free[: job.num_gpus]
    state = state_of(draw(st.sampled_from((10.0, 63.0, 99.0))), len(free), QUOTAS, line, NODES)
    options = PlanOptions(draw(st.sampled_from((0.0, 0.5, 1.0))), converts=draw(st.booleans()))
    options = replace(options, serves_by_reference=draw(st.booleans()))
    return state, draw(plans(line, free)), options


@st.composite
def plans(draw: st.DrawFn, line: list[Known], free: list[Gpu]) -> Plan:
    """Decisions about some of the jobs; most of them of the right kind."""
    waiting = [one.job for one in line if one.standing is Standing.WAITING]
    running = [one.job for one in line if one.standing is not Standing.WAITING]
    some_waiting = st.lists(st.sampled_from(waiting), unique=True) if waiting else st.just([])
    some_running = st.lists(st.sampled_from(running), unique=True, max_size=2) if running else st.just([])
    starts = tuple(Start(job, draw(st.booleans())) for job in draw(some_waiting))
    plan = Plan(
        send_backs=tuple(draw(some_running)),
        conversions=tuple(draw(some_running)),
        starts=starts,
        holds=tuple(draw(st.lists(st.sampled_from((Hold("a", 1), Hold("b", 2, 20.0))), max_size=1))),
        late=tuple(draw(st.lists(st.sampled_from(waiting), unique=True, max_size=3)) if waiting else ()),
    )
    if not draw(st.booleans()):
        return plan
    offered = draw(st.permutations(free)) + draw(st.permutations(GPUS))
    places = []
    for job, _ in starts:
        places.append(Placement(job.job_id, tuple(dict.fromkeys(offered))[: job.num_gpus]))
        offered = offered[job.num_gpus :]
    return replace(plan, placements=tuple(places))


@settings(max_examples=150, deadline=None)
@given(scenes())
def test_what_passes_can_be_carried_out_and_keeps_the_promise(scene):
    """Judged by counting what is there afterwards, without a word about lanes but for their definition."""
    state, plan, options = scene
    if check_plan(state, plan, options):
        return
    after = {job_id: known.standing for job_id, known in state.known.items()}
    for job in plan.send_backs:
        assert after[job.job_id] is Standing.GUEST
        assert job.is_requeueable(options.requeueable_share)
        after[job.job_id] = Standing.WAITING
    for job in plan.conversions:
        assert after[job.job_id] is Standing.GUEST
        after[job.job_id] = Standing.OWN
    for job, is_guest in plan.starts:
        assert after[job.job_id] is Standing.WAITING
        after[job.job_id] = Standing.GUEST if is_guest else Standing.OWN
    own = Counter[str]()
    for job_id, standing in after.items():
        job = state.known[job_id].job
        own[job.pool] += job.num_gpus if standing is Standing.OWN else 0
    assert all(own[pool] <= quota for pool, quota in QUOTAS.items())
    workers = Counter(gpu for gpus in places_after(state, plan).values() for gpu in gpus)
    assert max(workers.values(), default=0) <= 2
    if not plan.placements:
        used = sum(
            state.known[one].job.num_gpus
            for one, standing in after.items()
            if standing is not Standing.WAITING
        )
        assert used <= len(GPUS)
    assert all(
        len(gpus) == state.known[job_id].job.num_gpus for job_id, gpus in places_after(state, plan).items()
    )


def places_after(state: PlanState, plan: Plan) -> dict[str, tuple[Gpu, ...]]:
    left = {job.job_id for job in plan.send_backs}
    stay = {job_id: known.gpus for job_id, known in state.known.items() if known.gpus and job_id not in left}
    return stay | {place.job_id: place.gpus for place in plan.placements}


@settings(max_examples=300, deadline=None)
@given(scenes())
def test_nothing_is_lent_and_nothing_left_idle_that_a_due_job_could_have(scene):
    """Whatever the plan calls late, where nobody takes turns and GPUs are only counted."""
    state, plan, options = scene
    options = replace(options, serves_by_reference=False)
    state, plan = replace(state, nodes=(), places=Places()), replace(plan, placements=())
    if check_plan(state, plan, options):
        return
    started = {start.job.job_id for start in plan.starts}
    inside = inside_lanes(state, counts_guests=options.converts).values()
    waits = [one.job for one in inside if one.standing is Standing.WAITING and one.job.job_id not in started]
    assert not waits or not any(start.is_guest for start in plan.starts)
    back, out = (
        sum(job.num_gpus for job in jobs) for jobs in (plan.send_backs, (one.job for one in plan.starts))
    )
    left_gpus = state.idle_gpus + back - out
    in_time = [job for job in waits if job not in plan.late]
    if all(job.num_gpus <= left_gpus for job in in_time):
        assert all(job.num_gpus > left_gpus for job in waits if job in plan.late)


@settings(max_examples=150, deadline=None)
@given(scenes())
def test_what_is_left_of_a_plan_lends_nothing_and_passes(scene):
    state, plan, options = scene
    part = lawful_part(state, plan, options)
    assert check_plan(state, part, options) == ()
    assert not any(start.is_guest for start in part.starts)
    assert set(part.starts) <= set(plan.starts)
    lends_nothing = replace(
        plan, holds=(), starts=tuple(start for start in plan.starts if not start.is_guest)
    )
    if plan.placements:
        left = {start.job.job_id for start in lends_nothing.starts}
        kept = tuple(place for place in plan.placements if place.job_id in left)
        lends_nothing = replace(lends_nothing, placements=kept)
    if not check_plan(state, replace(plan, holds=()), options) and not check_plan(
        state, lends_nothing, options
    ):
        assert set(part.starts) == {start for start in plan.starts if not start.is_guest}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("aabbc"), st.integers(1, 4), st.integers(0, 2)), max_size=30))
def test_the_books_kept_fact_by_fact_are_those_of_the_whole_list(told):
    """What the incremental index says is what an index built anew from the list says."""
    books = PlanBooks(QUOTAS)
    order: list[Job] = []
    for k, (pool, width, act) in enumerate(told):
        if act == 0 or not order:
            order.append(Job(f"j{k}", pool, float(k), min(width, QUOTAS[pool])))
            books.submitted(order[-1])
        else:
            act_on(books, order, k % len(order), act)
        if k % 3 == 0:
            books.decided(Plan())
        kept = books.state(0.0, 0)
        anew = state_of(0.0, 0, QUOTAS, [kept.known[job.job_id] for job in order])
        assert {pool: list(line) for pool, line in kept.lines.items() if line} == {
            pool: list(line) for pool, line in anew.lines.items()
        }
        assert {pool: gpus for pool, gpus in kept.own_gpus.items() if gpus} == anew.own_gpus


def act_on(books: PlanBooks, order: list[Job], which: int, act: int) -> None:
    """Start, send back or end one of the jobs."""
    job = order[which]
    waits = books.state(0.0, 0).known[job.job_id].standing is Standing.WAITING
    if act == 1 and waits:
        books.started(job)
    elif act == 1:
        books.sent_back(job)
    else:
        books.ended(job)
        del order[which]
