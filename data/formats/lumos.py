"""LUMOS: jobs of Theta, ThetaGPU and Philly in one shape. Its mappings say which column is what."""

from typing import Final

from data.intake.tables import mapped_format

FORMAT: Final = mapped_format("lumos", "LUMOS: jobs of Theta, ThetaGPU and Philly in one shape")
