"""The independent judge of single plans: it shares no code with what makes them.

It looks at one plan and at the cluster of the instant before (`solver.plan_rules`), works out by itself who
is inside which lane and who is due, and names every broken rule. `lawful_part` is what may be done of a plan
that breaks one.

A pool's lane, told from the state alone: its own jobs that run, then, in the order of the line, whoever still
fits beside them in the quota, up to the first that does not. Jobs wider than the quota have no promise and
block nobody. Who is inside the lane and waits is *due*.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from domain.jobs import Job, submit_order
from domain.measures import is_slowed
from domain.plans import NOTHING, Plan
from solver.check_places import finds_no_place, place_faults
from solver.plan_rules import STRICT, Known, PlanFault, PlanOptions, PlanRule, PlanState, Standing


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
    scene = _look(state, plan, options)
    found = [*_naming(scene), *_capacity(scene), *_stopping(scene)]
    if options.has_own_lanes:
        found += [*_quotas(scene), *_lanes(scene), *_promises(scene), *_lateness(scene), *_holds(scene)]
    found += place_faults(state, plan)
    return tuple(found)


def lawful_part(state: PlanState, plan: Plan, options: PlanOptions = STRICT) -> Plan:
    """The largest part of a plan, taken in its order, that lends nothing and breaks no rule.

    Who may be passed over first, then conversions, guests sent back, and own starts with their placements:
    each stays if the part with it is without fault. What is left out is not lost: whoever planned it is
    asked again.
    """
    part = NOTHING
    places = {placement.job_id: placement for placement in plan.placements}
    for job in plan.late:
        part = _if_lawful(state, part, replace(part, late=(*part.late, job)), options)
    for job in plan.conversions:
        part = _if_lawful(state, part, replace(part, conversions=(*part.conversions, job)), options)
    for job in plan.send_backs:
        part = _if_lawful(state, part, replace(part, send_backs=(*part.send_backs, job)), options)
    for start in plan.starts:
        if not start.is_guest:
            place = places.get(start.job.job_id)
            placements = part.placements if place is None else (*part.placements, place)
            more = replace(part, starts=(*part.starts, start), placements=placements)
            part = _if_lawful(state, part, more, options)
    return part


def _if_lawful(state: PlanState, before: Plan, after: Plan, options: PlanOptions) -> Plan:
    return before if check_plan(state, after, options) else after


@dataclass(frozen=True, slots=True)
class _Scene:
    """A plan beside its state, and what the checker has worked out of them.

    Attributes:
        inside: jobs inside their lane that do not run as own yet, in the order of the lines.
        due: those of them that wait.
        left: those of the due that the plan does not start, although they have a place if nodes are known,
            and that may not be passed over: the plan does not call them late.
        needs: of each placed start, how many GPUs it takes that nobody else has: a rider takes none.
        idle_gpus: GPUs that nobody has once the guests are gone.
    """

    state: PlanState
    plan: Plan
    options: PlanOptions
    inside: Mapping[str, Known]
    due: Mapping[str, Known]
    left: Mapping[str, Known]
    needs: Mapping[str, int]
    idle_gpus: int

    def runs_as(self, job: Job) -> Standing | None:
        known = self.state.known.get(job.job_id)
        return None if known is None else known.standing

    def gpus_for(self, job: Job) -> int:
        """Idle GPUs that starting a job takes."""
        return self.needs.get(job.job_id, job.num_gpus)


def _look(state: PlanState, plan: Plan, options: PlanOptions) -> _Scene:
    started = {start.job.job_id for start in plan.starts}
    inside = inside_lanes(state, counts_guests=options.converts)
    due = {job_id: one for job_id, one in inside.items() if one.standing is Standing.WAITING}
    passed_over = started | {job.job_id for job in plan.late}
    left = {
        job_id: one
        for job_id, one in due.items()
        if job_id not in passed_over and not finds_no_place(state, plan, one.job)
    }
    leaving = {job.job_id: state.known[job.job_id] for job in plan.send_backs if job.job_id in state.known}
    in_use: set[tuple[str, int]] = set()
    if plan.placements or any(one.gpus for one in leaving.values()):
        staying = (one for job_id, one in state.known.items() if job_id not in leaving)
        in_use.update((gpu.node, gpu.index) for one in staying for gpu in one.gpus)
    idle_gpus = state.idle_gpus + _freed_gpus(leaving.values(), in_use)
    return _Scene(state, plan, options, inside, due, left, _needs(plan, in_use), idle_gpus)


def _freed_gpus(leaving: Iterable[Known], in_use: AbstractSet[tuple[str, int]]) -> int:
    """GPUs that nobody has any more once the guests are gone; one that was shared stays in use."""
    return sum(
        one.job.num_gpus - sum((gpu.node, gpu.index) in in_use for gpu in one.gpus)
        for one in leaving
        if one.standing is Standing.GUEST
    )


def _needs(plan: Plan, in_use: AbstractSet[tuple[str, int]]) -> dict[str, int]:
    taken = set(in_use)
    needs: dict[str, int] = {}
    for placement in plan.placements:
        keys = {(gpu.node, gpu.index) for gpu in placement.gpus}
        needs[placement.job_id] = len(keys - taken)
        taken |= keys
    return needs


def inside_lanes(state: PlanState, *, counts_guests: bool) -> dict[str, Known]:
    """Whom the lanes reach that does not run as own yet, by id, pool by pool in the order of the lines.

    Args:
        state: the cluster.
        counts_guests: whether guests are part of their lane, to become own; else they are passed over.
    """
    inside: dict[str, Known] = {}
    for pool, line in state.lines.items():
        quota = state.quotas.get(pool, 0)
        room = quota - state.own_gpus.get(pool, 0)
        for job_id, one in line.items():
            width = one.job.num_gpus
            if width > quota or (one.standing is Standing.GUEST and not counts_guests):
                continue
            if width > room:
                break
            room -= width
            inside[job_id] = one
    return inside


def _fault(rule: PlanRule, job: Job, found: str) -> PlanFault:
    return PlanFault(rule, job.job_id, job.pool, f"job {job.job_id} of pool {job.pool} {found}")


def _naming(scene: _Scene) -> Iterator[PlanFault]:
    plan = scene.plan
    named = [*plan.send_backs, *plan.conversions, *(start.job for start in plan.starts)]
    times = Counter(job.job_id for job in named)
    for job in {job.job_id: job for job in named}.values():
        known = scene.state.known.get(job.job_id)
        if known is None or known.job != job:
            yield _fault(PlanRule.UNKNOWN_JOB, job, "is none of the unfinished jobs")
        if times[job.job_id] > 1:
            yield _fault(PlanRule.NAMED_TWICE, job, f"is named {times[job.job_id]} times")


def _capacity(scene: _Scene) -> Iterator[PlanFault]:
    """Whoever starts must wait, and find idle GPUs or those of guests that are sent back."""
    room, is_told = scene.idle_gpus, False
    for job, _ in scene.plan.starts:
        runs_as = scene.runs_as(job)
        if runs_as in (Standing.OWN, Standing.GUEST):
            yield _fault(PlanRule.STARTS_WHAT_DOES_NOT_WAIT, job, f"is to start, but runs as {runs_as}")
        needs = scene.gpus_for(job)
        if needs > room and not is_told:
            is_told = True
            found = f"is to start on {needs} GPUs, {room} are left by then"
            yield _fault(PlanRule.MORE_GPUS_THAN_IDLE, job, found)
        room -= needs


def _stopping(scene: _Scene) -> Iterator[PlanFault]:
    """Guests are sent back, and only those that may be; own jobs never are."""
    share, may = scene.options.requeueable_share, scene.options.may_send_back
    for job in scene.plan.send_backs:
        runs_as = scene.runs_as(job)
        if runs_as is Standing.WAITING:
            yield _fault(PlanRule.SENDS_BACK_WHAT_DOES_NOT_RUN, job, "is to be sent back, but waits")
            continue
        reached = scene.options.has_own_lanes and scene.options.converts and job.job_id in scene.inside
        if runs_as is Standing.OWN or reached:
            yield _fault(PlanRule.OWN_JOB_SENT_BACK, job, "is to be sent back, but is its pool's own")
        if not (may and job.is_requeueable(share)):
            yield _fault(
                PlanRule.SENT_BACK_BUT_NOT_REQUEUEABLE, job, "is to be sent back, but must run to its end"
            )
        if scene.options.has_own_lanes and not scene.due:
            yield _fault(PlanRule.SENT_BACK_FOR_NOBODY, job, "is to be sent back, but no own job waits")


def _quotas(scene: _Scene) -> Iterator[PlanFault]:
    """What is own, once the plan is carried out, fits each pool's quota."""
    own = scene.state.own_gpus
    for pool, gpus in _added_own_gpus(scene).items():
        quota = scene.state.quotas.get(pool, 0)
        has = own.get(pool, 0)
        if has + gpus > quota:
            found = f"pool {pool} would have {has + gpus} GPUs of its own, its quota is {quota}"
            yield PlanFault(PlanRule.OWN_BEYOND_QUOTA, None, pool, found)


