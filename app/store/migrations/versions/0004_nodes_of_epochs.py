"""Which nodes were there in an epoch."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: Final = "0004"
down_revision: Final = "0003"

_JSON: Final = sa.JSON().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    """Add them; epochs that are there did without."""
    with op.batch_alter_table("epochs") as batch:
        batch.add_column(sa.Column("nodes", _JSON, nullable=False, server_default=sa.text("'[]'")))


def downgrade() -> None:
    """Drop them."""
    with op.batch_alter_table("epochs") as batch:
        batch.drop_column("nodes")
