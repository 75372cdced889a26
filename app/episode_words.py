"""An episode in words."""

from collections.abc import Iterable, Sequence
from typing import Final

from simulator.episodes import Cause, Episode
from simulator.lent import GuestsOf

_SHOWN_POOLS: Final = 4
_DAY_S: Final = 86_400.0
_HOUR_S: Final = 3600.0
_MINUTE_S: Final = 60.0

_SAID: Final = {
    Cause.LIVES: "guests outlived their forecasts",
    Cause.ARRIVALS: "more was asked for than usual",
    Cause.PLANNER: "neither lives nor arrivals explain half of what was missing",
}


def worst_first(found: Iterable[Episode]) -> list[Episode]:
    """Episodes with the most jobs first, then by minutes lost."""
    return sorted(found, key=lambda one: (-one.jobs, -one.total_min, one.begin_s))


def episode_words(episode: Episode) -> list[str]:
    """A few lines: when and who, who was on lent GPUs, the cause and its evidence, what was done."""
    evidence = episode.evidence
    counted = [f"{jobs} of {pool}" for pool, jobs in episode.pools.items()]
    head = (
        f"{clock(episode.begin_s)} to {clock(episode.end_s)}: {episode.jobs} jobs late ({_listed(counted)}), "
        f"the worst by {episode.worst_min:.0f} min, {episode.total_min / 60.0:.1f} h in all; "
        f"{evidence.short_gpus} GPUs were missing"
    )
    lines = [head, f"  on lent GPUs: {_listed([_guests(one) for one in episode.guests]) or 'nobody'}"]
    if episode.cohort is not None:
        one = episode.cohort
        who = " ".join(part for part in (one.user, one.name) if part)
        lines.append(
            f"  most siblings among them: {one.jobs} of {one.submitted_jobs} jobs of pool {one.pool}"
            f"{f' ({who})' if who else ''}, {one.width} GPUs each, submitted from {clock(one.submit_s)} on"
        )
    lines.append(f"  cause: {episode.cause}: {_SAID[episode.cause]}; {_evidence(episode)}")
    lines.append(
        f"  while it lasted {episode.guests_started} guests were started and "
        f"{episode.guests_sent_back} sent back"
    )
    return lines


def clock(at_s: float) -> str:
    """Day and time of day on the record's clock, which begins with day 0."""
    day, rest_s = divmod(at_s, _DAY_S)
    minutes = int(rest_s // _MINUTE_S)
    return f"day {int(day)} {minutes // 60:02}:{minutes % 60:02}"


def span(length_s: float) -> str:
    """A length of time in a unit that suits it."""
    for unit_s, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if length_s >= unit_s:
            return f"{length_s / unit_s:.1f} {unit}"
    return f"{length_s:.0f} s"


def _guests(one: GuestsOf) -> str:
    widths = ", ".join(f"{jobs} x {width}" for width, jobs in one.widths.items())
    words = (
        f"{one.gpus} GPUs of {one.pool} ({widths}; for {span(one.median_age_s)}, "
        f"at most {span(one.longest_age_s)}"
    )
    if one.outlived_gpus:
        words += f"; {one.outlived_gpus} beyond their 0.9 quantile"
    return words + ")"


def _evidence(episode: Episode) -> str:
    evidence = episode.evidence
    words = (
        f"{evidence.asked_gpus} GPUs newly asked for within {span(evidence.window_s)}, "
        f"{evidence.usual_gpus:.0f} are usual"
    )
    if evidence.expected_early_gpus is None:
        return words
    return (
        f"{evidence.early_gpus} GPUs were still held by early starters, "
        f"{evidence.expected_early_gpus:.0f} expected; {words}"
    )


def _listed(parts: Sequence[str]) -> str:
    rest = len(parts) - _SHOWN_POOLS
    shown = list(parts[:_SHOWN_POOLS]) + ([f"{rest} more pools"] if rest > 0 else [])
    return "; ".join(shown)