def _added_own_gpus(scene: _Scene) -> Counter[str]:
    """GPUs that become own by the plan, by pool."""
    added: Counter[str] = Counter()
    for job in [*scene.plan.conversions, *(start.job for start in scene.plan.starts if not start.is_guest)]:
        added[job.pool] += job.num_gpus
    return added


def _lanes(scene: _Scene) -> Iterator[PlanFault]:
    """Own starts are first come, first served: what the lane has reached, in its order."""
    place = {job_id: k for k, job_id in enumerate(scene.due)}
    for job, is_guest in scene.plan.starts:
        if is_guest:
            continue
        if job.job_id not in place:
            yield _fault(
                PlanRule.OWN_START_BEYOND_LANE, job, "is to start as own, but its lane has not reached it"
            )
        passed = _overtaken(scene, job, place)
        if passed is not None:
            yield _fault(
                PlanRule.OWN_START_OVERTAKES,
                job,
                f"is to start before job {passed.job_id}, which stands before it in the lane",
            )


def _overtaken(scene: _Scene, starts: Job, place: Mapping[str, int]) -> Job | None:
    """A due job of the same pool that is left waiting although it came first, by line and by submit."""
    own_place = place.get(starts.job_id, len(place))
    for one in scene.left.values():
        job = one.job
        came_first = place[job.job_id] < own_place and submit_order(job) < submit_order(starts)
        if job.pool == starts.pool and came_first:
            return job
    return None


