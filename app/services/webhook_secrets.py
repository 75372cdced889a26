"""Secrets of webhooks, and signatures.

The database holds no secret. There is one key, in a file that only the service's user can read, and each
receiver's secret is HMAC-SHA256(key, its id and its nonce): shown once, and made again to sign. A new nonce
is a new secret. Signatures are those of the Standard Webhooks specification, version 1.
"""

import base64
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from app.errors import Conflict
from app.settings import ServiceSettings
from app.store.engine import parse_url
from domain.errors import SettingError

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"

_PREFIX: Final = "whsec_"
_KEY_BYTES: Final = 32


def key_path(settings: ServiceSettings) -> Path:
    """Where the key is: as set, or beside the database's file.

    Raises:
        Conflict: if it is not set, and the database is not a file.
    """
    if settings.webhook_key_file is not None:
        return settings.webhook_key_file
    url = parse_url(settings.database_url)
    if url.get_backend_name() != "sqlite":
        raise Conflict(
            "webhooks need a key that all processes of the service can read: put 32 random bytes or more "
            "into a file of mode 0600 and name it in ANTECAST_WEBHOOK_KEY_FILE"
        )
    database = Path(str(url.database))
    return database.with_name(f"{database.stem}-webhooks.key")


def read_key(settings: ServiceSettings, *, may_create: bool) -> bytes:
    """The key.

    Args:
        settings: say where it is.
        may_create: make one where there is none, unless the settings name a file.

    Raises:
        Conflict: if it is nowhere.
        SettingError: if the file is missing, too short, or open to others.
    """
    path = key_path(settings)
    if may_create and settings.webhook_key_file is None and not path.exists():
        _create(path)
    try:
        mode = path.stat().st_mode
        key = path.read_bytes()
    except OSError as error:
        raise SettingError(f"the key of webhooks cannot be read: {error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingError(f"{path} can be read by others than its owner: chmod 600 it")
    if len(key) < _KEY_BYTES:
        raise SettingError(f"{path} has {len(key)} bytes, the key of webhooks needs {_KEY_BYTES} or more")
    return key


def secret_of(key: bytes, webhook_id: str, nonce: str) -> str:
    """A receiver's secret, as it is shown to it."""
    made = hmac.digest(key, f"webhook {webhook_id} {nonce}".encode(), hashlib.sha256)
    return _PREFIX + base64.b64encode(made).decode()


def signature_of(secret: str, message_id: str, timestamp: int, body: str) -> str:
    """What `webhook-signature` says: HMAC-SHA256 over id, timestamp (seconds since 1970) and body."""
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = hmac.digest(key, f"{message_id}.{timestamp}.{body}".encode(), hashlib.sha256)
    return "v1," + base64.b64encode(signed).decode()


def _create(path: Path) -> None:
    """A new key, whole or not at all, and one only however many processes make it at once."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(_KEY_BYTES))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was faster: its key is the one
    finally:
        draft.unlink()
