"""Alibaba openb 2023: lists of pods. Its mappings say which column is what."""

from typing import Final

from data.intake.tables import mapped_format

FORMAT: Final = mapped_format("alibaba-2023", "Alibaba openb 2023: lists of pods")
