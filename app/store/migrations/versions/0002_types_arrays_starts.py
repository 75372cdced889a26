"""What a job's record says of its type of GPU, its array and its start."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"

_ADDED: Final = {"jobs": ("gpu_type", "array_id"), "history_jobs": ("gpu_type", "array_id", "start_s")}


def upgrade() -> None:
    """Add them, unknown for what is there."""
    for table, columns in _ADDED.items():
        with op.batch_alter_table(table) as batch:
            for column in columns:
                kind = sa.Float() if column.endswith("_s") else sa.String()
                batch.add_column(sa.Column(column, kind, nullable=True))


def downgrade() -> None:
    """Drop them."""
    for table, columns in _ADDED.items():
        with op.batch_alter_table(table) as batch:
            for column in reversed(columns):
                batch.drop_column(column)
