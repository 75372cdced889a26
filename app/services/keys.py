"""API keys: made once, shown once, kept as hashes, compared in constant time."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from sqlalchemy import Engine

from app.clock import Clock, SystemClock
from app.errors import Conflict, Invalid, UnknownResource
from app.store import keys
from app.store.engine import reading, transaction
from app.store.tables import ApiKeyRow

_SHAPE: Final = re.compile(r"ak_([0-9a-f]{16})_([0-9a-f]{64})")
_NO_HASH: Final = "0" * 64
MAX_LIFE_S: Final = 10 * 366 * 86_400.0
"""Longest life of a key that expires, and longest overlap: ten years."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,62}")


class Scope(StrEnum):
    """What a key may do. `admin` may do everything."""

    READ = "read"
    PLAN = "plan"
    APPLY = "apply"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what they may do; `key_id` is empty for who needs no key."""

    name: str
    scopes: frozenset[Scope]
    key_id: str = ""

    def may(self, scope: Scope) -> bool:
        """Whether the scope is theirs."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


@dataclass(frozen=True, slots=True)
class Rotated:
    """What came of a rotation: the new key's text, and when the old one ends."""

    key: str
    key_id: str
    old_ends_at: datetime


def create(
    engine: Engine,
    name: str,
    scopes: Iterable[str],
    clock: Clock | None = None,
    *,
    lives_s: float | None = None,
) -> str:
    """Make a key.

    Args:
        engine: the database.
        name: whose it is, for people; it appears in logs and runs.
        scopes: what it may do, see `Scope`.
        clock: our clock; the wall clock where None.
        lives_s: after how long it expires; never where None.

    Returns:
        The key's text. It is nowhere kept and cannot be shown again.

    Raises:
        Invalid: for an unusable name, an unknown scope or none at all, or a life that is none.
    """
    if _NAME.fullmatch(name) is None:
        raise Invalid(
            "a key's name has 1 to 63 letters, digits, spaces and any of . _ @ -, "
            "and begins with a letter or digit"
        )
    wanted = set(scopes)
    unknown = sorted(wanted - set(Scope))
    if unknown or not wanted:
        offer = ", ".join(Scope)
        raise Invalid(
            f"{unknown[0]!r} is no scope; there are: {offer}" if unknown else f"a key needs a scope: {offer}"
        )
    if lives_s is not None and not 0.0 < lives_s <= MAX_LIFE_S:
        raise Invalid(f"a key lives for more than 0 and at most {MAX_LIFE_S:.0f} s, not {lives_s:g}")
    now = (clock or SystemClock()).now()
    expires_at = None if lives_s is None else now + timedelta(seconds=lives_s)
    text, row = _made(name, sorted(wanted), now, expires_at)
    with transaction(engine) as session:
        keys.add(session, row)
    return text


def rotate(
    engine: Engine, key_id: str, overlap_s: float, clock: Clock, *, lives_s: float | None = None
) -> Rotated:
    """Make a key of the same name and scopes; the old one stays valid for a while.

    Args:
        engine: the database.
        key_id: the old one's.
        overlap_s: for how long the old one stays valid; it never lives longer than it would have.
        clock: our clock.
        lives_s: after how long the new one expires; never where None.

    Raises:
        UnknownResource: if there is no such key.
        Conflict: if it is revoked or has expired, or was rotated before: then who asks has seen an old state.
        Invalid: for an overlap or a life that is none.
    """
    if not 0.0 <= overlap_s <= MAX_LIFE_S:
        raise Invalid(f"the overlap is 0 to {MAX_LIFE_S:.0f} s, not {overlap_s:g}")
    if lives_s is not None and not 0.0 < lives_s <= MAX_LIFE_S:
        raise Invalid(f"a key lives for more than 0 and at most {MAX_LIFE_S:.0f} s, not {lives_s:g}")
    now = clock.now()
    with transaction(engine) as session:
        old = keys.lock(session, key_id)
        if old is None:
            raise UnknownResource(f"there is no key {key_id!r}")
        if not _is_valid(old, now):
            raise Conflict(f"key {key_id} is revoked or has expired: make a new one")
        if keys.successor(session, key_id) is not None:
            raise Conflict(f"key {key_id} has been rotated already; rotate the newer one")
        ends_at = now + timedelta(seconds=overlap_s)
        old.expires_at = ends_at if old.expires_at is None else min(old.expires_at, ends_at)
        expires_at = None if lives_s is None else now + timedelta(seconds=lives_s)
        text, row = _made(old.name, list(old.scopes), now, expires_at)
        row.replaces = key_id
        keys.add(session, row)
        return Rotated(text, row.key_id, old.expires_at)


def find(engine: Engine, text: str, clock: Clock | None = None) -> Caller | None:
    """Whose key this is; None where it is nobody's, revoked, or has expired."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return None
    with reading(engine) as session:
        row = keys.get(session, shape[1])
    kept = _NO_HASH if row is None else row.secret_sha256
    is_right = hmac.compare_digest(_sha256(shape[2]), kept)
    if not is_right or row is None or not _is_valid(row, (clock or SystemClock()).now()):
        return None
    return Caller(row.name, frozenset(Scope(scope) for scope in row.scopes), row.key_id)


def revoke(engine: Engine, key_id: str, clock: Clock) -> None:
    """End a key's life; the first time counts.

    Raises:
        UnknownResource: if there is no such key.
    """
    with transaction(engine) as session:
        row = keys.get(session, key_id)
        if row is None:
            raise UnknownResource(f"there is no key {key_id!r}")
        row.revoked_at = row.revoked_at or clock.now()


def listed(engine: Engine, after: str = "", limit: int | None = None) -> Sequence[ApiKeyRow]:
    """Keys, the oldest first.

    Args:
        engine: the database.
        after: id of the last key of the page before; the first page where empty.
        limit: most keys of the page; all where None.

    Raises:
        UnknownResource: if there is no key `after`.
    """
    with reading(engine) as session:
        last = keys.get(session, after) if after else None
        if after and last is None:
            raise UnknownResource(f"there is no key {after!r}")
        return keys.page(session, last, limit)


def state_of(row: ApiKeyRow, now: datetime) -> str:
    """A key's state in a word: valid, ending (it has been rotated or will expire), expired or revoked."""
    if row.revoked_at is not None:
        return "revoked"
    if row.expires_at is None:
        return "valid"
    return "ending" if now < row.expires_at else "expired"


def _is_valid(row: ApiKeyRow, now: datetime) -> bool:
    return row.revoked_at is None and (row.expires_at is None or now < row.expires_at)


def _made(name: str, scopes: list[str], now: datetime, expires_at: datetime | None) -> tuple[str, ApiKeyRow]:
    """A new key: its text, and what is kept of it."""
    key_id, secret = secrets.token_hex(8), secrets.token_hex(32)
    row = ApiKeyRow(
        key_id=key_id,
        name=name,
        secret_sha256=_sha256(secret),
        scopes=scopes,
        created_at=now,
        expires_at=expires_at,
    )
    return f"ak_{key_id}_{secret}", row


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()
