"""What is kept of a real trace: a few hundred aggregate numbers, and their JSON form."""

import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

SHIPPED: Final = "philly_like.json"


@dataclass(frozen=True, slots=True)
class PoolParameters:
    """Statistics of one pool.

    A burst is a run of jobs of the pool, each submitted within `gap_limit_s` of the one before.
    Quantile tables hold one value per level of `PhillyLikeParameters.levels`.

    Attributes:
        name: the pool.
        quota_gpus: its quota in the fitted data.
        load: GPU-seconds of its jobs / (fitted span x quota).
        jobs_per_day: jobs / day.
        bursts_per_day: bursts / day.
        widths: GPUs per job, ascending.
        width_shares: share of the jobs of each width.
        life_s: quantiles of the duration over jobs, seconds.
        burst_jobs: quantiles of the jobs per burst, over bursts.
        period_s: quantiles of the time from one burst's first job to the next one's, seconds, after the
            hour-of-day and weekday profile has been taken out (time runs faster in busy hours).
        gap_s: quantiles of the gaps between neighbours inside a burst, seconds.
        life_sibling_corr: mean correlation of the lives' normal scores between jobs of one burst.
        common_width_share: share of jobs that take the width of their burst; the others' widths are
            drawn on their own.
        width_life_corr: correlation of the normal scores of width and life over jobs, freed of ties.
        size_life_corr: the same for the burst's size and life.
        closed_share: share of bursts that begin within `reaction_s` of the end of a job of the pool,
            beyond what chance would give at the same times of the week.
        hour_profile: rate of bursts in each of the 24 hours of the day relative to the mean; hour 0
            begins at second 0 of the trace's clock.
        weekday_profile: the same for the seven days of the week; day 0 begins at second 0.

    Raises:
        ValueError: if a share or a correlation is out of its range, a rate is not positive, the
            tables of widths do not match, or a profile is malformed.
    """

    name: str
    quota_gpus: int
    load: float
    jobs_per_day: float
    bursts_per_day: float
    widths: tuple[int, ...]
    width_shares: tuple[float, ...]
    life_s: tuple[float, ...]
    burst_jobs: tuple[float, ...]
    period_s: tuple[float, ...]
    gap_s: tuple[float, ...]
    life_sibling_corr: float
    common_width_share: float
    width_life_corr: float
    size_life_corr: float
    closed_share: float
    hour_profile: tuple[float, ...]
    weekday_profile: tuple[float, ...]

    def __post_init__(self) -> None:
        for label in ("life_sibling_corr", "common_width_share", "closed_share"):
            _require(0 <= getattr(self, label) <= 1, self.name, f"{label} must lie in [0, 1]")
        for label in ("width_life_corr", "size_life_corr"):
            _require(-1 <= getattr(self, label) <= 1, self.name, f"{label} must lie in [-1, 1]")
        for label in ("quota_gpus", "jobs_per_day", "bursts_per_day"):
            _require(getattr(self, label) > 0, self.name, f"{label} must be above 0")
        ascending = list(self.widths) == sorted(set(self.widths)) and min(self.widths, default=0) >= 1
        _require(ascending, self.name, "widths must be whole numbers from 1, ascending")
        _require(self.widths[0] <= self.quota_gpus, self.name, "no width fits the quota")
        _require(len(self.width_shares) == len(self.widths), self.name, "one share per width")
        _require(min(self.width_shares) > 0, self.name, "width_shares must be above 0")
        for label, size in (("hour_profile", 24), ("weekday_profile", 7)):
            profile = getattr(self, label)
            _require(
                len(profile) == size and min(profile) > 0, self.name, f"{label} needs {size} values above 0"
            )

    def tables(self) -> dict[str, tuple[float, ...]]:
        """The quantile tables by name."""
        return {
            "life_s": self.life_s,
            "burst_jobs": self.burst_jobs,
            "period_s": self.period_s,
            "gap_s": self.gap_s,
        }


@dataclass(frozen=True, slots=True)
class PhillyLikeParameters:
    """Aggregate statistics of a trace of several pools, enough to generate one like it.

    Attributes:
        source: where the data came from, its licence, and what was fitted.
        gap_limit_s: jobs of one pool further apart than this belong to different bursts, seconds.
        reaction_s: a burst that begins within this time after the end of a job of its pool may be an
            answer to it, seconds.
        levels: levels of all quantile tables, ascending from 0 to 1.
        pools: by falling number of jobs.

    Raises:
        ValueError: if the levels are malformed, a table does not match the levels or falls,
            or a pool occurs twice.
    """

    source: str
    gap_limit_s: float
    reaction_s: float
    levels: tuple[float, ...]
    pools: tuple[PoolParameters, ...]

    def __post_init__(self) -> None:
        ordered = list(self.levels) == sorted(set(self.levels)) and len(self.levels) >= 2
        _require(
            ordered and self.levels[0] == 0 and self.levels[-1] == 1, "levels", "must ascend from 0 to 1"
        )
        for pool in self.pools:
            for label, table in pool.tables().items():
                matches = len(table) == len(self.levels) and list(table) == sorted(table) and table[0] >= 0
                _require(matches, pool.name, f"{label} needs one value per level, ascending from at least 0")
        names = [pool.name for pool in self.pools]
        _require(len(names) == len(set(names)) > 0, "pools", "needs at least one pool, each name once")

    def to_json(self) -> str:
        """JSON text, one field a line; `from_json` gives back an equal object."""
        fields = asdict(self)
        pools = [f"{{\n{_field_lines(pool, 3)}\n  }}" for pool in fields.pop("pools")]
        return f'{{\n{_field_lines(fields, 1)},\n "pools": [\n  {", ".join(pools)}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> "PhillyLikeParameters":
        """Read what `to_json` wrote.

        Raises:
            ValueError: if the text is not JSON, a field is missing or unknown, or a value breaks its rule.
        """
        try:
            raw: dict[str, Any] = json.loads(text)
            pools = tuple(PoolParameters(**_tuples(pool)) for pool in raw.pop("pools"))
            return cls(**_tuples(raw), pools=pools)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not the parameters of a workload: {error}") from error


@cache
def shipped_parameters() -> PhillyLikeParameters:
    """The parameters that ship with Antecast, fitted on the first 19 days of the public Philly trace."""
    return PhillyLikeParameters.from_json(files("data").joinpath(SHIPPED).read_text(encoding="utf-8"))


def _field_lines(fields: dict[str, Any], indent: int) -> str:
    return ",\n".join(
        f"{' ' * indent}{json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items()
    )


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}


def _require(holds: bool, where: str, rule: str) -> None:
    if not holds:
        raise ValueError(f"{where}: {rule}")
