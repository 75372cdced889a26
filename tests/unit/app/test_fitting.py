"""A live plan cut down to what is idle, and to what the operator lets happen."""

from support import job

from app.children.state import fitting
from domain.plans import Hold, Plan, Start
from solver.check_plan import check_plan
from solver.plan_rules import Known, PlanOptions, state_of

OWN, LATE, TURN = job("own", 0.0, 2, "a"), job("late", 1.0, 2, "b"), job("turn", 2.0, 4, "a")
PLAN = Plan(starts=(Start(TURN, True), Start(OWN, False)), holds=(Hold("b", 2),), late=(LATE,))
BY_REFERENCE = PlanOptions(serves_by_reference=True)


def test_a_plan_that_fits_stays_as_it_is():
    assert fitting(PLAN, 6, is_lending=True) == PLAN


def test_where_nothing_may_be_lent_the_late_get_the_gpus_of_whose_turn_it_was():
    """Else they wait for as long as lending is stopped, beside idle GPUs."""
    state = state_of(200.0, 6, {"a": 4, "b": 2}, tuple(map(Known, (OWN, LATE, TURN))))
    cut = fitting(PLAN, 6, is_lending=False)
    assert cut == Plan(starts=(Start(OWN, False), Start(LATE, False)))
    assert check_plan(state, PLAN, BY_REFERENCE) == ()
    assert check_plan(state, cut, BY_REFERENCE) == ()


def test_what_is_kept_for_who_is_not_late_stays_kept():
    kept = Plan(starts=PLAN.starts, holds=(*PLAN.holds, Hold("c", 6)), late=(LATE,))
    assert fitting(kept, 6, is_lending=False).starts == (Start(OWN, False),)


def test_nobody_overtakes_an_own_start_that_does_not_fit():
    assert fitting(PLAN, 1, is_lending=False).starts == ()
