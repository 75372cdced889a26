"""SenseTime Helios: cluster_log.csv, and reduced tables of it. Its mappings say which column is what."""

from typing import Final

from data.intake.tables import mapped_format

FORMAT: Final = mapped_format("helios", "SenseTime Helios: cluster_log.csv, and reduced tables of it")
