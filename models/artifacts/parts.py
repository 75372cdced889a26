"""What a stored model consists of: texts, one JSON value and arrays of numbers. No code, ever."""

import io
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.artifacts.errors import ArtifactError, Rule

Json = dict[str, Any] | list[Any] | str | int | float | bool | None

VALUES_FILE: Final = "values.json"
NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""Names of parts: no dot, no slash, so none can lead out of the folder or hide in it."""

_DTYPES: Final = frozenset(
    {"|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8"}
)
_MAGIC: Final = b"\x93NUMPY\x01\x00"
_HEADER: Final = re.compile(
    rb"\{'descr': '(?P<dtype>[|<>=]\w{1,8})', 'fortran_order': False, "
    rb"'shape': \((?P<shape>|\d{1,15},|\d{1,15}(?:, \d{1,15})+)\), \} *\n"
)
_MAX_DIMENSIONS: Final = 4
_MAX_DEPTH: Final = 64


@dataclass(frozen=True, eq=False)
class Parts:
    """A model taken apart.

    Attributes:
        texts: by name, such as the trees as LightGBM writes them.
        values: one JSON value: objects, lists, text, whole and finite numbers.
        arrays: by name, of numbers or booleans, little-endian, at most 4 dimensions.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    values: Json = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A text.

        Raises:
            ArtifactError: if there is none of that name.
        """
        if name not in self.texts:
            raise ArtifactError(f"{name}.txt", Rule.MISSING, "the model needs it")
        return self.texts[name]

    def value(self, name: str, *kinds: type) -> Any:
        """A member of `values`, which must be an object.

        Args:
            name: the member.
            kinds: types it may have; `float` takes whole numbers too, and nothing takes a bool for a number.

        Raises:
            ArtifactError: if it is missing or of another type.
        """
        if not isinstance(self.values, dict) or name not in self.values:
            raise ArtifactError(VALUES_FILE, Rule.FIELD, f"{name} is missing")
        return checked(VALUES_FILE, name, self.values[name], *kinds)

    def array(
        self,
        name: str,
        dtype: str,
        shape: tuple[int | None, ...],
        *,
        may_be_nan: bool = False,
        may_be_infinite: bool = False,
    ) -> NDArray[Any]:
        """An array that is what the model expects.

        Args:
            name: of the array.
            dtype: as numpy names it, for example `float32`.
            shape: wanted; None where any length will do.
            may_be_nan: whether NaN means something here.
            may_be_infinite: whether infinities do.

        Raises:
            ArtifactError: if it is missing or anything else.
        """
        file = f"{name}.npy"
        if name not in self.arrays:
            raise ArtifactError(file, Rule.MISSING, "the model needs it")
        found = self.arrays[name]
        if found.dtype != np.dtype(dtype):
            raise ArtifactError(file, Rule.DTYPE, f"is {found.dtype}, must be {dtype}")
        if len(found.shape) != len(shape) or any(
            want is not None and have != want for have, want in zip(found.shape, shape, strict=True)
        ):
            wanted = tuple("any" if want is None else want for want in shape)
            raise ArtifactError(file, Rule.SHAPE, f"is {found.shape}, must be {wanted}")
        if found.dtype.kind == "f":
            if not may_be_nan and np.isnan(found).any():
                raise ArtifactError(file, Rule.NOT_FINITE, "holds NaN where a number is needed")
            if not may_be_infinite and np.isinf(found).any():
                raise ArtifactError(
                    file, Rule.NOT_FINITE, "holds an infinity where a finite number is needed"
                )
        return found


def checked(file: str, name: str, value: Any, *kinds: type) -> Any:
    """`value`, if it is of one of the kinds; see `Parts.value`.

    Raises:
        ArtifactError: if it is not.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    for kind in kinds:
        if kind is float and is_number:
            return float(value)
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
    wanted = " or ".join(kind.__name__ for kind in kinds)
    raise ArtifactError(file, Rule.FIELD, f"{name} is {type(value).__name__}, must be {wanted}")


def encode(parts: Parts) -> dict[str, bytes]:
    """The files that hold the parts: equal parts give equal bytes.

    Raises:
        ArtifactError: for names, values or arrays that may not be stored.
    """
    files: dict[str, bytes] = {}
    for name, text in parts.texts.items():
        files[_file(name, "txt")] = _text_bytes(f"{name}.txt", text)
    for name, array in parts.arrays.items():
        files[_file(name, "npy")] = _array_bytes(f"{name}.npy", array)
    files[VALUES_FILE] = json_bytes(VALUES_FILE, parts.values)
    return files


