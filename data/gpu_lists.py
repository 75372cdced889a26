"""GPUs as one field of text: `node/index;node/index`, where `n0/0-3` stands for four GPUs in a row."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from data.rules import Rule, shown
from domain.cluster import MAX_GPUS_OF_A_NODE, Gpu, Node

_ENTRY: Final = re.compile(r"(?P<node>.+)/(?P<first>[0-9]{1,6})(?:-(?P<last>[0-9]{1,6}))?")


class GpuListError(ValueError):
    """A list of GPUs that breaks a rule.

    Attributes:
        rule: which one.
        message: what was found, for people.
    """

    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(message)
        self.rule: Final = rule
        self.message: Final = message


def gpus_text(gpus: Iterable[Gpu]) -> str:
    """GPUs as text, one by one, in the order given."""
    return ";".join(f"{gpu.node}/{gpu.index}" for gpu in gpus)


def parse_gpus(text: str, nodes: Mapping[str, Node]) -> tuple[Gpu, ...]:
    """GPUs that a field names, in its order.

    Args:
        text: the field.
        nodes: the nodes that there are, by name.

    Raises:
        GpuListError: if it is not written as it should be, or names a GPU that there is not, or one twice.
    """
    gpus: list[Gpu] = []
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        gpus += _run(entry, nodes)
    if not gpus:
        raise GpuListError(Rule.NOT_GPUS, f"gpus is {shown(text)}, expected node/index;node/index-index")
    if len(set(gpus)) < len(gpus):
        raise GpuListError(Rule.GPU_NAMED_TWICE, f"gpus names a GPU twice: {shown(text)}")
    return tuple(gpus)


def _run(entry: str, nodes: Mapping[str, Node]) -> list[Gpu]:
    """The GPUs of one entry, all on one node."""
    found = _ENTRY.fullmatch(entry)
    if found is None:
        raise GpuListError(Rule.NOT_GPUS, f"gpus has {shown(entry)}, expected node/index or node/index-index")
    name, first = found["node"].strip(), int(found["first"])
    last = first if found["last"] is None else int(found["last"])
    if last < first:
        raise GpuListError(Rule.NOT_GPUS, f"gpus has {shown(entry)}, the second index is below the first")
    node = nodes.get(name)
    if node is None or last >= min(node.num_gpus, MAX_GPUS_OF_A_NODE):
        there = "there is no such node" if node is None else f"the node has {node.num_gpus} GPUs, from 0 on"
        raise GpuListError(Rule.UNKNOWN_GPU, f"gpus has {shown(entry)}, {there}")
    return [Gpu(name, index, node.gpu_type) for index in range(first, last + 1)]
