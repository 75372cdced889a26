"""A workload replayed under one policy: the forecasters, the policy and the engine put together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from data.pairs import PairTable
from domain.changes.base import QuietTime
from domain.errors import SettingError
from domain.forecasts import LifetimeForecaster
from domain.interference import PairRates
from domain.jobs import submit_order
from domain.schedules import Schedule
from simulator.checked import CheckedPlans, options_of
from simulator.engine import Engine, Progress
from simulator.forecasting import Forecasters, build, choose, split_settings, training_of
from simulator.packed import SharedGpus, pace_of, pairs_for
from simulator.placed import DEFAULT_RULE, PlacedPlans, PlaceRule
from simulator.quiet import QuietTimes
from simulator.workload import Workload
from solver.packing.share_model import ShareModel
from solver.plan_rules import PlanOptions
from solver.policies import POLICIES
from solver.policies.base import (
    KeepsNotes,
    KnowsSlack,
    Policy,
    PolicyContext,
    PolicySpec,
    parse_settings,
)


@dataclass(frozen=True)
class Replay:
    """One replay: what was asked for and what happened.

    Attributes:
        policy: name in the registry.
        settings: the policy's settings in force, defaults and forecasts included.
        saw_truth: whether it looked at the truth; then its figures are starred.
        schedule: what happened.
        held_up_s: where gangs were put on nodes, for how long each job had enough idle GPUs in sum but no
            place; None where GPUs were only counted.
        notes: what the policy wrote down about its own work.
        rates: of two jobs on one GPU under free competition, as they truly are; None where nobody shares.
        share_gain: what MPS shares may gain over these; None where nobody sets any.
    """

    policy: str
    settings: Mapping[str, Any]
    saw_truth: bool
    schedule: Schedule
    held_up_s: Mapping[str, float] | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    rates: PairRates | None = None
    share_gain: float | None = None

    @property
    def packs(self) -> bool:
        """Whether jobs could share GPUs."""
        return self.rates is not None


def replay(  # noqa: PLR0913 - named, and each a part of the question
    workload: Workload,
    policy: str,
    settings: Mapping[str, str],
    *,
    may_see_truth: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    rule: PlaceRule = DEFAULT_RULE,
    checks_plans: bool = False,
    pairs: PairTable | None = None,
    share_model: ShareModel | None = None,
    quiet: Sequence[QuietTime] = (),
) -> Replay:
    """Replay a workload under a policy.

    Args:
        workload: what happens.
        policy: name in the registry.
        settings: `key=value` texts; besides the policy's own those of its forecasts
            (`simulator.forecasting.COMMON_SETTINGS`).
        may_see_truth: whether a clairvoyant policy, or `lives=true`, is allowed.
        seed: of everything that is drawn.
        progress: told now and then how far it is.
        rule: how gangs are put on nodes, where the workload's cluster has nodes.
        checks_plans: whether the independent checker looks at every plan before it is carried out.
        pairs: measured rates of two jobs on one GPU; None: nobody shares.
        share_model: of rates under MPS shares that were not measured; None: the one with its defaults.
        quiet: times in which nothing is lent.

    Raises:
        PlanError: if a plan cannot be, or breaks a rule that is checked.
        SettingError: for an unknown policy or setting.
        ClairvoyanceError: if the truth is needed but not allowed.
    """
    made = prepare(
        workload,
        policy,
        settings,
        may_see_truth=may_see_truth,
        seed=seed,
        progress=progress,
        rule=rule,
        checks_plans=checks_plans,
        pairs=pairs,
        share_model=share_model,
        quiet=quiet,
    )
    schedule = made.engine.run()
    held_up_s = None if made.placer is None else made.placer.held_up_s
    notes = made.policy.notes() if isinstance(made.policy, KeepsNotes) else {}
    shared = made.shared
    return Replay(
        policy,
        made.settings,
        made.forecasters.saw_truth(),
        schedule,
        held_up_s=held_up_s,
        notes=notes,
        rates=None if shared is None else shared.truth.rate,
        share_gain=shared.truth.model.most_gain if shared is not None and made.settings.get("lgrr") else None,
    )


@dataclass(frozen=True)
class Prepared:
    """A replay that has not begun.

    Attributes:
        engine: runs it.
        policy: the rule it follows.
        spec: its registration.
        owes: what its plans are checked for.
        settings: in force, those of the forecasts included.
        forecasters: what it is given.
        placer: puts plans on nodes; None where GPUs are only counted, or the policy places jobs itself.
        shared: how fast two jobs run on one GPU; None where nobody shares.
    """

    engine: Engine
    policy: Policy
    spec: PolicySpec
    owes: PlanOptions
    settings: Mapping[str, Any]
    forecasters: Forecasters
    placer: PlacedPlans | None
    shared: SharedGpus | None = None


def prepare(  # noqa: PLR0913 - named, and each a part of the question
    workload: Workload,
    policy: str,
    settings: Mapping[str, str],
    *,
    may_see_truth: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    rule: PlaceRule = DEFAULT_RULE,
    checks_plans: bool = False,
    pairs: PairTable | None = None,
    share_model: ShareModel | None = None,
    quiet: Sequence[QuietTime] = (),
) -> Prepared:
    """Put a replay together: arguments and what is raised are those of `replay`."""
    spec = _spec(policy)
    common, own = split_settings(settings)
    choice = choose(policy, spec, common, may_see_truth=may_see_truth)
    built = parse_settings(policy, spec.settings, own)
    forecasters = build(choice, training_of(workload, choice, seed), workload)
    cluster = workload.cluster
    if quiet and not spec.has_own_lanes:
        raise SettingError(f"policy {policy} knows no guests, so there are no times without lending")
    reclaim_s = getattr(built, "reclaim_s", 0.0)
    if reclaim_s > 0.0 and cluster.nodes:
        raise SettingError("reclaim_s is for replays that only count GPUs: leave out the nodes")
    shares_gpus = pairs_for(policy, spec, built, workload, pairs, share_model)
    has_placer = bool(cluster.nodes) and not spec.packs
    placer = _placer(workload, forecasters.lives, built, rule) if has_placer else None
    context = PolicyContext(
        quotas=cluster.quotas(),
        lives=forecasters.lives,
        demand=forecasters.demand,
        future=workload.jobs if spec.is_clairvoyant else (),
        nodes=placer,
        hosts=cluster.nodes if shares_gpus is not None else (),
        pairs=None if shares_gpus is None else shares_gpus.forecaster,
        under_shares={} if shares_gpus is None else shares_gpus.under_shares,
        models=pairs.models if pairs is not None and shares_gpus is not None else (),
    )
    rates = None if shares_gpus is None else shares_gpus.truth.rate
    rule_in_force, owes = spec.build(context, built), options_of(spec, built, rates)
    pace = None
    if shares_gpus is not None:
        pace = pace_of(cluster.nodes, shares_gpus, built, forecasters.lives)
    engine = Engine(
        jobs=workload.jobs,
        outcomes=workload.outcomes,
        capacity_gpus=cluster.capacity_gpus,
        policy=rule_in_force,
        observers=forecasters.observers,
        tick_s=spec.tick_s,
        progress=progress,
        placer=placer,
        reclaim_s=reclaim_s,
        pace=pace,
        quiet=QuietTimes(quiet) if quiet else None,
        plan_check=_plan_check(workload, policy, rule_in_force, owes) if checks_plans else None,
    )
    in_force = {one.name: getattr(built, one.name) for one in fields(built)} | choice.as_settings()
    return Prepared(engine, rule_in_force, spec, owes, in_force, forecasters, placer, shares_gpus)


def _plan_check(workload: Workload, policy: str, rule: Policy, owes: PlanOptions) -> CheckedPlans:
    """The independent checker of each plan; what own jobs may lose to others, the policy says itself."""
    allowed_loss = rule.allowed_loss if owes.packs and isinstance(rule, KnowsSlack) else None
    cluster = workload.cluster
    return CheckedPlans(cluster.quotas(), owes, cluster.nodes, policy, allowed_loss=allowed_loss)


def _placer(workload: Workload, lives: LifetimeForecaster, settings: Any, rule: PlaceRule) -> PlacedPlans:
    past = [job for job, _ in (*workload.past, *workload.unended)]
    return PlacedPlans(
        workload.cluster.nodes,
        workload.cluster.quotas(),
        lives,
        requeueable_share=getattr(settings, "requeueable", 0.0),
        past=sorted(past, key=submit_order),
        rule=rule,
    )


def _spec(policy: str) -> PolicySpec:
    if policy not in POLICIES:
        raise SettingError(f"unknown policy {policy!r}; there are: {', '.join(POLICIES)}")
    return POLICIES[policy]
