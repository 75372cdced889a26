"""When API keys end by themselves, when they were last used, and which they replace."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0008"
down_revision: Final = "0006"


def upgrade() -> None:
    """Add them: keys that are there do not expire."""
    with op.batch_alter_table("api_keys") as batch:
        batch.add_column(sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))
        batch.add_column(sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True))
        batch.add_column(sa.Column("replaces", sa.String(32), nullable=True))


def downgrade() -> None:
    """Drop them: keys that had expired are valid again, so revoke them first."""
    with op.batch_alter_table("api_keys") as batch:
        for column in ("replaces", "last_used_at", "expires_at"):
            batch.drop_column(column)