def _promises(scene: _Scene) -> Iterator[PlanFault]:
    yield from _conversions(scene)
    for job, is_guest in scene.plan.starts:
        if not is_guest:
            continue
        if job.job_id in scene.due:
            yield _fault(PlanRule.GUEST_INSIDE_ITS_LANE, job, "is to start as a guest, but is due as own")
        waits = _waits_for(scene, job) if scene.gpus_for(job) else None
        if waits is not None:
            yield _fault(
                PlanRule.LENT_WHILE_DUE_JOB_WAITS,
                job,
                f"is lent {job.num_gpus} GPUs while job {waits.job_id} of pool {waits.pool} is due",
            )


def _lateness(scene: _Scene) -> Iterator[PlanFault]:
    """Who is passed over because he is slowed already: only lengths could tell for sure, waiting must fit."""
    for job in scene.plan.late:
        waited_s = scene.state.now_s - job.submit_s
        if job.job_id not in scene.due or not is_slowed(waited_s):
            yield _fault(
                PlanRule.PASSED_OVER_BUT_NOT_LATE,
                job,
                f"is passed over as late, but is not due or has waited for {waited_s:g} s only",
            )


def _conversions(scene: _Scene) -> Iterator[PlanFault]:
    for job in scene.plan.conversions:
        runs_as = scene.runs_as(job)
        if runs_as is not Standing.GUEST:
            yield _fault(PlanRule.CONVERTED_BUT_NO_GUEST, job, f"is to become own, but is {runs_as}")
        elif job.job_id not in scene.inside:
            yield _fault(PlanRule.CONVERTED_BEYOND_LANE, job, "is to become own, but is beyond its lane")


def _waits_for(scene: _Scene, guest: Job) -> Job | None:
    """A due job that is left waiting and could use the GPUs a guest is lent."""
    placed = (place for place in scene.plan.placements if place.job_id == guest.job_id)
    types = {gpu.gpu_type for place in placed for gpu in place.gpus}
    if not types and guest.gpu_type is not None:
        types = {guest.gpu_type}
    for one in scene.left.values():
        wanted = one.job.gpu_type
        if wanted is None or not types or types & {wanted, "any"}:
            return one.job
    return None


def _holds(scene: _Scene) -> Iterator[PlanFault]:
    """GPUs are held for pools there are, and no more than a pool may have of its own."""
    quotas = scene.state.quotas
    own = Counter(scene.state.own_gpus) + _added_own_gpus(scene)
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


def _holds_in_use(scene: _Scene) -> Iterator[PlanFault]:
    """What is held until an instant is idle now; a hold without one takes what comes free."""
    left = scene.idle_gpus - sum(scene.gpus_for(job) for job, _ in scene.plan.starts)
    for hold in scene.plan.holds:
        if hold.until_s is None:
            continue
        if hold.num_gpus > left:
            found = f"{hold.num_gpus} GPUs are held for pool {hold.pool}, {max(left, 0)} are idle by then"
            yield PlanFault(PlanRule.HOLD_OF_GPUS_IN_USE, None, hold.pool, found)
        left -= hold.num_gpus
