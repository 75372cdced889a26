"""What happens to runs, and who is told of their ends."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: Final = "0009"
down_revision: Final = "0008"

_JSON: Final = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_INSTANT: Final = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "run_events",
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("data", _JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("fk_run_events_run_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_run_events")),
    )
    op.create_table(
        "webhooks",
        sa.Column("webhook_id", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("url", sa.String(2048), nullable=False),
        sa.Column("kinds", _JSON, nullable=False),
        sa.Column("nonce", sa.String(64), nullable=False),
        sa.Column("created_by", sa.String(63), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_webhooks_cluster")),
        sa.PrimaryKeyConstraint("webhook_id", name=op.f("pk_webhooks")),
    )
    op.create_index(op.f("ix_webhooks_cluster"), "webhooks", ["cluster"], unique=False)
    _create_deliveries()


def _create_deliveries() -> None:
    table = "webhook_deliveries"
    op.create_table(
        table,
        sa.Column("delivery_id", sa.String(64), nullable=False),
        sa.Column("webhook_id", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", _INSTANT, nullable=False),
        sa.Column("answered", sa.Integer(), nullable=True),
        sa.Column("error", sa.String(500), nullable=True),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("delivered_at", _INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.webhook_id"],
            name=op.f("fk_webhook_deliveries_webhook_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("delivery_id", name=op.f("pk_webhook_deliveries")),
    )
    columns = ["webhook_id", "created_at", "delivery_id"]
    op.create_index(op.f("ix_webhook_deliveries_page"), table, columns, unique=False)
    op.create_index(op.f("ix_webhook_deliveries_due"), table, ["status", "next_at"], unique=False)


def downgrade() -> None:
    """Drop them."""
    for table in ("webhook_deliveries", "webhooks", "run_events"):
        op.drop_table(table)
