"""Whether two jobs should share a GPU: at which shares and rates, with what risk, and when both then end.

The host is the wider job, the rider shares only with it. Packed, both run at once, and who is left alone goes
on at full speed; apart, one runs after the other. Ends are by median rates, risks by their intervals.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from app.services.packing_rates import Basis, Known, PairKnowledge, Setting, chance_below
from domain.errors import SettingError
from domain.interference import RateForecast
from models.interference.estimate import Need, fit_chance
from solver.packing.consenting import CONTEXT_MIB

LEFT_S: Final = 3600.0
"""What is taken to be left of a job of which nothing is said."""

LEAST_FIT: Final = 0.9
"""Chance of fitting below which packing is advised against."""

LEAST_GAIN: Final = 0.01
"""Share by which the objective has to get better: less is within what nobody can tell."""


@dataclass(frozen=True, slots=True)
class AskedJob:
    """One job that is asked about.

    Attributes:
        name: what it is called in the answer.
        model: what it trains.
        width: GPUs it runs on.
        memory_mib: most memory it takes on one GPU; None: estimated.
        left_s: what is left of it at full speed.
        deadline_s: seconds from now by which it should have ended; None: no deadline.
    """

    name: str
    model: str
    width: int = 1
    memory_mib: float | None = None
    left_s: float = LEFT_S
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What all answers have in common.

    Attributes:
        objective: name of what is to get better, one of `OBJECTIVES`.
        budget: share of its speed that a host may lose, 0 to 1.
        gpu_memory_mib: memory of a GPU; None: not known.
        is_balanced: whether the samples of a host move to its faster workers (LISS).
        may_reorder: whether apart either may come first: neither runs yet.
    """

    objective: str
    budget: float = 0.1
    gpu_memory_mib: float | None = None
    is_balanced: bool = False
    may_reorder: bool = False


class Ends(NamedTuple):
    """Seconds from now at which the two end."""

    host_s: float
    rider_s: float


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer for one host and one rider.

    Attributes:
        host, rider: the two.
        is_advised: whether to pack them.
        why: one sentence.
        basis: where the rates under free competition are from.
        setting: the best shares, and the rates of host and rider under them (of the whole jobs); None if they
            are known not to fit.
        fit_chance: chance that they fit; None: nothing is known of the memory.
        over_budget_chance: chance that the host loses more than its budget.
        packed, apart: ends at the median rates, packed at these shares and one after the other.
    """

    host: AskedJob
    rider: AskedJob
    is_advised: bool
    why: str
    basis: Basis
    setting: Setting | None
    fit_chance: float | None
    over_budget_chance: float
    packed: Ends | None
    apart: Ends


Score = Callable[[Ends, AskedJob, AskedJob], tuple[float, ...]]
"""What is to be small, in order of weight."""


def _mean_end(ends: Ends, _host: AskedJob, _rider: AskedJob) -> tuple[float, ...]:
    return ((ends.host_s + ends.rider_s) / 2.0,)


def _last_end(ends: Ends, host: AskedJob, rider: AskedJob) -> tuple[float, ...]:
    return (max(ends), *_mean_end(ends, host, rider))


def _overrun(ends: Ends, host: AskedJob, rider: AskedJob) -> tuple[float, ...]:
    """The largest overrun of a deadline, in the words of Gimbal's paper rather than its printed signs."""
    both = zip(ends, (host.deadline_s, rider.deadline_s), strict=True)
    overruns = [max(0.0, end - deadline) for end, deadline in both if deadline is not None]
    return (max(overruns, default=0.0), *_mean_end(ends, host, rider))


OBJECTIVES: Final[Mapping[str, Score]] = MappingProxyType(
    {"jct": _mean_end, "deadline": _overrun, "makespan": _last_end, "promise": _mean_end}
)
"""By name. `promise` takes only shares at which the host keeps its budget at the lower end of its rate."""


def parse_job(text: str, name: str) -> AskedJob:
    """A job as the command line has it: MODEL, or MODEL,width=2,memory_mib=9000,left_s=7200,deadline_s=9000.

    Raises:
        SettingError: if it is not written so, or a value is out of its range.
    """
    model, *parts = (part.strip() for part in text.split(","))
    if not model or "=" in model:
        raise SettingError(f"--job {text!r}: the model comes first, as in 'ResNet-50,width=2,left_s=7200'")
    values: dict[str, float] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key not in ("width", "memory_mib", "left_s", "deadline_s") or key in values:
            raise SettingError(
                f"--job {text!r}: {part!r} is not width, memory_mib, left_s or deadline_s, once"
            )
        values[key] = _number(text, key, value)
    width = values.get("width", 1.0)
    if width != int(width):
        raise SettingError(f"--job {text!r}: width is a whole number of GPUs")
    left_s, memory_mib, deadline_s = (values.get(key) for key in ("left_s", "memory_mib", "deadline_s"))
    return AskedJob(name, model, int(width), memory_mib, LEFT_S if left_s is None else left_s, deadline_s)


