"""Draws that hang on nothing but a seed and names: whoever asks again, in whatever order, draws the same."""

import hashlib
from random import Random


def uniform(seed: int, *names: object) -> float:
    """A number in [0, 1) that belongs to these names."""
    text = "\x1f".join([str(seed), *map(str, names)]).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") / 2.0**64


def generator(seed: int, *names: object) -> Random:
    """A generator that belongs to these names."""
    return Random(uniform(seed, *names))  # noqa: S311 - a replay, no secret
