"""Passwords of the database, made on the first start and kept in a volume that only containers see.

`python make_passwords.py FOLDER` writes, each only if it is not there yet:

    postgres_password, antecast_password   for the database's container, readable by its group
    pgpass                                 the second one as PostgreSQL's clients want it
"""

import os
import secrets
import sys
from pathlib import Path
from typing import Final

GROUP_MAY_READ: Final = 0o640
OWNER_ONLY: Final = 0o600  # PostgreSQL's clients refuse a password file that others may read


def main(folder: Path) -> None:
    """Make what is missing."""
    os.umask(0)
    for role in ("postgres", "antecast"):
        _write_once(folder / f"{role}_password", secrets.token_hex(32), GROUP_MAY_READ)
    password = (folder / "antecast_password").read_text(encoding="ascii").strip()
    _write_once(folder / "pgpass", f"*:*:antecast:antecast:{password}", OWNER_ONLY)


def _write_once(path: Path, text: str, mode: int) -> None:
    """Write a file whole or not at all, and never over another."""
    if path.exists():
        return
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
