"""What-ifs, their sweeps and their figures."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: Final = "0012"
down_revision: Final = "0009"

JSON: Final = sa.JSON().with_variant(JSONB(), "postgresql")
INSTANT: Final = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make them."""
    _create_sweeps()
    _create_what_ifs()
    _create_figures()


def downgrade() -> None:
    """Drop them."""
    for table in ("what_if_figures", "what_ifs", "what_if_sweeps"):
        op.drop_table(table)


def _create_sweeps() -> None:
    op.create_table(
        "what_if_sweeps",
        sa.Column("sweep_id", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("name", sa.String(255), nullable=True),
        sa.Column("question", JSON, nullable=False),
        sa.Column("parameters", JSON, nullable=False),
        sa.Column("requested_by", sa.String(63), nullable=False),
        sa.Column("requested_at", INSTANT, nullable=False),
        sa.Column("cancelled_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["cluster"], ["clusters.name"], name=op.f("fk_what_if_sweeps_cluster_clusters")
        ),
        sa.PrimaryKeyConstraint("sweep_id", name=op.f("pk_what_if_sweeps")),
    )
    op.create_index(
        op.f("ix_what_if_sweeps_cluster_what_if_sweeps_requested_at_what_if_sweeps_sweep_id"),
        "what_if_sweeps",
        ["cluster", "requested_at", "sweep_id"],
    )


def _create_what_ifs() -> None:
    op.create_table(
        "what_ifs",
        sa.Column("what_if_id", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("name", sa.String(255), nullable=True),
        sa.Column("sweep_id", sa.String(64), nullable=True),
        sa.Column("position", sa.Integer(), nullable=True),
        sa.Column("point", JSON, nullable=True),
        sa.Column("question", JSON, nullable=False),
        sa.Column("requested_by", sa.String(63), nullable=False),
        sa.Column("requested_at", INSTANT, nullable=False),
        sa.Column("answered_at", INSTANT, nullable=True),
        sa.Column("answer", JSON, nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_what_ifs_cluster_clusters")),
        sa.ForeignKeyConstraint(
            ["sweep_id"], ["what_if_sweeps.sweep_id"], name=op.f("fk_what_ifs_sweep_id_what_if_sweeps")
        ),
        sa.PrimaryKeyConstraint("what_if_id", name=op.f("pk_what_ifs")),
    )
    op.create_index(
        op.f("ix_what_ifs_cluster_what_ifs_requested_at_what_ifs_what_if_id"),
        "what_ifs",
        ["cluster", "requested_at", "what_if_id"],
    )
    op.create_index(op.f("ix_what_ifs_sweep_id_what_ifs_position"), "what_ifs", ["sweep_id", "position"])


def _create_figures() -> None:
    numbers = ("baseline", "changed", "difference", "low", "high", "range_low", "range_high")
    op.create_table(
        "what_if_figures",
        sa.Column("what_if_id", sa.String(64), nullable=False),
        sa.Column("pool", sa.String(255), nullable=False),
        sa.Column("figure", sa.String(63), nullable=False),
        *(sa.Column(name, sa.Float(), nullable=True) for name in numbers),
        sa.ForeignKeyConstraint(
            ["what_if_id"], ["what_ifs.what_if_id"], name=op.f("fk_what_if_figures_what_if_id_what_ifs")
        ),
        sa.PrimaryKeyConstraint("what_if_id", "pool", "figure", name=op.f("pk_what_if_figures")),
    )
