"""What Alembic runs: the migrations, on the connection that was handed over."""

from alembic import context
from sqlmodel import SQLModel

import app.store.tables  # noqa: F401 - tells SQLModel of the tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    compare_type=True,
    transactional_ddl=True,  # SQLite too, since we begin its transactions ourselves
)
with context.begin_transaction():
    context.run_migrations()
