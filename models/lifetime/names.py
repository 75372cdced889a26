"""Templates of job names: numbers do not tell names apart, and a new name is like the most similar one."""

import re
from typing import Final

LEAST_SIMILAR: Final = 0.5
"""Jaccard similarity of the token sets from which on a known template stands in for a new one."""

TEMPLATES_PER_GROUP: Final = 32
"""Templates that a new one is compared with: the ones its group used last."""

MOST_GROUPS: Final = 20_000
MOST_TEMPLATES: Final = 100_000

_DIGITS: Final = re.compile(r"\d+")
_BREAKS: Final = re.compile(r"[^a-z#]+")

Group = tuple[str, ...]


def template_of(name: str) -> str:
    """The name without its numbers."""
    return _DIGITS.sub("#", name) if any(map(str.isdigit, name)) else name


def tokens_of(template: str) -> frozenset[str]:
    """Words of a template in lower case; what is no letter parts them, and numbers alone are no word."""
    return frozenset(_BREAKS.split(template.lower())) - {"", "#"}


def similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """Shared tokens over all tokens (Jaccard), 0 where there are none."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0


class SimilarNames:
    """For each template of a group (user or pool), the known template of that group that was most like it.

    Decided when the template is first seen, among those the group had used before, and then kept: what a
    new name leans on does not change with what comes later.
    """

    def __init__(self) -> None:
        self._groups: dict[Group, dict[str, frozenset[str]]] = {}
        self._similar: dict[tuple[Group, str], str | None] = {}

    def like(self, group: Group, template: str) -> str | None:
        """What `used` would say, and nothing becomes known."""
        key = (group, template)
        if key in self._similar:
            return self._similar[key]
        return _most_similar(self._groups.get(group, {}), tokens_of(template))

    def used(self, group: Group, template: str) -> str | None:
        """The template that stands in for this one, None where none is like it; it is known from now on."""
        key = (group, template)
        if key in self._similar:
            similar = self._similar.pop(key)
            known = self._groups.get(group, {})
            tokens = known.pop(template, None)
        else:
            known = self._groups.pop(group, {})
            tokens = None
            similar = _most_similar(known, tokens_of(template))
            if len(self._similar) >= MOST_TEMPLATES:
                del self._similar[next(iter(self._similar))]
        known[template] = tokens_of(template) if tokens is None else tokens
        if len(known) > TEMPLATES_PER_GROUP:
            del known[next(iter(known))]
        if group not in self._groups and len(self._groups) >= MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        self._groups[group] = known
        self._similar[key] = similar
        return similar


def _most_similar(known: dict[str, frozenset[str]], tokens: frozenset[str]) -> str | None:
    """The most similar known template, of equally similar ones the one used last."""
    best, best_similarity = None, LEAST_SIMILAR
    for template, others in known.items():
        found = similarity(tokens, others)
        if found >= best_similarity:
            best, best_similarity = template, found
    return best
