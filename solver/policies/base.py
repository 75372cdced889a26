"""What a policy is: a rule that is told facts and asked for decisions.

The engine (and later the service) calls the fact methods as things happen and `decide` once all facts of
an instant are told. A policy sees `Job`, never `JobOutcome`; what it believes about lives comes from the
`LifetimeForecaster` it was given.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, Protocol, get_type_hints, runtime_checkable

from domain.cluster import Node
from domain.errors import SettingError
from domain.forecasts import LifetimeForecaster
from domain.interference import InterferenceForecaster
from domain.jobs import Job
from domain.plans import Plan
from solver.demand import DemandForecaster, NoDemand
from solver.packing.shared_rates import Measured
from solver.placement.room import NodeKeeper


class Lends(StrEnum):
    """To whom a policy lends: who may start beyond its pool's own lane or quota."""

    NOBODY = "nobody"
    REQUEUEABLE = "requeueable"
    ALL = "all"


class Policy(Protocol):
    """One sharing rule. Facts in, plans out; everything else is its own business."""

    def submitted(self, job: Job, now_s: float) -> None:
        """A job has become eligible."""
        ...

    def started(self, job: Job, now_s: float) -> None:
        """A job runs (because a plan said so)."""
        ...

    def ended(self, job: Job, now_s: float) -> None:
        """A running job has ended, or a waiting one was cancelled."""
        ...

    def sent_back(self, job: Job, now_s: float) -> None:
        """A running job was stopped and waits again; by our plans that happens to guests only."""
        ...

    def decide(self, now_s: float, idle_gpus: int) -> Plan:
        """What to do now, with `idle_gpus` GPUs idle. Must not assume that the plan is carried out."""
        ...


@runtime_checkable
class KnowsRates(Protocol):
    """A policy that goes by how much work running jobs have done; others are not told of rates."""

    def rate_changed(self, job: Job, now_s: float, rate: float) -> None:
        """A running job goes on at another rate, in (0, 1]; see `domain.observers.Observer.rate_changed`."""
        ...


@runtime_checkable
class KnowsRiders(Protocol):
    """A policy that can be told which running jobs are on GPUs of another one and take none themselves."""

    def rides(self, job: Job, now_s: float, host: Job) -> None:
        """A running job is on GPUs of a running host, at least as wide, which rides with nobody itself."""
        ...

    def alone(self, job: Job, now_s: float) -> None:
        """A rider has GPUs of its own; told or not, it does so once its host has stopped."""
        ...


@runtime_checkable
class KnowsSlack(Protocol):
    """A policy that says how much of its speed a job may lose to others on its GPUs and still be in time."""

    def allowed_loss(self, now_s: float) -> Mapping[str, float]:
        """Share of its speed that a running or waiting job may lose from now on, by id, in [0, 1).

        Who is not named may lose nothing. Plans are held to it (`solver.plan_rules.PlanState.allowed_loss`).
        """
        ...


@runtime_checkable
class LooksAgain(Protocol):
    """A policy that wants to decide at instants of its own, whether or not something happens then."""

    def look_again_s(self) -> float:
        """The next such instant after its last decision; infinite if there is none."""
        ...


@runtime_checkable
class KeepsNotes(Protocol):
    """A policy that writes down how its decisions came about."""

    def notes(self) -> Mapping[str, Any]:
        """For the report of a replay: nothing that differs when it is replayed again, so no seconds."""
        ...


