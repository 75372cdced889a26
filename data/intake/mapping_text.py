"""Mappings as TOML: what the operator writes, and those that the package brings. docs/add-a-mapping.md."""

import json
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

from data.intake.fields import FIELDS, OPTIONS, FieldKind, units_of
from data.intake.mapping import ColumnMapping, ColumnRule, MappingError
from data.intake.source import refuse, size_of
from data.rules import Rule, shown
from data.stamps import parse_stamp, zone
from domain.attempts import EndCause

MAX_BYTES: Final = 2**20
"""Longest mapping that is read."""

_TOP: Final = MappingProxyType(
    {
        "title": str, "clock": str, "origin": str, "zone": str, "delimiter": str, "header": list,
        "nulls": list, "id_from_row": bool, "rows_share_ids": bool, "end_inclusive": bool,
        "start_is_submit": bool, "window_start": (int, float), "window_end": (int, float),
        "columns": dict, "states": dict, "facts": dict,
    }
)  # fmt: skip
_BUILT_IN: Final = MappingProxyType(
    {"format": str, "recognise": list, "lacks": list, "nothing_to_learn": str}
)
_OF_A_COLUMN: Final = MappingProxyType(
    {
        "column": str, "columns": list, "value": object, "nulls": list, "optional": bool, "unit": str,
        "unlimited": list, "times": str, "shares_of_many": bool, "separator": str, "alternatives": str,
        "when": list,
    }
)  # fmt: skip
_KIND_NAMES: Final = MappingProxyType(
    {str: "text", list: "a list of texts", bool: "true or false", dict: "a table", (int, float): "a number"}
)
_NOT_BOTH: Final = (
    ("submit", "gap"), ("start", "wait"), ("gpus", "gpus_asked"), ("gpus", "gpus_given"),
)  # fmt: skip


def load_mapping(path: Path) -> ColumnMapping:
    """The mapping in a file.

    Raises:
        InputError: if it cannot be read, is no TOML, or says what cannot be; file, key and what is allowed.
    """
    if size_of(path) > MAX_BYTES:
        raise refuse(path, Rule.TOO_LARGE, f"a mapping has at most {MAX_BYTES} bytes")
    try:
        return parse_mapping(path.read_text(encoding="utf-8-sig"), path.stem)
    except UnicodeDecodeError as error:
        raise refuse(path, Rule.NOT_TEXT, "the mapping is no UTF-8 text") from error
    except MappingError as error:
        raise refuse(path, Rule.BAD_MAPPING, str(error)) from error


@lru_cache(maxsize=1)
def built_in() -> Mapping[str, ColumnMapping]:
    """The mappings that the package brings, by name."""
    found = sorted((files("data") / "mappings").iterdir(), key=lambda one: one.name)
    mappings = (
        parse_mapping(one.read_text(encoding="utf-8"), one.name.removesuffix(".toml"), is_built_in=True)
        for one in found
        if one.name.endswith(".toml")
    )
    return MappingProxyType({one.name: one for one in mappings})


def parse_mapping(text: str, name: str, *, is_built_in: bool = False) -> ColumnMapping:
    """The mapping that a text is.

    Args:
        text: TOML.
        name: its name.
        is_built_in: whether it may say what tables it is for.

    Raises:
        MappingError: if it is none.
    """
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise MappingError(f"the mapping is no TOML: {shown(error)}") from error
    allowed = {**_TOP, **_BUILT_IN} if is_built_in else dict(_TOP)
    _check_keys(content, allowed, "")
    rules = {
        one: _column_rule(one, said, is_built_in, content.get("recognise", ()))
        for one, said in content.get("columns", {}).items()
    }
    if not content.get("nothing_to_learn"):
        _check_whole(content, rules)
    is_relative, origin_s = _clock(content)
    return ColumnMapping(
        name=name,
        rules=MappingProxyType(rules),
        causes=_causes(content.get("states", {})),
        title=content.get("title", ""),
        is_relative=is_relative or ("gap" in rules and origin_s is None),
        origin_s=origin_s,
        zone=_zone(content),
        delimiter=_delimiter(content),
        header=_texts(content, "header"),
        nulls=frozenset(word.casefold() for word in _texts(content, "nulls")),
        do_rows_share_ids=content.get("rows_share_ids", False),
        has_id_from_row=content.get("id_from_row", False),
        is_end_inclusive=content.get("end_inclusive", False),
        is_start_submit=content.get("start_is_submit", False),
        window_start=content.get("window_start"),
        window_end=content.get("window_end"),
        facts=MappingProxyType(_facts(content.get("facts", {}))),
        format=content.get("format", ""),
        recognise=_texts(content, "recognise"),
        lacks=_texts(content, "lacks"),
        nothing_to_learn=content.get("nothing_to_learn", ""),
        content=MappingProxyType(content),
    )


def _check_keys(content: Mapping[str, Any], allowed: Mapping[str, Any], where: str) -> None:
    for key, value in content.items():
        if key not in allowed:
            raise MappingError(
                f"there is no key {_key(where, key)}; allowed are {', '.join(sorted(allowed))}"
            )
        kind = allowed[key]
        is_wrong_bool = isinstance(value, bool) and kind is not bool and kind is not object
        if not isinstance(value, kind) or is_wrong_bool:
            raise MappingError(f"{_key(where, key)} is to be {_KIND_NAMES[kind]}, it is {shown(repr(value))}")


