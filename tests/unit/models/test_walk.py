"""A web of objects that was laid down and picked up is the same web, and nothing else can be picked up."""

import math
from array import array
from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.artifacts import ArtifactError
from models.artifacts.parts import Parts, decode, encode
from models.artifacts.walk import Walk


@dataclass
class Node:
    value: Any = None
    other: Any = None


@dataclass(frozen=True, slots=True)
class Leaf:
    number: int
    name: str | None = None


class Old:
    __slots__ = ("left", "right")

    def __init__(self) -> None:
        self.left = [1.0]


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Secret:
    value: Any = field(default=None)


WALK = Walk({Node: "value other", Leaf: "name number", Old: "left", Pair: ""})


def there(value: Any) -> Parts:
    return decode(encode(WALK.to_parts(Node(value))))


def and_back(value: Any) -> Any:
    return WALK.from_parts(there(value), Node).value


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
)
NESTED = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=12),
        st.lists(inner, max_size=12).map(tuple),
        st.lists(inner, max_size=12).map(lambda items: deque(items, 20)),
        st.dictionaries(
            st.one_of(st.text(max_size=4), st.integers(0, 9), st.tuples(st.text(max_size=2))), inner
        ),
        st.tuples(inner, inner).map(lambda two: Pair(*two)),
        st.tuples(inner, inner).map(lambda two: Node(*two)),
    ),
    max_leaves=30,
)


@settings(max_examples=100, deadline=None)
@given(NESTED)
def test_containers_numbers_and_objects_come_back(value):
    found = and_back(value)
    assert found == value
    assert repr(found) == repr(value), "types, order and signs of zeros too"


@settings(max_examples=50, deadline=None)
@given(st.one_of(st.lists(st.floats(), max_size=30), st.lists(st.integers(-9, 9), max_size=30)))
def test_long_columns_come_back_bit_for_bit(values):
    found = and_back(values)
    assert repr(found) == repr(values)
    assert and_back(dict(enumerate(values))).keys() == dict(enumerate(values)).keys()


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.zeros((0, 4)),
        np.array(5),
        np.array([True, False]),
        np.array([1.5, np.nan, np.inf], np.float16),
    ],
)
def test_arrays_come_back(value):
    found = and_back([value, value.copy()])
    for one in found:
        assert one.dtype == value.dtype
        np.testing.assert_array_equal(one, value)
        assert one.flags.writeable


def test_odd_numbers_come_back():
    found = and_back([math.nan, math.inf, -math.inf, np.float64(1.5), np.int64(3), -0.0])
    assert math.isnan(found[0])
    assert found[1:3] == [math.inf, -math.inf]
    assert [type(one) for one in found[3:5]] == [np.float64, np.int64]
    assert found[3:5] == [1.5, 3]
    assert math.copysign(1.0, found[5]) == -1.0
    assert and_back(array("d", [1.0, math.inf])) == array("d", [1.0, math.inf])
    assert and_back({"b", "a"}) == {"a", "b"}
    assert and_back(deque([1, 2], 2)).maxlen == 2


def test_slots_and_frozen_objects_come_back():
    old = Old()
    found = and_back([Leaf(3, "x"), old])
    assert found[0] == Leaf(3, "x")
    assert found[1].left == [1.0]
    assert not hasattr(found[1], "right")


def test_what_is_shared_stays_shared_and_circles_stay_circles():
    shared = [1, 2]
    node = Node(shared, {"again": shared})
    node.other["self"] = node
    found = and_back([node, shared])
    assert found[0].value is found[1]
    assert found[0].other["again"] is found[1]
    assert found[0].other["self"] is found[0]


def test_a_class_is_remembered_by_its_place_among_those_named():
    assert and_back([Leaf, Pair, None]) == [Leaf, Pair, None]
    with pytest.raises(TypeError, match="not among the classes"):
        there(Secret)


def test_trees_come_back():
    rows = np.random.default_rng(0).normal(size=(200, 2))
    settings_of = {"objective": "binary", "num_leaves": 4, "verbosity": -1, "num_threads": 1}
    booster = lightgbm.train(settings_of, lightgbm.Dataset(rows, (rows[:, 0] > 0) * 1.0), 3)
    found = and_back({"model": booster})["model"]
    np.testing.assert_array_equal(found.predict(rows), booster.predict(rows))


@pytest.mark.parametrize("value", [Secret(), OrderedDict(a=1), print, object(), 1j, b"x", [lambda: 1]])
def test_what_is_not_named_is_not_stored(value):
    with pytest.raises(TypeError, match="not among the classes"):
        there(value)


def test_an_attribute_that_nobody_declared_is_noticed_and_not_lost():
    node = Node(1)
    node.extra = 2
    with pytest.raises(TypeError, match=r"remembers \['extra'\]"):
        there(node)


# Columns.


