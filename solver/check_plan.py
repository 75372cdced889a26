"""The independent judge of single plans: it shares no code with what makes them.

It looks at one plan and at the cluster of the instant before (`solver.plan_rules`), works out by itself who
is inside which lane and who is due, and names every broken rule. `lawful_part` is what may be done of a plan
that breaks one.

A pool's lane, told from the state alone: its own jobs that run, then, in the order of the line, whoever still
fits beside them in the quota, up to the first that does not. Jobs wider than the quota have no promise and
block nobody. Who is inside the lane and waits is *due*.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from domain.jobs import Job, submit_order
from domain.plans import NOTHING, Plan
from solver.check_places import place_faults
from solver.check_scene import Scene, fault, inside_lanes, look
from solver.check_sharing import share_faults
from solver.check_turns import lateness, lending
from solver.place_scene import look_at_places
from solver.plan_rules import STRICT, PlanFault, PlanOptions, PlanRule, PlanState, Standing

__all__ = ["check_plan", "inside_lanes", "lawful_part"]


def check_plan(state: PlanState, plan: Plan, options: PlanOptions = STRICT) -> tuple[PlanFault, ...]:
    """Judge a plan against the state it is about to change.

    Args:
        state: the cluster before the plan.
        plan: what is to be done.
        options: what the policy behind it owes.

    Returns:
        Every broken rule, in the order of the rules; empty if the plan may leave. O(jobs + GPUs) a call.
    """
    if plan == NOTHING:
        return ()
    scene = look(state, plan, options)
    found = [*_naming(scene), *_capacity(scene), *_stopping(scene), *_suspending(scene)]
    if options.has_own_lanes:
        found += [*_quotas(scene), *_lanes(scene), *_conversions(scene)]
        found += [*lending(scene), *lateness(scene), *_holds(scene)]
    found += place_faults(state, plan, options)
    if plan.shares:
        found += share_faults(look_at_places(state, plan), plan)
    return tuple(found)


def lawful_part(state: PlanState, plan: Plan, options: PlanOptions = STRICT) -> Plan:
    """The largest part of a plan, taken in its order, that lends nothing and breaks no rule.

    Who may be passed over first, then conversions, guests sent back, jobs suspended, own starts with their
    placements, and shares: each stays if the part with it is without fault. What is left out is not lost:
    whoever planned it is asked again. Whoever is called late and would fit what is left over is not passed
    over, and nobody overtakes him.
    """
    late = plan.late
    while True:
        part = _taken_in_turn(state, replace(plan, late=late), options)
        fit = {found.job_id for found in check_plan(state, part, options)}
        if not fit:
            return part
        late = tuple(job for job in part.late if job.job_id not in fit)


def _taken_in_turn(state: PlanState, plan: Plan, options: PlanOptions) -> Plan:
    """The part whose only fault may be that who is passed over would fit: that is told by the whole only."""
    part = NOTHING
    places = {placement.job_id: placement for placement in plan.placements}
    for job in plan.late:
        part = _if_lawful(state, part, replace(part, late=(*part.late, job)), options)
    for job in plan.conversions:
        part = _if_lawful(state, part, replace(part, conversions=(*part.conversions, job)), options)
    for job in plan.send_backs:
        part = _if_lawful(state, part, replace(part, send_backs=(*part.send_backs, job)), options)
    for job in plan.suspends:
        part = _if_lawful(state, part, replace(part, suspends=(*part.suspends, job)), options)
    for start in plan.starts:
        if not start.is_guest:
            place = places.get(start.job.job_id)
            placements = part.placements if place is None else (*part.placements, place)
            more = replace(part, starts=(*part.starts, start), placements=placements)
            part = _if_lawful(state, part, more, options)
    for one in plan.shares:
        part = _if_lawful(state, part, replace(part, shares=(*part.shares, one)), options)
    return part


def _if_lawful(state: PlanState, before: Plan, after: Plan, options: PlanOptions) -> Plan:
    faults = check_plan(state, after, options)
    return after if all(one.rule is PlanRule.PASSED_OVER_BUT_WOULD_FIT for one in faults) else before


def _naming(scene: Scene) -> Iterator[PlanFault]:
    plan = scene.plan
    starts = (start.job for start in plan.starts)
    named = [*plan.send_backs, *plan.suspends, *plan.conversions, *starts]
    jobs = {job.job_id: job for job in named}
    times = Counter(job.job_id for job in named) if len(jobs) < len(named) else {}
    moved = _moved(scene)
    for job_id, job in jobs.items():
        known = scene.state.known.get(job_id)
        if known is None or (known.job is not job and known.job != job):
            yield fault(PlanRule.UNKNOWN_JOB, job, "is none of the unfinished jobs")
        if times.get(job_id, 1) > 1 + (job_id in moved):
            yield fault(PlanRule.NAMED_TWICE, job, f"is named {times[job_id]} times")


def _moved(scene: Scene) -> frozenset[str]:
    """Who is suspended and starts again at once, on other GPUs; nobody where nobody may be suspended."""
    suspended = {job.job_id for job in scene.plan.suspends} if scene.options.may_suspend else set()
    return scene.started & suspended


def _capacity(scene: Scene) -> Iterator[PlanFault]:
    """Whoever starts must wait, and find idle GPUs or those of jobs that are stopped; a rider needs none."""
    room, is_told, moved = scene.idle_gpus, False, _moved(scene)
    for job, _ in scene.plan.starts:
        runs_as = scene.runs_as(job)
        if runs_as in (Standing.OWN, Standing.GUEST) and job.job_id not in moved:
            yield fault(PlanRule.STARTS_WHAT_DOES_NOT_WAIT, job, f"is to start, but runs as {runs_as}")
        needs = scene.gpus_for(job)
        if needs > room and not is_told:
            is_told = True
            found = f"is to start on {needs} GPUs, {room} are left by then"
            yield fault(PlanRule.MORE_GPUS_THAN_IDLE, job, found)
        room -= needs


def _stopping(scene: Scene) -> Iterator[PlanFault]:
    """Guests are sent back, and only those that may be; own jobs never are."""
    share, may = scene.options.requeueable_share, scene.options.may_send_back
    for job in scene.plan.send_backs:
        runs_as = scene.runs_as(job)
        if runs_as is Standing.WAITING:
            yield fault(PlanRule.SENDS_BACK_WHAT_DOES_NOT_RUN, job, "is to be sent back, but waits")
            continue
        reached = scene.options.has_own_lanes and scene.options.converts and job.job_id in scene.inside
        if runs_as is Standing.OWN or reached:
            yield fault(PlanRule.OWN_JOB_SENT_BACK, job, "is to be sent back, but is its pool's own")
        if not (may and job.is_requeueable(share)):
            yield fault(
                PlanRule.SENT_BACK_BUT_NOT_REQUEUEABLE, job, "is to be sent back, but must run to its end"
            )
        if scene.options.has_own_lanes and not scene.due and not _shares(scene, job):
            yield fault(PlanRule.SENT_BACK_FOR_NOBODY, job, "is to be sent back, but no own job waits")


def _shares(scene: Scene, job: Job) -> bool:
    """Whether a job has a neighbour on one of its GPUs, for whose sake it may be stopped by who packs."""
    known, workers = scene.state.known.get(job.job_id), scene.state.places.workers
    gpus = () if known is None or not scene.options.packs else known.gpus
    return any(len(workers.get((gpu.node, gpu.index), ())) > 1 for gpu in gpus)


def _suspending(scene: Scene) -> Iterator[PlanFault]:
    """Only a policy that may stops jobs without loss, and never what is own in a lane."""
    for job in scene.plan.suspends:
        runs_as = scene.runs_as(job)
        if runs_as is Standing.WAITING:
            yield fault(PlanRule.SUSPENDS_WHAT_DOES_NOT_RUN, job, "is to be suspended, but waits")
        elif not scene.options.may_suspend:
            yield fault(PlanRule.SUSPENDED_BUT_MAY_NOT_BE, job, "is to be suspended, the policy stops nobody")
        elif scene.options.has_own_lanes and runs_as is Standing.OWN:
            yield fault(PlanRule.SUSPENDED_BUT_MAY_NOT_BE, job, "is to be suspended, but is its pool's own")


def _quotas(scene: Scene) -> Iterator[PlanFault]:
    """What is own, once the plan is carried out, fits each pool's quota."""
    own = scene.state.own_gpus
    for pool, gpus in _added_own_gpus(scene).items():
        quota = scene.state.quotas.get(pool, 0)
        has = own.get(pool, 0)
        if has + gpus > quota:
            found = f"pool {pool} would have {has + gpus} GPUs of its own, its quota is {quota}"
            yield PlanFault(PlanRule.OWN_BEYOND_QUOTA, None, pool, found)


