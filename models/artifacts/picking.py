"""A web of objects picked up again: see `models.artifacts.walk`."""

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.artifacts.errors import ArtifactError, Rule
from models.artifacts.laying import CONTAINERS, STREAMS, TYPECODES
from models.artifacts.parts import Parts
from models.artifacts.trees import booster_of

_PACKED: Final = (("floats", "float64"), ("ints", "int64"))


class Picker:
    """Picks up one model, in the order in which it was laid down.

    Errors of Python's own (a key, an index, a type) say that a part is not what it must be.

    Args:
        parts: of a model.
        classes: by their numbers, with the names of their attributes.
    """

    def __init__(self, parts: Parts, classes: Sequence[tuple[type, tuple[str, ...]]]) -> None:
        self._parts = parts
        self._classes = classes
        self._seen: list[Any] = []
        self._used = dict.fromkeys(parts.arrays, 0)
        self._lists = {
            name: parts.array(name, dtype, (None,), may_be_nan=True, may_be_infinite=True).tolist()
            for name, dtype in _PACKED
        }

    def model(self) -> Any:
        """All of it.

        Raises:
            ArtifactError: if numbers are left over, or the trees are none.
        """
        found = self._value(self._parts.value("root", dict))
        for name, held in self._parts.arrays.items():
            if self._used[name] != len(held):
                message = f"holds {len(held)} numbers, {self._used[name]} are used"
                raise ArtifactError(f"{name}.npy", Rule.SHAPE, message)
        return found

    def _value(self, node: Any) -> Any:
        if not isinstance(node, dict):
            if isinstance(node, list):
                raise TypeError("a list that is no node")
            return node
        if "f" in node:
            return float(node["f"])
        if "n" in node:
            return self._array(node["n"], node["v"])[0]
        if "r" in node:
            return self._seen[_whole(node["r"])]
        if "k" in node:
            return self._classes[_whole(node["k"])][0]
        return self._object(node) if "c" in node else self._container(node)

    def _container(self, node: dict[str, Any]) -> Any:
        if "t" in node:
            return tuple(self._items(node["t"]))
        place = len(self._seen)
        self._seen.append(None)
        made = self._seen[place] = self._filled(node, place)
        return made

    def _filled(self, node: dict[str, Any], place: int) -> Any:
        """A container with what belongs in it; one that can hold itself has its place first."""
        if "d" in node:
            made: Any = {}
            self._seen[place] = made
            keys = list(self._items(node["d"]))
            made.update(zip(keys, self._items(node["v"]), strict=True))
        elif "a" in node:
            made = self._array(node["a"], node["v"]).reshape(_shape(node))
        elif "y" in node:
            made = array(node["y"], self._array(TYPECODES[node["y"]], node["v"]).tolist())
        elif "b" in node:
            made = booster_of(self._parts, node["b"], _whole(node["columns"]))
        elif "z" in node:
            made = frozenset(self._items(node["z"]))
        else:
            ((tag, items),) = ((tag, items) for tag, items in node.items() if tag in CONTAINERS)
            made = self._seen[place] = deque(maxlen=node["most"]) if tag == "q" else CONTAINERS[tag]()
            (made.update if tag == "s" else made.extend)(self._items(items))
        return made

    def _object(self, node: dict[str, Any]) -> Any:
        kind, names = self._classes[_whole(node["c"])]
        if issubclass(kind, tuple):
            fields: Any = kind
            made: Any = tuple.__new__(fields, [self._value(one) for one in node["v"]])
            if len(made) != len(fields._fields):
                raise TypeError(f"{kind.__qualname__} has other fields")
            return made
        made = object.__new__(kind)
        self._seen.append(made)
        for name, one in zip(names, node["v"], strict=True):
            object.__setattr__(made, name, self._value(one))
        return made

    def _items(self, node: Any) -> Iterator[Any]:
        if isinstance(node, list):
            return (self._value(one) for one in node)
        if "u" in node:
            return self._plain(node)
        if "L" in node:
            return iter(self._number_lists(node))
        if "A" in node:
            stacked = self._array(node["A"], node["v"]).reshape(_shape(node))
            rows = [row.copy() for row in stacked]  # each its own: one forgotten is memory freed
            self._seen += rows
            return iter(rows)
        if "C" in node:
            return iter(self._objects(node))
        return iter(self._packed(node["p"], node["length"]))

    def _plain(self, node: dict[str, Any]) -> Iterator[Any]:
        flat = node["u"]
        if not isinstance(flat, list) or not {dict, list}.isdisjoint(map(type, flat)):
            raise TypeError("plain values are numbers, text and null")
        if "T" not in node:
            return iter(flat)
        return iter([tuple(flat[begin:end]) for begin, end in self._cuts(node["T"], len(flat))])

    def _number_lists(self, node: dict[str, Any]) -> list[list[Any]]:
        lengths = list(self._items(node["L"]))
        flat = self._packed(node["p"], sum(map(_whole, lengths)))
        ends = np.cumsum([0, *lengths]).tolist()
        made = [flat[begin:end] for begin, end in pairwise(ends)]
        self._seen += made
        return made

    def _objects(self, node: dict[str, Any]) -> list[Any]:
        kind, names = self._classes[_whole(node["C"])]
        if issubclass(kind, tuple):
            raise TypeError("named tuples are not laid down in columns")
        made = [object.__new__(kind) for _ in range(_bounded(node["length"]))]
        self._seen += made
        for name, column in zip(names, node["v"], strict=True):
            for one, value in zip(made, self._items(column), strict=True):
                object.__setattr__(one, name, value)
        return made

    def _cuts(self, node: Any, whole: int) -> Iterator[tuple[int, int]]:
        lengths = [_whole(length) for length in self._items(node)]
        if sum(lengths) != whole:
            raise IndexError("lengths do not add up")
        return pairwise(np.cumsum([0, *lengths]).tolist())

    def _packed(self, name: Any, length: Any) -> list[Any]:
        if name not in STREAMS.values():
            raise KeyError(name)
        begin = self._used[name]
        items: list[Any] = self._lists[name][begin : begin + _whole(length)]
        if len(items) != length:
            raise IndexError(f"{name} are too few")
        self._used[name] += length
        return items

    def _array(self, dtype: str, size: Any) -> NDArray[Any]:
        name = f"array-{dtype[1:]}"
        begin, number = self._used[name], _whole(size)
        found = self._parts.arrays[name][begin : begin + number]
        if len(found) != number or found.dtype.str != dtype:
            raise IndexError(f"{name} are too few or of another type")
        self._used[name] += number
        return found.copy()


_MOST_OBJECTS: Final = 10_000_000


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r:.40} is no place and no length")
    return value


def _bounded(value: Any) -> int:
    if _whole(value) > _MOST_OBJECTS:
        raise ValueError(f"{value} objects are too many")
    return _whole(value)


def _shape(node: dict[str, Any]) -> tuple[int, ...]:
    return tuple(map(_whole, node["shape"]))
