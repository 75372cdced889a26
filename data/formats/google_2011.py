"""Google ClusterData 2011, reduced to jobs. Its mappings say which column is what."""

from typing import Final

from data.intake.tables import mapped_format

FORMAT: Final = mapped_format("google-2011", "Google ClusterData 2011, reduced to jobs")
