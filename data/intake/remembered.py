"""Caches of what words come to: files say few of them often. Long texts are never kept, only short words."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar

MOST_CHARACTERS: Final = 1_000
"""Longest texts, together, that an answer is remembered for: a cache of longer ones would hold the file."""

Answer = TypeVar("Answer")


def remembered(
    most_answers: int, length: Callable[..., int] | None = None
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """A cache of so many answers of a function of texts.

    Args:
        most_answers: answers that are kept, those asked for last.
        length: characters of all arguments together; None: each of them is a text or None.
    """

    def decorate(function: Callable[..., Answer]) -> Callable[..., Answer]:
        cached = lru_cache(most_answers)(function)

        @wraps(function)
        def answer(*texts: Any) -> Answer:
            size = sum(map(len, filter(None, texts))) if length is None else length(*texts)
            return cached(*texts) if size <= MOST_CHARACTERS else function(*texts)

        return answer

    return decorate


def length_of_words(words: tuple[str, ...]) -> int:
    """Characters of a tuple of texts."""
    return sum(map(len, words))