def _added_own_gpus(scene: Scene) -> dict[str, int]:
    """GPUs that become own by the plan, by pool."""
    added: dict[str, int] = {}
    for job in [*scene.plan.conversions, *(start.job for start in scene.plan.starts if not start.is_guest)]:
        added[job.pool] = added.get(job.pool, 0) + job.num_gpus
    return added


def _lanes(scene: Scene) -> Iterator[PlanFault]:
    """Own starts are first come, first served: what the lane has reached, in its order."""
    place = {job_id: k for k, job_id in enumerate(scene.due)}
    for job, is_guest in scene.plan.starts:
        if is_guest:
            continue
        if job.job_id not in place:
            yield fault(
                PlanRule.OWN_START_BEYOND_LANE, job, "is to start as own, but its lane has not reached it"
            )
        passed = _overtaken(scene, job, place)
        if passed is not None:
            yield fault(
                PlanRule.OWN_START_OVERTAKES,
                job,
                f"is to start before job {passed.job_id}, which stands before it in the lane",
            )


def _overtaken(scene: Scene, starts: Job, place: Mapping[str, int]) -> Job | None:
    """A due job of the same pool that is left waiting although it came first, by line and by submit."""
    own_place = place.get(starts.job_id, len(place))
    for one in scene.left.values():
        job = one.job
        came_first = place[job.job_id] < own_place and submit_order(job) < submit_order(starts)
        if job.pool == starts.pool and came_first:
            return job
    return None