def _key(where: str, key: str) -> str:
    return shown(f"{where}.{key}" if where else key)


def _texts(content: Mapping[str, Any], key: str, where: str = "") -> tuple[str, ...]:
    found = content.get(key, [])
    if not all(isinstance(one, str) for one in found):
        raise MappingError(f"{_key(where, key)} is to be a list of texts, it is {shown(found)}")
    return tuple(found)


def _column_rule(name: str, said: Any, is_built_in: bool, recognised: Any) -> ColumnRule:
    where = f"columns.{name}"
    if name not in FIELDS:
        raise MappingError(f"there is no field {shown(where)}; allowed are {', '.join(sorted(FIELDS))}")
    kind = FIELDS[name]
    options = {"column": said} if isinstance(said, str) else said
    if not isinstance(options, dict):
        raise MappingError(f"{where} is to be the name of a column or a table, it is {shown(repr(said))}")
    names = {"column", "value", "nulls", "optional"} | OPTIONS[kind]
    _check_keys(options, {key: _OF_A_COLUMN[key] for key in names}, where)
    if len({"column", "columns", "value"} & set(options)) != 1:
        raise MappingError(f"{where} needs one of column, columns (texts only) and value")
    columns = (options["column"],) if "column" in options else _texts(options, "columns", where)
    if "value" in options and isinstance(options["value"], dict | list):
        raise MappingError(f"{where}.value is to be one text, number, date or truth value")
    when = _texts(options, "when", where) or ("true", "yes", "1")
    return ColumnRule(
        field=name,
        columns=columns,
        value=options.get("value"),
        nulls=frozenset(word.casefold() for word in _texts(options, "nulls", where)),
        is_optional=options.get("optional", is_built_in and not set(columns) <= set(recognised)),
        unit=_unit(options, kind, where),
        unlimited=frozenset(word.casefold() for word in _texts(options, "unlimited", where)),
        times=options.get("times"),
        has_shares_of_many=options.get("shares_of_many", False),
        separator=options.get("separator", "/"),
        alternatives=options.get("alternatives") or None,
        when=frozenset(word.casefold() for word in when),
    )


def _unit(options: Mapping[str, Any], kind: FieldKind, where: str) -> str:
    allowed = units_of(kind)
    unit = options.get("unit", allowed[0] if allowed else "")
    if allowed and unit not in allowed:
        raise MappingError(f"{where}.unit is {shown(repr(unit))}; allowed are {', '.join(allowed)}")
    return str(unit)


def _check_whole(content: Mapping[str, Any], rules: Mapping[str, ColumnRule]) -> None:
    """Raise MappingError for what no single key is wrong about."""
    if not rules:
        raise MappingError("the table columns is missing: it says which column is which field")
    if ("raw_id" in rules) == content.get("id_from_row", False):
        raise MappingError("columns.raw_id or id_from_row = true is needed, and not both")
    if "submit" not in rules and "gap" not in rules:
        raise MappingError("columns.submit is needed, or columns.gap: seconds since the row before")
    for one, other in _NOT_BOTH:
        if one in rules and other in rules:
            raise MappingError(f"columns.{one} and columns.{other} say the same: one of the two")
    if ("state" in rules) != ("states" in content):
        raise MappingError("columns.state and the table states (what its words mean) go together")
    if content.get("start_is_submit") and not {"run", "end"} & set(rules):
        raise MappingError("start_is_submit needs columns.run or columns.end")


def _causes(said: Mapping[str, Any]) -> Mapping[str, EndCause]:
    allowed = {cause.value: cause for cause in EndCause}
    for word, meaning in said.items():
        if not isinstance(meaning, str) or meaning not in allowed:
            raise MappingError(
                f"{_key('states', word)} is {shown(repr(meaning))}; allowed are {', '.join(sorted(allowed))}"
            )
    return MappingProxyType({word.strip().casefold(): allowed[meaning] for word, meaning in said.items()})


def _clock(content: Mapping[str, Any]) -> tuple[bool, float | None]:
    clock = content.get("clock", "utc")
    if clock not in {"utc", "relative"}:
        raise MappingError(f"clock is {shown(repr(clock))}; allowed are relative, utc")
    if "origin" not in content:
        return clock == "relative", None
    if clock == "relative":
        raise MappingError("origin and clock = 'relative' are at odds: times with a known origin are utc")
    try:
        return False, parse_stamp(content["origin"], None).epoch_s
    except ValueError as error:
        raise MappingError(f"origin: {shown(error)}; a stamp with an offset is needed") from error


def _zone(content: Mapping[str, Any]) -> ZoneInfo | None:
    if "zone" not in content:
        return None
    try:
        return zone(content["zone"])
    except ValueError as error:
        raise MappingError(f"zone: {shown(error)}") from error


def _delimiter(content: Mapping[str, Any]) -> str | None:
    found: str | None = content.get("delimiter")
    if found is not None and (len(found) != 1 or found in '"\r\n\0'):
        raise MappingError(f"delimiter is {shown(repr(found))}; one character is allowed")
    return found


def _facts(said: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(json.loads(json.dumps(dict(said))))
    except TypeError as error:
        raise MappingError("facts are texts, numbers, truth values and lists of them") from error
