"""API keys: made once, shown once, kept as hashes, compared in constant time."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import Engine

from app.clock import Clock, SystemClock
from app.errors import Invalid, UnknownResource
from app.store import keys
from app.store.engine import reading, transaction
from app.store.tables import ApiKeyRow

_SHAPE: Final = re.compile(r"ak_([0-9a-f]{16})_([0-9a-f]{64})")
_NO_HASH: Final = "0" * 64
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,62}")


class Scope(StrEnum):
    """What a key may do. `admin` may do everything."""

    READ = "read"
    PLAN = "plan"
    APPLY = "apply"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what they may do."""

    name: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Whether the scope is theirs."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


def create(engine: Engine, name: str, scopes: Iterable[str], clock: Clock | None = None) -> str:
    """Make a key.

    Args:
        engine: the database.
        name: whose it is, for people; it appears in logs and runs.
        scopes: what it may do, see `Scope`.
        clock: our clock; the wall clock where None.

    Returns:
        The key's text. It is nowhere kept and cannot be shown again.

    Raises:
        Invalid: for an unusable name, an unknown scope or none at all.
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
    key_id, secret = secrets.token_hex(8), secrets.token_hex(32)
    row = ApiKeyRow(
        key_id=key_id,
        name=name,
        secret_sha256=_sha256(secret),
        scopes=sorted(wanted),
        created_at=(clock or SystemClock()).now(),
    )
    with transaction(engine) as session:
        keys.add(session, row)
    return f"ak_{key_id}_{secret}"


def find(engine: Engine, text: str) -> Caller | None:
    """Whose key this is; None where it is nobody's or revoked."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return None
    with reading(engine) as session:
        row = keys.get(session, shape[1])
    kept = _NO_HASH if row is None else row.secret_sha256
    if not hmac.compare_digest(_sha256(shape[2]), kept) or row is None or row.revoked_at is not None:
        return None
    return Caller(row.name, frozenset(Scope(scope) for scope in row.scopes))


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


def listed(engine: Engine) -> Sequence[ApiKeyRow]:
    """All keys, the oldest first."""
    with reading(engine) as session:
        return keys.all_keys(session)


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()
