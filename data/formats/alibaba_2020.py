"""Alibaba PAI 2020: job, task and instance tables. Its mappings say which column is what."""

from typing import Final

from data.intake.tables import mapped_format

FORMAT: Final = mapped_format("alibaba-2020", "Alibaba PAI 2020: job, task and instance tables")
