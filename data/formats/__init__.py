"""Formats of job history and inventories. A format is one file here and one line in `FORMATS`."""

from collections.abc import Mapping
from typing import Final

from data.formats import (
    acme,
    alibaba_2020,
    alibaba_2023,
    capacity_by_day,
    csv_mapped,
    drac,
    eagle,
    google_2011,
    helios,
    kubernetes,
    kubernetes_nodes,
    lumos,
    openb_nodes,
    parquet_mapped,
    philly,
    philly_machines,
    sacct,
    scontrol_node,
    scontrol_partition,
    sinfo,
    slurm_nodes_json,
    slurmdbd_json,
    squeue,
    swf,
)
from data.intake.format import Format

FORMATS: Final[Mapping[str, Format]] = {
    one.name: one
    for one in (
        acme.FORMAT,
        alibaba_2020.FORMAT,
        alibaba_2023.FORMAT,
        capacity_by_day.FORMAT,
        csv_mapped.FORMAT,
        drac.FORMAT,
        eagle.FORMAT,
        google_2011.FORMAT,
        helios.FORMAT,
        kubernetes.FORMAT,
        kubernetes_nodes.FORMAT,
        lumos.FORMAT,
        openb_nodes.FORMAT,
        parquet_mapped.FORMAT,
        philly.FORMAT,
        philly_machines.FORMAT,
        sacct.FORMAT,
        scontrol_node.FORMAT,
        scontrol_partition.FORMAT,
        sinfo.FORMAT,
        slurm_nodes_json.FORMAT,
        slurmdbd_json.FORMAT,
        squeue.FORMAT,
        swf.FORMAT,
    )
}
"""Every format by its name; `antecast import --format auto` chooses by content."""
