"""The first tables."""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: Final = "0001"
down_revision: Final = None

JSON: Final = sa.JSON().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    """Make them."""
    _create_api_keys()
    _create_clusters()
    _create_workers()
    _create_decisions()
    _create_desired()
    _create_epochs()
    _create_executors()
    _create_history_imports()
    _create_jobs()
    _create_join_tokens()
    _create_log()
    _create_nodes()
    _create_placements()
    _create_plans()
    _create_pools()
    _create_runs()
    _create_executor_events()
    _create_history_chunks()
    _create_history_jobs()


def downgrade() -> None:
    """Drop them, with all they hold."""
    for table in (
        "history_jobs",
        "history_chunks",
        "executor_events",
        "runs",
        "pools",
        "plans",
        "placements",
        "nodes",
        "log",
        "join_tokens",
        "jobs",
        "history_imports",
        "executors",
        "epochs",
        "desired",
        "decisions",
        "workers",
        "clusters",
        "api_keys",
    ):
        op.drop_table(table)


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_api_keys")),
    )


def _create_clusters() -> None:
    op.create_table(
        "clusters",
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("clock_origin", sa.DateTime(timezone=True), nullable=False),
        sa.Column("enforced_by", sa.String(16), nullable=False),
        sa.Column("policy", sa.String(63), nullable=False),
        sa.Column("settings", JSON, nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("is_lending", sa.Boolean(), nullable=False),
        sa.Column("replan_every_s", sa.Float(), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_clusters")),
    )


def _create_workers() -> None:
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.String(128), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("worker_id", name=op.f("pk_workers")),
    )


def _create_decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("idle_gpus", sa.Integer(), nullable=False),
        sa.Column("answer", JSON, nullable=False),
        sa.Column("took_ms", sa.Float(), nullable=False),
        sa.Column("plan_id", sa.String(64), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_decisions_cluster")),
        sa.PrimaryKeyConstraint("cluster", "seq", name=op.f("pk_decisions")),
    )


def _create_desired() -> None:
    op.create_table(
        "desired",
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("document", JSON, nullable=False),
        sa.Column("content_sha256", sa.String(64), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_desired_cluster")),
        sa.PrimaryKeyConstraint("cluster", "node", name=op.f("pk_desired")),
    )


def _create_epochs() -> None:
    op.create_table(
        "epochs",
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("from_seq", sa.Integer(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("quotas", JSON, nullable=False),
        sa.Column("capacity_gpus", sa.Integer(), nullable=False),
        sa.Column("policy", sa.String(63), nullable=False),
        sa.Column("settings", JSON, nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("snapshot", JSON, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_epochs_cluster")),
        sa.PrimaryKeyConstraint("cluster", "number", name=op.f("pk_epochs")),
    )


def _create_executors() -> None:
    op.create_table(
        "executors",
        sa.Column("executor_id", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("version", sa.String(63), nullable=False),
        sa.Column("session", sa.Integer(), nullable=False),
        sa.Column("boot_id", sa.String(64), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_lost", sa.Boolean(), nullable=False),
        sa.Column("is_revoked", sa.Boolean(), nullable=False),
        sa.Column("observed_epoch", sa.Integer(), nullable=False),
        sa.Column("observed_generation", sa.Integer(), nullable=False),
        sa.Column("devices", JSON, nullable=False),
        sa.Column("capabilities", JSON, nullable=False),
        sa.Column("refusals", JSON, nullable=False),
        sa.Column("status_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("enrolled_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_executors_cluster")),
        sa.PrimaryKeyConstraint("executor_id", name=op.f("pk_executors")),
    )
    op.create_index(op.f("ix_executors_cluster"), "executors", ["cluster"], unique=False)


def _create_history_imports() -> None:
    op.create_table(
        "history_imports",
        sa.Column("import_id", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("file_format", sa.String(32), nullable=False),
        sa.Column("is_lenient", sa.Boolean(), nullable=False),
        sa.Column("shift_s", sa.Float(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("num_bytes", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("num_jobs", sa.Integer(), nullable=True),
        sa.Column("num_skipped", sa.Integer(), nullable=True),
        sa.Column("num_faults", sa.Integer(), nullable=True),
        sa.Column("faults", JSON, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_history_imports_cluster")),
        sa.PrimaryKeyConstraint("import_id", name=op.f("pk_history_imports")),
    )
    op.create_index(op.f("ix_history_imports_cluster"), "history_imports", ["cluster"], unique=False)


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(255), nullable=False),
        sa.Column("pool", sa.String(255), nullable=False),
        sa.Column("submit_s", sa.Float(), nullable=False),
        sa.Column("num_gpus", sa.Integer(), nullable=False),
        sa.Column("user", sa.String(), nullable=True),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("limit_s", sa.Float(), nullable=True),
        sa.Column("deadline_s", sa.Float(), nullable=True),
        sa.Column("requeue_u", sa.Float(), nullable=True),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("rank", sa.Float(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("is_guest", sa.Boolean(), nullable=False),
        sa.Column("was_guest", sa.Boolean(), nullable=False),
        sa.Column("own_from_s", sa.Float(), nullable=True),
        sa.Column("first_started_s", sa.Float(), nullable=True),
        sa.Column("started_s", sa.Float(), nullable=True),
        sa.Column("ended_s", sa.Float(), nullable=True),
        sa.Column("end_state", sa.String(16), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("lost_s", sa.Float(), nullable=False),
        sa.Column("gpus", JSON, nullable=False),
        sa.Column("share_pct", sa.Float(), nullable=False),
        sa.Column("host_job_id", sa.String(255), nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_jobs_cluster")),
        sa.PrimaryKeyConstraint("cluster", "job_id", name=op.f("pk_jobs")),
    )
    op.create_index(
        op.f("ix_jobs_cluster_jobs_state_jobs_job_id"), "jobs", ["cluster", "state", "job_id"], unique=False
    )


def _create_join_tokens() -> None:
    op.create_table(
        "join_tokens",
        sa.Column("token_sha256", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_join_tokens_cluster")),
        sa.PrimaryKeyConstraint("token_sha256", name=op.f("pk_join_tokens")),
    )


def _create_log() -> None:
    op.create_table(
        "log",
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("job_id", sa.String(255), nullable=True),
        sa.Column("data", JSON, nullable=False),
        sa.Column("uid", sa.String(255), nullable=True),
        sa.Column("source", sa.String(63), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_log_cluster")),
        sa.PrimaryKeyConstraint("cluster", "seq", name=op.f("pk_log")),
        sa.UniqueConstraint("cluster", "uid", name=op.f("uq_log_cluster_uid")),
    )


def _create_nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("num_gpus", sa.Integer(), nullable=False),
        sa.Column("gpu_type", sa.String(63), nullable=False),
        sa.Column("pool", sa.String(255), nullable=True),
        sa.Column("gpu_uuids", JSON, nullable=False),
        sa.Column("is_lost", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_nodes_cluster")),
        sa.PrimaryKeyConstraint("cluster", "name", name=op.f("pk_nodes")),
    )


def _create_placements() -> None:
    op.create_table(
        "placements",
        sa.Column("placement_id", sa.String(128), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(255), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("num_ranks", sa.Integer(), nullable=False),
        sa.Column("gpu_indices", JSON, nullable=False),
        sa.Column("share_pct", sa.Float(), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("is_wanted", sa.Boolean(), nullable=False),
        sa.Column("plan_id", sa.String(64), nullable=True),
        sa.Column("observed", JSON, nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_placements_cluster")),
        sa.PrimaryKeyConstraint("placement_id", name=op.f("pk_placements")),
    )
    op.create_index(
        op.f("ix_placements_cluster_placements_is_wanted"),
        "placements",
        ["cluster", "is_wanted"],
        unique=False,
    )
    op.create_index(
        op.f("ix_placements_cluster_placements_job_id"), "placements", ["cluster", "job_id"], unique=False
    )
    op.create_index(
        op.f("ix_placements_cluster_placements_node"),
        "placements",
        ["cluster", "node"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )


def _create_plans() -> None:
    op.create_table(
        "plans",
        sa.Column("plan_id", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("seq_seen", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("content", JSON, nullable=False),
        sa.Column("content_sha256", sa.String(64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_plans_cluster")),
        sa.PrimaryKeyConstraint("plan_id", name=op.f("pk_plans")),
        sa.UniqueConstraint("cluster", "number", name=op.f("uq_plans_cluster_number")),
        sa.UniqueConstraint("run_id", name=op.f("uq_plans_run_id")),
    )
    op.create_index(op.f("ix_plans_cluster"), "plans", ["cluster"], unique=False)


def _create_pools() -> None:
    op.create_table(
        "pools",
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("quota_gpus", sa.Integer(), nullable=False),
        sa.Column("is_requeueable", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_pools_cluster")),
        sa.PrimaryKeyConstraint("cluster", "name", name=op.f("pk_pools")),
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("arguments", JSON, nullable=False),
        sa.Column("result", JSON, nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("requested_by", sa.String(63), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worker", sa.String(128), nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_runs_cluster")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
    )
    op.create_index(
        op.f("ix_runs_cluster_runs_requested_at_runs_run_id"),
        "runs",
        ["cluster", "requested_at", "run_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_runs_cluster_runs_status_runs_requested_at_runs_run_id"),
        "runs",
        ["cluster", "status", "requested_at", "run_id"],
        unique=False,
    )
    op.create_index(op.f("ix_runs_status"), "runs", ["status"], unique=False)


def _create_executor_events() -> None:
    op.create_table(
        "executor_events",
        sa.Column("event_id", sa.String(64), nullable=False),
        sa.Column("executor_id", sa.String(), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("placement_id", sa.String(128), nullable=True),
        sa.Column("job_id", sa.String(255), nullable=True),
        sa.Column("data", JSON, nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_executor_events_cluster")),
        sa.ForeignKeyConstraint(
            ["executor_id"], ["executors.executor_id"], name=op.f("fk_executor_events_executor_id")
        ),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_executor_events")),
    )
    op.create_index(op.f("ix_executor_events_executor_id"), "executor_events", ["executor_id"], unique=False)


def _create_history_chunks() -> None:
    op.create_table(
        "history_chunks",
        sa.Column("import_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["import_id"], ["history_imports.import_id"], name=op.f("fk_history_chunks_import_id")
        ),
        sa.PrimaryKeyConstraint("import_id", "position", name=op.f("pk_history_chunks")),
    )


def _create_history_jobs() -> None:
    op.create_table(
        "history_jobs",
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(255), nullable=False),
        sa.Column("import_id", sa.String(), nullable=False),
        sa.Column("pool", sa.String(255), nullable=False),
        sa.Column("submit_s", sa.Float(), nullable=False),
        sa.Column("num_gpus", sa.Integer(), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("user", sa.String(), nullable=True),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("limit_s", sa.Float(), nullable=True),
        sa.Column("state", sa.String(), nullable=True),
        sa.Column("deadline_s", sa.Float(), nullable=True),
        sa.Column("requeue_u", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["cluster"], ["clusters.name"], name=op.f("fk_history_jobs_cluster")),
        sa.ForeignKeyConstraint(
            ["import_id"], ["history_imports.import_id"], name=op.f("fk_history_jobs_import_id")
        ),
        sa.PrimaryKeyConstraint("cluster", "job_id", name=op.f("pk_history_jobs")),
    )
    op.create_index(op.f("ix_history_jobs_import_id"), "history_jobs", ["import_id"], unique=False)
