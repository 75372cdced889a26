"""ETag and If-Match: nobody overwrites what they have not seen."""

import re
from typing import Annotated, Final

from fastapi import Depends, Header

from app.errors import Invalid, VersionMissing

_TAG: Final = re.compile(r'(?:W/)?"[^"]{0,64}"')
_VERSION: Final = re.compile(r'"([0-9]{1,18})"')


def etag(version: int) -> str:
    """The entity tag of a version."""
    return f'"{version}"'


def _versions(
    if_match: Annotated[
        str | None,
        Header(
            description="the ETag this change is based on; `*` for whatever is there",
            max_length=1024,
            examples=["*", '"3"'],
        ),
    ] = None,
) -> frozenset[int] | None:
    if if_match is None:
        raise VersionMissing('say which version this change is based on: If-Match: "<version>"')
    if if_match.strip() == "*":
        return None
    tags = [tag.strip() for tag in if_match.split(",")]
    if not all(map(_TAG.fullmatch, tags)):
        raise Invalid('If-Match is not of the form "<version>"')
    # A weak tag never matches: it does not promise that the content is the same.
    return frozenset(int(found[1]) for tag in tags if (found := _VERSION.fullmatch(tag)))


IfMatchDep = Annotated[frozenset[int] | None, Depends(_versions)]
"""Versions a change may be based on; None: any."""
