"""What jobs are grouped by: the keys of recent lives and of the life tables, from what is known at submit."""

from dataclasses import dataclass
from typing import Final

from domain.jobs import Job
from models.lifetime.names import SimilarNames, template_of

Key = tuple[str | int | float | None, ...]

KEY_KINDS: Final = (
    "pool-width",
    "pool",
    "user",
    "name",
    "user-pool-width",
    "user-name",
    "similar name",
    "exact name",
    "limit",
    "user-limit",
    "type",
    "model",
)
"""Kinds of keys whose recent lives are features of their own."""

SPECIFIC_FIRST: Final = tuple(
    KEY_KINDS.index(kind)
    for kind in ("exact name", "user-name", "user-limit", "user-pool-width", "similar name", "user", "name")
) + tuple(KEY_KINDS.index(kind) for kind in ("model", "type", "limit", "pool-width", "pool"))

NUM_CHAINS: Final = 3
"""Chains of table keys: within the pool, across pools by limit, across pools by user and name."""

_ALL: Final[Key] = ("all",)


@dataclass(frozen=True, slots=True)
class JobKeys:
    """Keys of one job.

    Attributes:
        pool_width: the pool and the width.
        lives: of `KEY_KINDS`, None where it has no such key.
        chains: of its life tables, each from the most general to the most specific; a chain that would add
            nothing is the first one again.
        tables: those of all chains, each once.
        use: of how its user uses limits; None without user or limit.
    """

    pool_width: Key
    lives: tuple[Key | None, ...]
    chains: tuple[tuple[Key, ...], ...]
    tables: tuple[Key, ...]
    use: Key | None


def keys_of(job: Job, names: SimilarNames, *, is_submitted: bool = True) -> JobKeys:
    """Keys of a job that is submitted now: its name is known from now on, unless it is only asked about."""
    template = similar = None
    if job.name is not None:
        template = template_of(job.name)
        group = ("pool", job.pool) if job.user is None else ("user", job.user)
        similar = names.used(group, template) if is_submitted else names.like(group, template)
    lives = _lives(job, template, similar)
    chains = _chains(job, template, similar)
    tables = tuple(dict.fromkeys(key for chain in chains for key in chain))
    use = None if job.limit_s is None or job.user is None else ("use", job.user)
    return JobKeys(("pool-width", job.pool, job.num_gpus), lives, chains, tables, use)


def _lives(job: Job, template: str | None, similar: str | None) -> tuple[Key | None, ...]:
    user, pool, limit_s = job.user, job.pool, job.limit_s
    has_user = user is not None
    is_numbered = template is not None and template != job.name
    return (
        ("pool-width", pool, job.num_gpus),
        ("pool", pool),
        ("user", user) if has_user else None,
        None if template is None else ("name", template),
        ("user-pool-width", user, pool, job.num_gpus) if has_user else None,
        ("user-name", user, template) if has_user and template is not None else None,
        None if similar is None else ("user-name", user, similar) if has_user else ("name", similar),
        ("exact name", user, job.name) if is_numbered else None,
        None if limit_s is None else ("limit", pool, limit_s),
        ("user-limit", user, limit_s) if has_user and limit_s is not None else None,
        None if job.gpu_type is None else ("type", job.gpu_type, job.num_gpus),
        None if job.model is None else ("model", job.model),
    )


def _chains(job: Job, template: str | None, similar: str | None) -> tuple[tuple[Key, ...], ...]:
    user, pool, width = job.user, job.pool, job.num_gpus
    main: list[Key] = [_ALL, ("pool", pool), ("width", pool, width)]
    if user is not None:
        main.append(("user", pool, width, user))
    if similar is not None:
        main.append(("name", pool, width, user, similar))
    if template is not None:
        main.append(("name", pool, width, user, template))
    first = tuple(main)
    by_limit, by_user = first, first
    if job.limit_s is not None:
        classes: tuple[Key, ...] = (_ALL, ("limit", pool, job.limit_s))
        by_limit = classes if user is None else (*classes, ("limit", user, job.limit_s))
    if user is not None or template is not None:
        across: list[Key] = [_ALL]
        if template is not None:
            across.append(("template", template))
        if user is not None:
            across.append(("user", user))
        if user is not None and template is not None:
            across.append(("template", user, template))
        by_user = tuple(across)
    return (first, by_limit, by_user)
