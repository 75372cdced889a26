"""What a job's record says of its priority."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"

_TABLES: Final = ("jobs", "history_jobs")


def upgrade() -> None:
    """Add it, unknown for what is there."""
    for table in _TABLES:
        with op.batch_alter_table(table) as batch:
            batch.add_column(sa.Column("priority", sa.Float(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    for table in _TABLES:
        with op.batch_alter_table(table) as batch:
            batch.drop_column("priority")
