"""A web of objects laid down: see `models.artifacts.walk`."""

import math
from array import array
from collections import deque
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

import lightgbm
import numpy as np
from numpy.typing import NDArray

from models.artifacts.parts import Parts

LEAST_PACKED: Final = 8
"""Items from which on a list is laid down in columns, where its items are alike."""

STREAMS: Final[Mapping[type, str]] = {float: "floats", int: "ints"}
TYPECODES: Final = {"d": "<f8", "q": "<i8"}
CONTAINERS: Final[Mapping[str, type]] = {"l": list, "q": deque, "t": tuple, "s": set, "z": frozenset}

_PLAIN: Final = frozenset({str, int, bool, type(None)})


class Writer:
    """Lays down one model; equal models give equal parts.

    Args:
        classes: whose objects may occur, with the names of their attributes; none for named tuples.
    """

    def __init__(self, classes: Mapping[type, tuple[str, ...]]) -> None:
        self._classes = classes
        self._number = {one: number for number, one in enumerate(classes)}
        self._seen: dict[int, tuple[int, Any]] = {}
        self._packed: dict[type, list[list[Any]]] = {float: [], int: []}
        self._arrays: dict[str, list[NDArray[Any]]] = {}
        self._texts: dict[str, str] = {}

    def parts(self, model: Any, classes: list[list[str]]) -> Parts:
        """All of it; `classes` is the table that goes with it.

        Raises:
            TypeError: if it holds what cannot be stored.
        """
        root = self._node(model)
        arrays = {f"array-{name}": np.concatenate(parts) for name, parts in self._arrays.items()}
        arrays["floats"] = np.array(list(chain.from_iterable(self._packed[float])), np.float64)
        arrays["ints"] = np.array(list(chain.from_iterable(self._packed[int])), np.int64)
        return Parts(self._texts, {"root": root, "classes": classes}, arrays)

    def _node(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"f": repr(value)}
        if kind is type:
            return {"k": self._class_of(value, value)}
        if isinstance(value, np.generic):
            return {"n": value.dtype.str, "v": self._array(np.array([value]))}
        known = self._seen.get(id(value))
        if known is not None:
            return {"r": known[0]}
        if not issubclass(kind, tuple):
            self._see(value)
        return self._container(value, kind)

    def _see(self, value: Any) -> None:
        # The object is kept with its number: while it lives nothing else can have its id.
        self._seen[id(value)] = (len(self._seen), value)

    def _container(self, value: Any, kind: type) -> Any:
        if kind is dict:
            return {"d": self._items(list(value)), "v": self._items(list(value.values()))}
        if kind is np.ndarray:
            return {"a": value.dtype.str, "v": self._array(value), "shape": list(value.shape)}
        if kind is array:
            return {"y": value.typecode, "v": self._array(np.array(value, TYPECODES[value.typecode]))}
        for tag, container in CONTAINERS.items():
            if kind is container:
                items = sorted(value) if kind in (set, frozenset) else list(value)
                return {tag: self._items(items)} | ({"most": value.maxlen} if kind is deque else {})
        if kind is lightgbm.Booster:
            name = f"trees-{len(self._texts)}"
            self._texts[name] = value.model_to_string()
            return {"b": name, "columns": value.num_feature()}
        number = self._class_of(value, kind)
        values = list(value) if issubclass(kind, tuple) else self._attributes(value, kind)
        return {"c": number, "v": [self._node(one) for one in values]}

    def _class_of(self, value: Any, kind: type) -> int:
        if kind not in self._number:
            raise TypeError(f"{kind.__qualname__} is not among the classes whose objects are stored")
        held = () if value is kind else getattr(value, "__dict__", ())
        if len(held) and not set(held) <= set(self._classes[kind]):
            other = sorted(set(held) - set(self._classes[kind]))
            raise TypeError(f"{kind.__qualname__} remembers {other}, which its stored form does not")
        return self._number[kind]

    def _attributes(self, value: Any, kind: type) -> list[Any]:
        return [getattr(value, name) for name in self._classes[kind]]

    def _items(self, values: list[Any]) -> Any:
        """Items of a list; many that are alike are laid down in columns."""
        if len(values) >= LEAST_PACKED:
            columns = self._columns(values, set(map(type, values)))
            if columns is not None:
                return columns
        return [self._node(one) for one in values]

    def _columns(self, values: list[Any], kinds: set[type]) -> Any:
        if kinds <= _PLAIN and kinds != {int}:
            return {"u": values}
        if len(kinds) > 1:
            return None
        (kind,) = kinds
        if kind in STREAMS:
            return {"p": self._pack(kind, values), "length": len(values)}
        if kind is tuple:
            flat = list(chain.from_iterable(values))
            is_plain = set(map(type, flat)) <= {*_PLAIN, float} and all(map(_is_finite, flat))
            return {"T": self._items(list(map(len, values))), "u": flat} if is_plain else None
        if len(set(map(id, values))) < len(values) or any(id(one) in self._seen for one in values):
            return None
        return self._alike(values, kind)

    def _alike(self, values: list[Any], kind: type) -> Any:
        """Lists of numbers, arrays of one shape, or objects of one class, none of them seen before."""
        if kind is list:
            flat = list(chain.from_iterable(values))
            inner = set(map(type, flat))
            if len(inner) != 1 or not inner <= set(STREAMS):
                return None
            node = {"L": self._items(list(map(len, values))), "p": self._pack(inner.pop(), flat)}
        elif kind is np.ndarray:
            shapes = {(one.dtype.str, one.shape) for one in values}
            if len(shapes) > 1:
                return None
            stacked = np.stack(values)
            node = {"A": stacked.dtype.str, "v": self._array(stacked), "shape": list(stacked.shape)}
        elif kind in self._number and not issubclass(kind, tuple):
            numbers = {self._class_of(one, kind) for one in values}
            node = {"C": numbers.pop(), "length": len(values)}
        else:
            return None
        for one in values:
            self._see(one)
        if "C" in node:
            rows = [self._attributes(one, kind) for one in values]
            node["v"] = [self._items(list(column)) for column in zip(*rows, strict=True)]
        return node

    def _pack(self, kind: type, values: list[Any]) -> str:
        self._packed[kind].append(values)
        return STREAMS[kind]

    def _array(self, value: NDArray[Any]) -> int:
        self._arrays.setdefault(value.dtype.str[1:], []).append(np.asarray(value).ravel())
        return int(value.size)


def _is_finite(value: Any) -> bool:
    return type(value) is not float or math.isfinite(value)
