"""The history as it is kept: attempts as Parquet files by cluster and day, imports whole or not at all."""