def advise(first: AskedJob, second: AskedJob, knowledge: PairKnowledge, question: Question) -> Advice:
    """Advice for two jobs; the wider is the host, the first where they are equally wide.

    Raises:
        SettingError: if there is no such objective.
    """
    if question.objective not in OBJECTIVES:
        raise SettingError(f"{question.objective!r} is none of {', '.join(OBJECTIVES)}")
    host, rider = (first, second) if first.width >= second.width else (second, first)
    known = knowledge.of(host.model, rider.model)
    chance = _fit(host, rider, known, knowledge, question)
    apart = _apart(host, rider, question)
    bare = Advice(host, rider, False, "", known.basis, None, chance, 0.0, None, apart)
    if not known.settings or chance == 0.0:
        return replace(bare, why="the two do not fit into the memory of one GPU", fit_chance=0.0)
    judged = list(_judged(host, rider, known, question))
    allowed = [one for one in judged if question.objective != "promise" or _keeps(one[0], question)]
    score = OBJECTIVES[question.objective]
    if allowed:
        setting, packed = min(allowed, key=lambda one: (score(one[1], host, rider), _order(one[0])))
    else:
        setting, packed = max(judged, key=lambda one: (one[0].rates[0].lower, one[0].rates[1].median))
    return replace(
        bare,
        is_advised=_is_worth(score(packed, host, rider), score(apart, host, rider))
        and bool(allowed)
        and (chance is None or chance >= LEAST_FIT),
        why=_why(bool(allowed), chance, score(packed, host, rider), score(apart, host, rider)),
        setting=setting,
        over_budget_chance=chance_below(setting.rates[0], 1.0 - question.budget),
        packed=packed,
    )


def _judged(
    host: AskedJob, rider: AskedJob, known: Known, question: Question
) -> Iterator[tuple[Setting, Ends]]:
    """Each pair of shares with the rates of the whole jobs, and when they end."""
    shared = rider.width / host.width if question.is_balanced else 1.0
    for one in known.settings:
        of_host, of_rider = one.rates
        whole = RateForecast(
            *(1.0 - shared * (1.0 - rate) for rate in (of_host.lower, of_host.median, of_host.upper))
        )
        ends = together((host.left_s, rider.left_s), (whole.median, of_rider.median))
        yield replace(one, rates=(whole, of_rider)), ends


def together(left_s: tuple[float, float], rates: tuple[float, float]) -> Ends:
    """Ends of two jobs that start to share now, each alone once the other has ended."""
    until = min(left / rate for left, rate in zip(left_s, rates, strict=True))
    return Ends(*(until + max(0.0, left - rate * until) for left, rate in zip(left_s, rates, strict=True)))


def _apart(host: AskedJob, rider: AskedJob, question: Question) -> Ends:
    both = host.left_s + rider.left_s
    ways = [Ends(host.left_s, both)]
    if question.may_reorder and question.objective != "promise":
        ways.append(Ends(both, rider.left_s))
    return min(ways, key=lambda ends: OBJECTIVES[question.objective](ends, host, rider))


def _fit(
    host: AskedJob, rider: AskedJob, known: Known, knowledge: PairKnowledge, question: Question
) -> float | None:
    """Chance that the two fit: what was measured, then memories against the GPU's, then what pairs tell."""
    if known.basis is Basis.MEASURED and known.fit_chance == 1.0:
        return 1.0
    needs = [
        knowledge.estimate.need(job.model) if job.memory_mib is None else Need(job.memory_mib, is_told=True)
        for job in (host, rider)
    ]
    told = [need for need in needs if need is not None]
    if question.gpu_memory_mib is None or len(told) < len(needs):
        return known.fit_chance
    by_memory = fit_chance(told, question.gpu_memory_mib - CONTEXT_MIB)
    if known.fit_chance is None or all(need.is_told for need in told):
        return by_memory
    return min(by_memory, known.fit_chance)


def _keeps(setting: Setting, question: Question) -> bool:
    return setting.rates[0].lower >= 1.0 - question.budget


def _order(setting: Setting) -> tuple[bool, float, float]:
    """Among equals: measured first, then whoever is limited least."""
    return not setting.is_measured, -sum(setting.shares_pct), -setting.shares_pct[0]


def _is_worth(packed: Sequence[float], apart: Sequence[float]) -> bool:
    """Whether the first figure that differs is smaller by more than a hundredth."""
    for ours, theirs in zip(packed, apart, strict=True):
        if abs(ours - theirs) > LEAST_GAIN * max(ours, theirs):
            return ours < theirs
    return False


def _why(is_allowed: bool, chance: float | None, packed: Sequence[float], apart: Sequence[float]) -> str:
    if not is_allowed:
        return "at no shares does the host keep its budget with 90 % confidence"
    if chance is not None and chance < LEAST_FIT:
        return f"the chance that both fit into memory is {100 * chance:.0f} %, below {100 * LEAST_FIT:.0f} %"
    if not _is_worth(packed, apart):
        return "one after the other is as good"
    return "better than one after the other" + ("" if chance is not None else ", if both fit into memory")


def _number(text: str, key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError as error:
        raise SettingError(f"--job {text!r}: {key} is {value!r}, a number is expected") from error
    low, high = (1.0, 65_536.0) if key == "width" else (1.0 if key != "deadline_s" else -1e11, 1e11)
    if not low <= number <= high:
        raise SettingError(f"--job {text!r}: {key} is {value}, from {low:g} to {high:g} is allowed")
    return number
