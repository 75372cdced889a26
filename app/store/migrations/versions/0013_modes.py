"""Modes of a cluster, the life of a plan, reviewed actions, observed days.

Columns come and go one by one: a batch makes the table anew on SQLite, and others refer to these tables.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: Final = "0013"
down_revision: Final = "0012"

_JSON: Final = sa.JSON().with_variant(JSONB(), "postgresql")
_INSTANT: Final = sa.DateTime(timezone=True)

_CARRIED_OUT: Final = (
    "UPDATE plans SET status = CASE WHEN cluster IN "
    "(SELECT name FROM clusters WHERE enforced_by = 'executors') "
    "THEN 'applied' ELSE 'approved' END WHERE status = 'published'"
)
_PLAN_COLUMNS: Final = (
    "version",
    "mode",
    "decided_seq",
    "expires_s",
    "churn",
    "reviewed_by",
    "reviewed_at",
    "applied_at",
    "hold_checks",
)


def upgrade() -> None:
    """Clusters that are there go on as they did: what is decided goes out at once."""
    op.add_column("clusters", sa.Column("mode", sa.String(16), nullable=False, server_default="enforce"))
    op.add_column(
        "clusters", sa.Column("approval", sa.String(16), nullable=False, server_default="automatic")
    )
    op.add_column("clusters", sa.Column("plan_valid_s", sa.Float(), nullable=False, server_default="3600"))
    op.add_column("plans", sa.Column("version", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("plans", sa.Column("mode", sa.String(16), nullable=False, server_default="enforce"))
    op.add_column("plans", sa.Column("decided_seq", sa.Integer(), nullable=True))
    op.add_column("plans", sa.Column("expires_s", sa.Float(), nullable=True))
    op.add_column("plans", sa.Column("churn", sa.Float(), nullable=True))
    op.add_column("plans", sa.Column("reviewed_by", sa.String(255), nullable=True))
    op.add_column("plans", sa.Column("reviewed_at", _INSTANT, nullable=True))
    op.add_column("plans", sa.Column("applied_at", _INSTANT, nullable=True))
    op.add_column("plans", sa.Column("hold_checks", _JSON, nullable=False, server_default=sa.text("'[]'")))
    op.execute(_CARRIED_OUT)
    _create_actions()
    op.create_table(
        "observations",
        sa.Column("cluster", sa.String(63), sa.ForeignKey("clusters.name"), primary_key=True),
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("content", _JSON, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
    )


def _create_actions() -> None:
    op.create_table(
        "actions",
        sa.Column("cluster", sa.String(63), sa.ForeignKey("clusters.name"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("job_id", sa.String(255), nullable=True),
        sa.Column("pool", sa.String(255), nullable=False),
        sa.Column("num_gpus", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("answered_seq", sa.Integer(), nullable=True),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("proposed_at", _INSTANT, nullable=False),
        sa.Column("reviewed_by", sa.String(255), nullable=True),
        sa.Column("reviewed_at", _INSTANT, nullable=True),
        sa.Column("closed_at", _INSTANT, nullable=True),
    )
    op.create_index(
        "ix_actions_cluster_actions_status_actions_number", "actions", ["cluster", "status", "number"]
    )


def downgrade() -> None:
    """Drop them. Where somebody only looked on, or approved, all would go out at once: no lending."""
    op.execute("UPDATE clusters SET is_lending = false WHERE mode <> 'enforce' OR approval <> 'automatic'")
    op.execute("UPDATE plans SET status = 'published' WHERE status IN ('applied', 'approved')")
    op.execute("UPDATE plans SET status = 'superseded' WHERE status <> 'published'")
    op.drop_table("observations")
    op.drop_table("actions")
    for name in reversed(_PLAN_COLUMNS):
        op.drop_column("plans", name)
    for name in ("plan_valid_s", "approval", "mode"):
        op.drop_column("clusters", name)