def decode(files: Mapping[str, bytes]) -> Parts:
    """The inverse of `encode`.

    Raises:
        ArtifactError: with the first file that breaks a rule.
    """
    texts: dict[str, str] = {}
    arrays: dict[str, NDArray[Any]] = {}
    values: Json = None
    if VALUES_FILE not in files:
        raise ArtifactError(VALUES_FILE, Rule.MISSING, "every model has it")
    for file, content in files.items():
        name, kind = split_name(file)
        if file == VALUES_FILE:
            values = json_value(file, content)
        elif kind == "txt":
            texts[name] = _text(file, content)
        else:
            arrays[name] = _array(file, content)
    return Parts(texts, values, arrays)


def split_name(file: str) -> tuple[str, str]:
    """Name and kind (`txt`, `npy` or, for `values.json` alone, `json`) of a file.

    Raises:
        ArtifactError: if a stored model has no such file.
    """
    name, dot, kind = file.partition(".")
    is_known = file == VALUES_FILE or kind in ("txt", "npy")
    if not dot or not is_known or NAME.fullmatch(name) is None:
        raise ArtifactError(repr(file[:80]), Rule.BAD_NAME, "no file of a model is called so")
    return name, kind


def json_bytes(file: str, value: Json, *, indent: int | None = None) -> bytes:
    """A JSON value as text with sorted keys.

    Args:
        file: that it is for.
        value: to write.
        indent: spaces a level, for people; None writes one line, several times as fast.

    Raises:
        ArtifactError: if it is none, or holds a number that is not finite.
    """
    spaces = (",", ":") if indent is None else None
    try:
        text = json.dumps(value, indent=indent, separators=spaces, sort_keys=True, allow_nan=False)
        return (text + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ArtifactError(file, Rule.NOT_JSON, str(error)) from error


def json_value(file: str, content: bytes) -> Json:
    """The JSON value in a file.

    Raises:
        ArtifactError: if it is none, nests too deeply, repeats a key or holds a number that is not finite.
    """
    try:
        value: Json = json.loads(
            content.decode(),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_without_twins,
        )
    except (ValueError, RecursionError) as error:
        raise ArtifactError(file, Rule.NOT_JSON, str(error) or type(error).__name__) from error
    if _depth(value) > _MAX_DEPTH:
        raise ArtifactError(file, Rule.NOT_JSON, f"nests more than {_MAX_DEPTH} deep")
    return value


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _depth(value: Json) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        one, depth = waiting.pop()
        deepest = max(deepest, depth)
        if depth > _MAX_DEPTH:
            break
        if isinstance(one, dict):
            waiting += [(inner, depth + 1) for inner in one.values() if isinstance(inner, dict | list)]
        elif isinstance(one, list):
            waiting += [(inner, depth + 1) for inner in one if isinstance(inner, dict | list)]
    return deepest


def _file(name: str, kind: str) -> str:
    file = f"{name}.{kind}"
    split_name(file)
    return file


def _text_bytes(file: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ArtifactError(file, Rule.NOT_TEXT, str(error)) from error


def _text(file: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ArtifactError(file, Rule.NOT_TEXT, str(error)) from error


def _array_bytes(file: str, array: NDArray[Any]) -> bytes:
    if array.dtype.str not in _DTYPES or array.ndim > _MAX_DIMENSIONS:
        raise ArtifactError(file, Rule.DTYPE, f"{array.dtype} of {array.ndim} dimensions is not stored")
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
    return stream.getvalue()


def _array(file: str, content: bytes) -> NDArray[Any]:
    """Read .npy bytes as numpy writes them; nothing is evaluated, and no more is allocated than there is."""
    begin = len(_MAGIC) + 2
    if not content.startswith(_MAGIC) or len(content) < begin:
        raise ArtifactError(file, Rule.NOT_AN_ARRAY, "does not begin as version 1.0 of the format of arrays")
    end = begin + int.from_bytes(content[len(_MAGIC) : begin], "little")
    header = _HEADER.fullmatch(content[begin:end])
    if header is None:
        raise ArtifactError(file, Rule.NOT_AN_ARRAY, "the header is not as it is written")
    name, sides = header["dtype"].decode(), header["shape"].decode()
    shape = tuple(int(side) for side in sides.split(",") if side.strip())
    if name not in _DTYPES:
        raise ArtifactError(file, Rule.DTYPE, f"{name} is not read")
    if len(shape) > _MAX_DIMENSIONS:
        raise ArtifactError(file, Rule.SHAPE, f"more than {_MAX_DIMENSIONS} dimensions")
    dtype, held = np.dtype(name), len(content) - end
    if math.prod(shape) * dtype.itemsize != held:
        raise ArtifactError(file, Rule.SHAPE, f"says {shape} of {dtype} but holds {held} bytes")
    read = np.frombuffer(content, dtype, offset=end).reshape(shape).copy()
    if dtype.kind == "b" and read.view(np.uint8).max(initial=0) > 1:
        raise ArtifactError(file, Rule.OUT_OF_RANGE, "holds a boolean that is neither 0 nor 1")
    return read
