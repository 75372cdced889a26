"""LightGBM's text models, looked through before LightGBM reads them.

The library trusts what it reads: a child that does not exist is memory that is not its own. So the parts
that it walks along are checked here first.
"""

import math
import re
from typing import Any, Final

import lightgbm

from models.artifacts.errors import ArtifactError, Rule
from models.artifacts.parts import Parts

_MOST_TREES: Final = 10_000
_MOST_LEAVES: Final = 4096
_END: Final = "end of trees\n"
_KEY: Final = re.compile(r"[a-z_]+")


def booster_of(parts: Parts, name: str, num_features: int) -> lightgbm.Booster:
    """Trees for numbers (no categories, one score), put together again.

    Args:
        parts: of a model.
        name: of the text.
        num_features: columns that the trees may look at.

    Raises:
        ArtifactError: if the text is missing or is not the model of LightGBM that it must be.
    """
    text = parts.text(name)
    file = f"{name}.txt"
    try:
        _check(text, num_features)
        booster = lightgbm.Booster(model_str=text)
    except (ValueError, lightgbm.basic.LightGBMError) as error:
        raise ArtifactError(file, Rule.FIELD, f"no text model of LightGBM: {error}") from error
    if booster.num_feature() != num_features:
        raise ArtifactError(file, Rule.SHAPE, f"sees {booster.num_feature()} columns, must be {num_features}")
    return booster


def _check(text: str, num_features: int) -> None:
    """Walk along what LightGBM will walk along.

    Raises:
        ValueError: at the first thing that is out of place.
    """
    if not text.isascii():
        raise ValueError("a character that is not ASCII")
    head, gap, _ = text.partition("\n\n")
    lines = head.split("\n")
    if lines[0] != "tree" or not gap:
        raise ValueError("the first line is not `tree`")
    header = _members([line for line in lines[1:] if line != "average_output"])
    for key, wanted in (
        ("version", "v4"),
        ("num_class", "1"),
        ("num_tree_per_iteration", "1"),
        ("max_feature_idx", str(num_features - 1)),
    ):
        if header.get(key) != wanted:
            raise ValueError(f"{key} is {header.get(key, 'missing')!r:.40}, must be {wanted}")
    for key in ("feature_names", "feature_infos"):
        if len(header.get(key, "").split()) != num_features:
            raise ValueError(f"{key} are not {num_features}")
    sizes = _integers(header.get("tree_sizes", ""))
    if len(sizes) > _MOST_TREES or any(size < 1 for size in sizes):
        raise ValueError(f"tree_sizes must be at most {_MOST_TREES} and positive")
    begin = len(head) + len(gap)
    for number, size in enumerate(sizes):
        _check_tree(text[begin : begin + size], number, num_features)
        begin += size
    if not text.startswith(_END, begin):
        raise ValueError("the trees are not as long as tree_sizes says")


def _check_tree(text: str, number: int, num_features: int) -> None:
    first, *lines = text.split("\n")
    if first != f"Tree={number}":
        raise ValueError(f"tree {number} is not where it must be")
    tree = _members([line for line in lines if line])
    num_leaves = int(tree.get("num_leaves", "0"))
    if not 1 <= num_leaves <= _MOST_LEAVES or tree.get("num_cat") != "0" or tree.get("is_linear") != "0":
        raise ValueError(f"tree {number} has too many leaves, categories or slopes")
    if len(_numbers(tree.get("leaf_value", ""))) != num_leaves:
        raise ValueError(f"tree {number} has not as many values as leaves")
    splits = num_leaves - 1
    features, kinds, left, right = (
        _integers(tree.get(key, ""))
        for key in ("split_feature", "decision_type", "left_child", "right_child")
    )
    thresholds = [float(part) for part in tree.get("threshold", "").split()]  # infinite: all that is known
    if {len(column) for column in (features, kinds, left, right, thresholds)} != {splits}:
        raise ValueError(f"tree {number} has not as many splits as leaves ask for")
    if not all(0 <= feature < num_features for feature in features):
        raise ValueError(f"tree {number} looks at a column that there is not")
    if any(map(math.isnan, thresholds)):
        raise ValueError(f"tree {number} splits at what is no number")
    if any(kind & 1 or not 0 <= kind < 16 for kind in kinds):
        raise ValueError(f"tree {number} splits by category")
    _check_children(left, right, number)


def _check_children(left: list[int], right: list[int], number: int) -> None:
    """Each split but the first, and each leaf, is the child of one split, and of an earlier one."""
    seen: list[int] = []
    for parent, children in enumerate(zip(left, right, strict=True)):
        if any(0 <= child <= parent for child in children):
            raise ValueError(f"tree {number} runs in a circle")
        seen += children
    splits = len(left)
    if splits and sorted(seen) != list(range(-splits - 1, 0)) + list(range(1, splits)):
        raise ValueError(f"tree {number} has a child that there is not, or one twice")


def _members(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        key, sign, value = line.partition("=")
        if not sign or _KEY.fullmatch(key) is None or key in found:
            raise ValueError(f"a line is {line!r:.40}")
        found[key] = value
    return found


def _integers(text: str) -> list[int]:
    return [int(part) for part in text.split()]


def _numbers(text: str) -> list[Any]:
    numbers = [float(part) for part in text.split()]
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a value is not finite")
    return numbers