@runtime_checkable
class PlansLending(Protocol):
    """A policy some of whose decisions come from a lending plan."""

    def plan_behind(self) -> Mapping[str, Any] | None:
        """What is known of the plan behind the last decision (`solver.lending.problem.LendingPlan.said`).

        None if that decision was not planned.
        """
        ...


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """What a policy is built from.

    Attributes:
        quotas: GPUs of each pool, in the order of the pools; they add up to the cluster.
        lives: forecaster of job lifetimes.
        demand: forecaster of arrivals; the one that knows nothing where none was given.
        future: all jobs of the replay, by (submit, id); empty unless the policy is clairvoyant.
        running: jobs that run already when the policy begins, and whether as their pool's own. They are
            told as submitted and started before the first decision, like all others.
        nodes: who says what room the nodes have; None where GPUs are only counted. A policy may ignore it:
            what finds no place waits.
        hosts: nodes on whose GPUs jobs may share; empty unless pairs are known.
        pairs: who says how fast two jobs run that share a GPU; None where nobody may share.
        under_shares: rates that were measured under MPS shares, by two models.
        models: names of the models of which pairs were measured; empty unless pairs are known.
        is_live: somebody waits for the decisions, so what a policy solves is held to wall-clock limits. In a
            replay these are out of reach, and only limits decide that are the same everywhere.
    """

    quotas: Mapping[str, int]
    lives: LifetimeForecaster
    demand: DemandForecaster = field(default_factory=NoDemand)
    future: tuple[Job, ...] = ()
    running: Mapping[str, bool] = field(default_factory=dict)
    nodes: NodeKeeper | None = None
    hosts: tuple[Node, ...] = ()
    pairs: InterferenceForecaster | None = None
    under_shares: Measured = field(default_factory=dict)
    models: tuple[str, ...] = ()
    is_live: bool = False

    @property
    def own(self) -> frozenset[str]:
        """Jobs that run as their pool's own when the policy begins."""
        return frozenset(job_id for job_id, is_own in self.running.items() if is_own)


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A registered policy: how it is built, and whether it needs the truth.

    Attributes:
        build: makes the policy from its context and settings.
        settings: frozen dataclass whose fields are what `--set key=value` may set.
        is_clairvoyant: it only makes sense with true lives, and runs under `--clairvoyant` only.
        uses_lives: it asks for lives (and is starred when they are the truth).
        uses_demand: it asks for arrivals (likewise).
        takes_estimates: it is defined by estimates given to it: true ones where the truth may be seen.
        lives: lifetime model it is given unless told otherwise.
        arrivals: the same of demand.
        retrain_days: its models are fitted anew every so many days; 0: once, before the replay.
        tick_s: while jobs wait it also decides at every multiple of this, not only when something happens.
        may_send_back: it stops guests, so its schedules contain lost attempts.
        has_own_lanes: it tells own jobs from guests, and own widths never exceed the quota.
        converts: guests that their lane reaches become own; where not, a guest stays one (SIA).
        serves_by_reference: where GPUs are too few for all who are due, jobs beyond the lanes that the
            reference starts now take their turn among them.
        lends: who may start beyond its pool's own lane or quota.
        packs: it places jobs itself, two on a GPU where that pays: it needs nodes and measured pairs.
        suspends: it stops jobs whose work is all kept, and may move them to other GPUs.
    """

    build: Callable[[PolicyContext, Any], Policy]
    settings: type
    is_clairvoyant: bool = False
    uses_lives: bool = False
    uses_demand: bool = False
    takes_estimates: bool = False
    lives: str = "learned"
    arrivals: str = "learned"
    retrain_days: float = 0.0
    tick_s: float | None = None
    may_send_back: bool = False
    has_own_lanes: bool = False
    converts: bool = True
    serves_by_reference: bool = False
    lends: Lends = Lends.ALL
    packs: bool = False
    suspends: bool = False


@dataclass(frozen=True, slots=True)
class NoSettings:
    """A policy with nothing to set."""


@dataclass(frozen=True, slots=True)
class LevelSettings:
    """Settings of a policy that goes by one number for a job's life.

    Attributes:
        level: level of the forecast life that counts as the job's life, in (0, 1).
    """

    level: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"level is {self.level}, must lie in (0, 1)")


_SWITCHES: Final = {"on": True, "off": False, "true": True, "false": False}
_SWITCH_TEXTS: Final = {True: "on", False: "off"}


def parse_settings(name: str, settings: type, given: Mapping[str, str]) -> Any:
    """Build a policy's settings from `key=value` texts.

    Raises:
        SettingError: for an unknown key, a value of the wrong type or one the settings refuse.
    """
    hints = get_type_hints(settings)
    known = {one.name for one in fields(settings)}
    unknown = sorted(set(given) - known)
    if unknown:
        offer = ", ".join(sorted(known)) or "nothing"
        raise SettingError(f"policy {name} has no setting {unknown[0]!r}; it can set: {offer}")
    try:
        return settings(**{key: _convert(hints[key], text) for key, text in given.items()})
    except ValueError as error:
        raise SettingError(f"policy {name}: {error}") from error


def describe_settings(settings: type) -> dict[str, Any]:
    """Defaults of a settings class, for help texts and reports."""
    return {one.name: None if one.default is MISSING else one.default for one in fields(settings)}


def setting_text(value: Any) -> str:
    """A value as it is written on the command line, so that `parse_settings` reads it back."""
    return _SWITCH_TEXTS[value] if isinstance(value, bool) else str(value)


def _convert(kind: Any, text: str) -> Any:
    if kind is bool:
        if text.lower() not in _SWITCHES:
            raise ValueError(f"{text!r} is neither on nor off (true and false are read as well)")
        return _SWITCHES[text.lower()]
    return kind(text)
