"""Formats of job history and inventories. A format is one file here and one line in `FORMATS`."""

from collections.abc import Mapping
from typing import Final

from data.formats import (
    capacity_by_day,
    kubernetes,
    kubernetes_nodes,
    openb_nodes,
    philly_machines,
    scontrol_node,
    scontrol_partition,
    sinfo,
    slurm_nodes_json,
    swf,
)
from data.intake.format import Format

FORMATS: Final[Mapping[str, Format]] = {
    one.name: one
    for one in (
        capacity_by_day.FORMAT,
        kubernetes.FORMAT,
        kubernetes_nodes.FORMAT,
        openb_nodes.FORMAT,
        philly_machines.FORMAT,
        scontrol_node.FORMAT,
        scontrol_partition.FORMAT,
        sinfo.FORMAT,
        slurm_nodes_json.FORMAT,
        swf.FORMAT,
    )
}
"""Every format by its name; `antecast import --format auto` chooses by content."""
