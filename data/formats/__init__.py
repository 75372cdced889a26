"""Formats of job history and inventories. A format is one file here and one line in `FORMATS`."""

from collections.abc import Mapping
from typing import Final

from data.formats import eagle, sacct, slurmdbd_json, swf
from data.intake.format import Format

FORMATS: Final[Mapping[str, Format]] = {
    one.name: one for one in (eagle.FORMAT, sacct.FORMAT, slurmdbd_json.FORMAT, swf.FORMAT)
}
"""Every format by its name; `antecast import --format auto` chooses by content."""
