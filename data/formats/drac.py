"""DRAC Graham: jobs that were pending at some noon. Its mappings say which column is what."""

from typing import Final

from data.intake.tables import mapped_format

FORMAT: Final = mapped_format("drac", "DRAC Graham: jobs that were pending at some noon")
