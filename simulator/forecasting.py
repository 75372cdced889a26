"""Which forecasts a policy is given in a replay: chosen by settings, trained on the past, told the rest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from domain.errors import ClairvoyanceError, SettingError
from domain.forecasts import LifetimeForecaster
from domain.observers import Observer
from models import DEMAND_MODELS, LIFETIME_MODELS, Training
from simulator.truth import TrueDemand, TrueLives
from simulator.workload import Workload
from solver.demand import DemandForecaster, NoDemand
from solver.policies.base import PolicySpec

TRUE: Final = "true"
AUTO: Final = "auto"
COMMON_SETTINGS: Final = ("lives", "arrivals", "retrain_days")
"""Settings of the forecasts; policies that ask for none of them do not have them."""

_DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class ForecastChoice:
    """What a policy is given.

    Attributes:
        lives: `true` or a name in `LIFETIME_MODELS`; None if the policy asks for none.
        arrivals: `true` or a name in `DEMAND_MODELS`; None if the policy asks for none.
        retrain_days: models are fitted anew every so many days of the replay; 0: once, before it.
    """

    lives: str | None
    arrivals: str | None
    retrain_days: float

    @property
    def retrain_every_s(self) -> float | None:
        """Models are fitted anew every so many seconds; None: never."""
        return self.retrain_days * _DAY_S or None

    def as_settings(self) -> dict[str, object]:
        """Those that are in force, for a report."""
        asked = {"lives": self.lives, "arrivals": self.arrivals}
        found: dict[str, object] = {name: value for name, value in asked.items() if value is not None}
        return found | ({"retrain_days": self.retrain_days} if found else {})


@dataclass(frozen=True)
class Forecasters:
    """The forecasters themselves, and those of them that want to be told what happens."""

    lives: LifetimeForecaster
    demand: DemandForecaster
    observers: tuple[Observer, ...]

    def saw_truth(self) -> bool:
        """Whether a clairvoyant one was asked."""
        true_ones = (one for one in (self.lives, self.demand) if isinstance(one, TrueLives | TrueDemand))
        return any(one.was_asked for one in true_ones)


def split_settings(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """A policy's settings apart: those of its forecasts, and its own."""
    common = {key: value for key, value in given.items() if key in COMMON_SETTINGS}
    return common, {key: value for key, value in given.items() if key not in COMMON_SETTINGS}


def common_choices(spec: PolicySpec) -> dict[str, tuple[str, ...]]:
    """The common settings a policy has that are names, and what they may be; `AUTO`, the default, first."""
    known = {"lives": spec.uses_lives, "arrivals": spec.uses_demand}
    models = {"lives": tuple(LIFETIME_MODELS), "arrivals": tuple(DEMAND_MODELS)}
    return {
        name: (AUTO, *(() if spec.is_clairvoyant else models[name])) for name, asked in known.items() if asked
    }


def choose(policy: str, spec: PolicySpec, given: Mapping[str, str], *, may_see_truth: bool) -> ForecastChoice:
    """Read the common settings of a policy.

    `auto` is the truth for clairvoyant policies, and for those that are defined by estimates given to them
    where the truth may be seen; everywhere else it is what is learned.

    Raises:
        SettingError: if the policy does not ask for what is set, or a value is unknown.
        ClairvoyanceError: if the truth is needed but not allowed, or refused by a clairvoyant policy.
    """
    lives = _one(policy, given, "lives", spec.uses_lives, tuple(LIFETIME_MODELS))
    arrivals = _one(policy, given, "arrivals", spec.uses_demand, tuple(DEMAND_MODELS))
    if lives == AUTO:
        lives = TRUE if spec.is_clairvoyant or (spec.takes_estimates and may_see_truth) else spec.lives
    if arrivals == AUTO:
        arrivals = TRUE if spec.is_clairvoyant else spec.arrivals
    if TRUE in (lives, arrivals) and not may_see_truth:
        raise ClairvoyanceError(f"policy {policy} needs the truth: allow it with --clairvoyant")
    if spec.is_clairvoyant and ({lives, arrivals} - {TRUE, None}):
        raise ClairvoyanceError(
            f"policy {policy} is clairvoyant by definition: it takes nothing but the truth"
        )
    return ForecastChoice(lives, arrivals, _retrain_days(policy, spec, given))


def training_of(workload: Workload, choice: ForecastChoice, seed: int) -> Training:
    """What had happened before a replay."""
    return Training(
        quotas=workload.cluster.quotas(),
        past=workload.past,
        censored=workload.unended,
        now_s=workload.train_until_s,
        retrain_every_s=choice.retrain_every_s,
        seed=seed,
        starts=workload.starts,
        cut_off=workload.cut_off,
    )


def build(choice: ForecastChoice, training: Training, truth: Workload | None = None) -> Forecasters:
    """Make the forecasters and train them.

    Args:
        choice: which ones.
        training: what had happened before.
        truth: what is going to happen; needed where the choice is the truth.

    Raises:
        ClairvoyanceError: if the truth is chosen and there is none, as in a live cluster.
    """
    if TRUE in (choice.lives, choice.arrivals) and truth is None:
        raise ClairvoyanceError("the truth is not known yet: choose a model that learns")
    lives: LifetimeForecaster
    demand: DemandForecaster
    if choice.lives == TRUE and truth is not None:
        lives = TrueLives(truth.outcomes)
    else:
        lives = LIFETIME_MODELS[choice.lives or "learned"](training)
    if choice.arrivals == TRUE and truth is not None:
        demand = TrueDemand(truth.jobs, truth.outcomes, list(training.quotas))
    elif choice.arrivals is None:
        demand = NoDemand()
    else:
        demand = DEMAND_MODELS[choice.arrivals](training)
    return gathered(choice, lives, demand)


def gathered(choice: ForecastChoice, lives: LifetimeForecaster, demand: DemandForecaster) -> Forecasters:
    """Forecasters that are trained already, and those of them that were asked for and want to be told."""
    asked = [one for one, name in ((lives, choice.lives), (demand, choice.arrivals)) if name is not None]
    return Forecasters(lives, demand, tuple(one for one in asked if isinstance(one, Observer)))


def _one(
    policy: str, given: Mapping[str, str], name: str, is_asked: bool, known: tuple[str, ...]
) -> str | None:
    value = given.get(name, AUTO)
    if not is_asked:
        if name in given:
            raise SettingError(f"policy {policy} asks for no {name}: there is no setting {name!r}")
        return None
    choices = (AUTO, TRUE, *known)
    if value not in choices:
        raise SettingError(f"{name}={value} is unknown; there are: {', '.join(choices)}")
    return value


def _retrain_days(policy: str, spec: PolicySpec, given: Mapping[str, str]) -> float:
    if "retrain_days" not in given:
        return spec.retrain_days
    if not (spec.uses_lives or spec.uses_demand):
        raise SettingError(f"policy {policy} asks for no forecasts: there is no setting 'retrain_days'")
    try:
        days = float(given["retrain_days"])
    except ValueError:
        days = -1.0
    if not 0.0 <= days <= 365.0:
        raise SettingError(f"retrain_days is {given['retrain_days']!r}, must be a number in [0, 365]")
    return days
