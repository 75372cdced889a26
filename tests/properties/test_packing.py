"""Whatever is packed by whichever rule: the independent checker passes, and everybody is accounted for."""

from hypothesis import given, settings
from hypothesis import strategies as st

from app.services.pack_pods import Host, PackInputs, Pod, figures, pack
from solver.sharing.nodes import NodeSpec
from solver.sharing.requests import Request
from solver.sharing.rules import RULES

TYPES = ("T4", "A100-40GB", "A30-24GB")


@st.composite
def inputs(draw: st.DrawFn) -> PackInputs:
    hosts = []
    for k in range(draw(st.integers(1, 4))):
        kind, num_gpus = draw(st.sampled_from(TYPES)), draw(st.integers(0, 3))
        cut = 0 if kind == "T4" else draw(st.integers(0, num_gpus))
        spec = NodeSpec(
            draw(st.integers(0, 8)) * 1000, draw(st.integers(0, 8)) * 64, num_gpus, kind * bool(num_gpus), cut
        )
        hosts.append(Host(f"n{k}", spec))
    pods = []
    for k in range(draw(st.integers(1, 12))):
        cpu, memory = draw(st.integers(0, 4)) * 500, draw(st.integers(0, 4)) * 32
        types = tuple(sorted(draw(st.sets(st.sampled_from((*TYPES, "H9")), max_size=2))))
        shape = draw(st.sampled_from((0, 300, 500, 1000, 2000, "1g.5gb", "3g.20gb", "2g.12gb")))
        if isinstance(shape, str):
            request = Request(cpu, memory, 1, profile=shape, gpu_types=types)
        else:
            request = Request(cpu, memory, -(-shape // 1000), min(shape, 1000) or 1000, gpu_types=types)
        pods.append(Pod(f"j{k}", request))
    return PackInputs(tuple(hosts), tuple(pods))


@settings(max_examples=40, deadline=None)
@given(inputs(), st.sampled_from(sorted(RULES)), st.integers(0, 3))
def test_every_packing_is_sound_and_accounts_for_everybody(given_inputs: PackInputs, rule: str, seed: int):
    packed = pack(given_inputs, rule, seed)  # raises where the checker finds anything
    left_out = {place for place, spot in enumerate(packed.spots) if spot is None}
    assert set(packed.reasons) == left_out
    told = figures(given_inputs, packed)
    assert told["placed"] + sum(told["left_out"].values()) == told["jobs"]
    assert 0 <= told["fragmented_gpus"] <= told["gpus"] - told["allocated_gpus"] + 1e-9
    assert pack(given_inputs, rule, seed) == packed
