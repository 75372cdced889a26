"""Shanghai AI Lab Acme: trace_seren.csv and trace_kalos.csv. Its mappings say which column is what."""

from typing import Final

from data.intake.tables import mapped_format

FORMAT: Final = mapped_format("acme", "Shanghai AI Lab Acme: trace_seren.csv and trace_kalos.csv")
