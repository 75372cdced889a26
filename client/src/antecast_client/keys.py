"""Where the API key comes from."""

import os
import stat
from pathlib import Path
from typing import Final

from antecast_client.errors import KeyFileError

API_KEY: Final = "ANTECAST_API_KEY"
"""Environment variable that comes before any file."""


def read_key(path: Path | None = None) -> str | None:
    """The API key: from the environment, else from a file that nobody else may read.

    Args:
        path: the file; `~/.config/antecast/key`, if it is there, where None.

    Raises:
        KeyFileError: if others may read the file, or it is not there although it was named.
    """
    if os.environ.get(API_KEY):
        return os.environ[API_KEY]
    file = path or Path.home() / ".config" / "antecast" / "key"
    if not file.exists():
        if path is not None:
            raise KeyFileError(f"there is no key file {path}")
        return None
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise KeyFileError(f"others may read the key in {file}: chmod 600 {file}")
    return file.read_text(encoding="utf-8").strip()
