"""How the tables came to be: one file per change, run by Alembic."""

from typing import Final

HEAD: Final = "0012"
"""The newest change: what the database must have for this code."""