def alike(number: int = 20) -> dict[str, Any]:
    return {
        "objects": [Leaf(k, None if k % 3 else f"n{k}") for k in range(number)],
        "nodes": [Node(float(k), [k, k + 1]) for k in range(number)],
        "keys": {("user", k, None, 1.5): k for k in range(number)},
        "lists": [[float(k)] * (k % 4) for k in range(number)],
        "arrays": [np.full((2, 3), k, np.float16) for k in range(number)],
        "texts": [f"t{k}" for k in range(number)],
        "mixed": [k if k % 2 else None for k in range(number)],
        "infinite": [(1.0, math.inf)] * number,
        "frozen": [frozenset({"b", "a"})] * number,
        "named": [Pair(k, [k]) for k in range(number)],
        "empty": [[] for _ in range(number)],
    }


def test_alike_things_become_columns_and_come_back():
    value = alike()
    found = and_back(value)
    arrays, made = found.pop("arrays"), value.pop("arrays")
    assert found == value
    del found["frozen"], value["frozen"]  # equal sets may be written in another order
    assert repr(found) == repr(value)
    for one, other in zip(arrays, made, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.base is None
    assert len(set(map(id, found["empty"]))) == 20


def test_columns_are_small():
    """A thousand objects of numbers are two columns of a thousand, and hardly any JSON."""
    files = encode(WALK.to_parts(Node([Node(float(k), k) for k in range(1000)])))
    assert len(files["values.json"]) < 300
    assert len(files["floats.npy"]) < 9000


def test_things_shared_between_columns_stay_shared():
    leaves = [Leaf(k) for k in range(10)]
    lists = [[float(k)] for k in range(10)]
    found = and_back(
        [leaves, [Node(leaf, own) for leaf, own in zip(leaves, lists, strict=True)], lists, leaves]
    )
    for k in range(10):
        assert found[1][k].value is found[0][k] is found[3][k]
        assert found[1][k].other is found[2][k]


def test_equal_models_are_equal_bytes():
    assert encode(WALK.to_parts(Node(alike()))) == encode(WALK.to_parts(Node(alike())))


# Parts that nobody laid down.


def picked(parts: Parts, **changes: Any) -> Any:
    return WALK.from_parts(replace(parts, **changes), Node)


def test_parts_of_a_program_that_remembers_other_things_are_refused():
    parts = there(Leaf(1))
    for other in (Walk({Node: "value"}), Walk({Node: "other value", Leaf: "number"})):
        with pytest.raises(ArtifactError, match="remember other things"):
            other.from_parts(parts, Node)
    for classes in ([["Leaf", "number"]], [["Secret", "value"]], []):
        with pytest.raises(ArtifactError, match="remember other things"):
            picked(parts, values={**parts.values, "classes": classes})


def test_another_model_is_refused():
    with pytest.raises(ArtifactError, match="holds no Leaf"):
        WALK.from_parts(there(1), Leaf)


@pytest.mark.parametrize(
    "root",
    [
        {"c": 5, "v": []},
        {"c": -1, "v": []},
        {"c": 0, "v": [1]},
        {"c": 0, "v": 7},
        {"r": 3},
        {"r": "0"},
        {"l": {"p": "floats", "length": 9}},
        {"l": {"p": "bones", "length": 0}},
        {"l": 3},
        {"l": [[1]]},
        {"a": "<f8", "v": 100, "shape": [100]},
        {"a": "<f8", "v": 1, "shape": [2]},
        {"a": "|O", "v": 1, "shape": [1]},
        {"y": "u", "v": 0},
        {"b": "missing", "columns": 1},
        {"d": [1, 2], "v": [1]},
        {"d": [{"l": []}], "v": [1]},
        {"x": 1},
        {},
        {"f": "one"},
        {"q": [], "most": "x"},
        {"l": {"u": [[1]]}},
        {"l": {"u": 5}},
        {"l": {"T": [1], "u": [1, 2]}},
        {"l": {"T": [-1, 3], "u": [1, 2]}},
        {"l": {"L": [1], "p": "floats"}},
        {"l": {"L": ["x"], "p": "floats"}},
        {"l": {"A": "<f8", "v": 8, "shape": [8]}},
        {"l": {"C": 1, "length": 2, "v": [[1, 2], [1]]}},
        {"l": {"C": 1, "length": 10**12, "v": [[1], [1]]}},
        {"l": {"C": 3, "length": 0, "v": []}},
        {"c": 3, "v": [1]},
        {"s": [{"l": []}]},
    ],
)
def test_nodes_that_lead_nowhere_are_refused(root):
    parts = there(None)
    with pytest.raises(ArtifactError):
        picked(parts, values={**parts.values, "root": root})


def test_numbers_that_nobody_uses_are_refused():
    parts = there([1.0] * 9)
    longer = {**parts.arrays, "floats": np.zeros(10)}
    with pytest.raises(ArtifactError, match=r"floats\.npy"):
        picked(parts, arrays=longer)
