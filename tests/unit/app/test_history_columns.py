"""The service cannot import pandas to know the columns of a history, so it lists them again."""

from app.store.history import JOB_COLUMNS
from app.store.tables import HistoryJobRow
from data.schema import COLUMNS


def test_the_store_keeps_all_columns_of_a_history_in_their_order():
    assert tuple(column.name for column in COLUMNS) == JOB_COLUMNS
    assert set(JOB_COLUMNS) <= set(HistoryJobRow.model_fields)
