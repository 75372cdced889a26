"""How long imported jobs take to be back where they had saved."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0006"
down_revision: Final = "0005"


def upgrade() -> None:
    """Add it, unknown for what is there."""
    with op.batch_alter_table("history_jobs") as batch:
        batch.add_column(sa.Column("restart_s", sa.Float(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    with op.batch_alter_table("history_jobs") as batch:
        batch.drop_column("restart_s")
