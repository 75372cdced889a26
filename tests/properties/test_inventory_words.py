"""What Kubernetes and Slurm can write of resources and nodes is read back as what was meant."""

from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from kube_objects import read, records

from data.kubernetes.quantities import parse_quantity
from data.slurm.hostlists import expand_hosts
from data.slurm.node_states import parse_node_state

fixed = settings(derandomize=True, deadline=None, max_examples=200)

BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


@st.composite
def quantities(draw):
    """A quantity as Kubernetes may print it, and its number counted the slow way."""
    whole, places = draw(st.integers(0, 10**9)), draw(st.integers(0, 6))
    digits = f"{whole:0{places + 1}d}"
    text = digits if not places else f"{digits[:-places]}.{digits[-places:]}"
    number = Fraction(whole, 10**places)
    kind = draw(st.sampled_from(["binary", "decimal", "exponent"]))
    if kind == "binary":
        suffix = draw(st.sampled_from(sorted(BINARY)))
        return text + suffix, number * Fraction(1024) ** BINARY[suffix]
    if kind == "decimal":
        suffix = draw(st.sampled_from(sorted(DECIMAL)))
        return text + suffix, number * Fraction(1000) ** DECIMAL[suffix]
    power, sign = draw(st.integers(-12, 12)), draw(st.sampled_from("eE"))
    return f"{text}{sign}{power}", number * Fraction(10) ** power


@fixed
@given(quantities())
def test_a_quantity_is_its_number(found):
    text, number = found
    assert parse_quantity(text) == number


@fixed
@given(st.text("0123456789.eEKMGTPikmnu+- ", max_size=12))
def test_any_other_text_is_a_quantity_or_refused(text):
    with suppress(ValueError):
        assert isinstance(parse_quantity(text), Fraction)


TYPES = st.sampled_from([None, "a100", "h100", "nvidia_l40s"])
STATES = st.sampled_from(
    ["IDLE", "MIXED", "ALLOCATED", "DOWN", "IDLE+DRAIN", "MIXED*", "IDLE+CLOUD+POWERED_DOWN"]
)
NAMES = st.from_regex(r"[a-z]{1,6}[0-9]{1,4}", fullmatch=True)
REASONS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=40)


@st.composite
def slurm_nodes(draw):
    gpus = draw(st.integers(0, 16))
    return {
        "name": draw(NAMES),
        "gpus": gpus,
        "used": draw(st.integers(0, gpus)),
        "type": draw(TYPES),
        "shards": draw(st.sampled_from([0, 4, 32])),
        "cpus": draw(st.integers(1, 512)),
        "memory": draw(st.integers(1, 10**7)),
        "state": draw(STATES),
        "pools": draw(st.lists(NAMES, max_size=3, unique=True)),
        "reason": draw(REASONS),
        "has_tres": draw(st.booleans()),
    }


def scontrol(node, glue):
    """The record that scontrol would print of a node."""
    kind = f":{node['type']}" if node["type"] else ""
    gres = [f"gpu{kind}:{node['gpus']}(S:0-1)"] if node["gpus"] else []
    gres += [f"shard{kind}:{node['shards']}(S:0-1)"] if node["shards"] else []
    tres = f"cpu={node['cpus']},mem={node['memory']}M"
    if node["has_tres"]:
        tres += f",gres/gpu={node['gpus']}"
    lines = [
        f"NodeName={node['name']} Arch=x86_64",
        f"CPUTot={node['cpus']} CPULoad=0.01",
        f"Gres={','.join(gres) or '(null)'}",
        f"GresUsed=gpu{kind}:{node['used']}(IDX:N/A)",
        "OS=Linux 5.15.0 #1 SMP",
        f"RealMemory={node['memory']} AllocMem=0",
        f"State={node['state']} ThreadsPerCore=1",
        *([f"Partitions={','.join(node['pools'])}"] if node["pools"] else []),
        f"CfgTRES={tres}",
        "AllocTRES=",
        f"Reason={node['reason']}",
    ]
    return glue.join(lines) + "\n"


@fixed
@given(st.lists(slurm_nodes(), min_size=1, max_size=6), st.sampled_from([" ", "\n   "]))
def test_nodes_that_scontrol_prints_are_read_back(nodes, glue):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "nodes"
        path.write_text("\n".join(scontrol(node, glue) for node in nodes))
        found = records(read(path, "scontrol-node"))
    assert [
        (one.node, one.num_gpus, one.num_gpus_in_use, one.num_shards, one.cpus, one.memory_mib, one.pools)
        for one in found
    ] == [
        (
            node["name"],
            node["gpus"],
            node["used"],
            node["shards"],
            node["cpus"],
            node["memory"],
            tuple(node["pools"]),
        )
        for node in nodes
    ]
    assert [one.is_available for one in found] == [
        parse_node_state(node["state"]).is_available for node in nodes
    ]
    assert all(
        one.gpu_type == (node["type"] if node["gpus"] else None)
        for one, node in zip(found, nodes, strict=True)
    )


@fixed
@given(NAMES, st.integers(0, 300), st.integers(0, 40), st.integers(1, 4))
def test_a_range_of_hosts_names_each_of_them(name, first, more, width):
    hosts = [f"{name}{number:0{width}d}" for number in range(first, first + more + 1)]
    assert list(expand_hosts(f"{name}[{first:0{width}d}-{first + more}]")) == hosts
    assert list(expand_hosts(",".join(hosts))) == hosts


@fixed
@given(st.text("ab[]-,0123", max_size=14))
def test_any_other_text_is_a_list_of_hosts_or_refused(text):
    with suppress(ValueError):
        assert all(expand_hosts(text))


@fixed
@given(st.text("IDLEMXDRANOW+*~#%$@^-!_ ,", max_size=20))
def test_any_text_is_a_state_or_unknown(text):
    assert parse_node_state(text).is_available in {True, False, None}
