"""All findings of a history. A new one is a member of `FindingId`, a function, and a line here."""

from collections.abc import Callable, Sequence
from typing import Final

from data.insight import of_how_long, of_when, of_whom
from data.insight.evidence import Evidence
from data.insight.finding import Finding

LOOKS: Final[Sequence[Callable[[Evidence], Finding | None]]] = (
    of_whom.users_and_names,
    of_whom.unknown_users,
    of_whom.one_user,
    of_whom.no_pools,
    of_whom.pool_of_passed,
    of_whom.part_only,
    of_whom.paths_in_text,
    of_whom.recurrence,
    of_when.pending_at_one_time,
    of_when.no_waits,
    of_when.waits_doubtful,
    of_when.clock,
    of_when.zone_assumed,
    of_when.clocks_changed,
    of_when.days_without_rows,
    of_when.short_record,
    of_how_long.censored_at_edge,
    of_how_long.truncated_at_start,
    of_how_long.mostly_cut_off,
    of_how_long.states_unknown,
    of_how_long.lives_with_waits,
    of_how_long.lengths_disagree,
    of_how_long.limits,
    of_how_long.attempts_not_jobs,
    of_how_long.pods_not_jobs,
    of_how_long.widths,
    of_how_long.without_gpus,
    of_how_long.shares_of_gpus,
)
_OF_INVENTORY: Final[Sequence[Callable[[Evidence], Finding | None]]] = (
    of_how_long.fields_trimmed,
    of_how_long.pools_come_and_go,
)


def findings(evidence: Evidence) -> list[Finding]:
    """What the history cannot support; of a cluster without a job only what its inventory shows."""
    looks = [*LOOKS, *_OF_INVENTORY] if len(evidence.jobs) else _OF_INVENTORY
    return [found for look in looks if (found := look(evidence)) is not None]
