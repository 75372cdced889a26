"""How often imported jobs save their progress."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0005"
down_revision: Final = "0004"


def upgrade() -> None:
    """Add it, unknown for what is there."""
    with op.batch_alter_table("history_jobs") as batch:
        batch.add_column(sa.Column("checkpoint_s", sa.Float(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    with op.batch_alter_table("history_jobs") as batch:
        batch.drop_column("checkpoint_s")