def _conversions(scene: Scene) -> Iterator[PlanFault]:
    for job in scene.plan.conversions:
        runs_as = scene.runs_as(job)
        if runs_as is not Standing.GUEST:
            yield fault(PlanRule.CONVERTED_BUT_NO_GUEST, job, f"is to become own, but is {runs_as}")
        elif job.job_id not in scene.inside:
            yield fault(PlanRule.CONVERTED_BEYOND_LANE, job, "is to become own, but is beyond its lane")


def _holds(scene: Scene) -> Iterator[PlanFault]:
    """GPUs are held for pools there are, and no more than a pool may have of its own."""
    if not scene.plan.holds:
        return
    quotas = scene.state.quotas
    own = Counter(scene.state.own_gpus) + Counter(_added_own_gpus(scene))
    held: Counter[str] = Counter()
    for hold in scene.plan.holds:
        held[hold.pool] += hold.num_gpus
        if hold.until_s is not None and hold.until_s <= scene.state.now_s:
            found = (
                f"{hold.num_gpus} GPUs are held for pool {hold.pool} until {hold.until_s} s, which is over"
            )
            yield PlanFault(PlanRule.HOLD_IS_OVER, None, hold.pool, found)
    for pool, gpus in held.items():
        if pool not in quotas:
            found = f"{gpus} GPUs are held for pool {pool}, which there is not"
            yield PlanFault(PlanRule.HOLD_FOR_UNKNOWN_POOL, None, pool, found)
        elif own[pool] + gpus > quotas[pool]:
            found = f"{gpus} GPUs are held for pool {pool} beside {own[pool]} of its own"
            found += f", its quota is {quotas[pool]}"
            yield PlanFault(PlanRule.HOLD_BEYOND_QUOTA, None, pool, found)
    yield from _holds_in_use(scene)


def _holds_in_use(scene: Scene) -> Iterator[PlanFault]:
    """What is held until an instant is idle now; a hold without one takes what comes free."""
    left = scene.left_gpus
    for hold in scene.plan.holds:
        if hold.until_s is None:
            continue
        if hold.num_gpus > left:
            found = f"{hold.num_gpus} GPUs are held for pool {hold.pool}, {max(left, 0)} are idle by then"
            yield PlanFault(PlanRule.HOLD_OF_GPUS_IN_USE, None, hold.pool, found)
        left -= hold.num_gpus
