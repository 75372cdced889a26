"""A what-if as a command line or a file says it, put into the words of a patch (`domain.changes`)."""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from domain.errors import Fault, InputError, SettingError

Entry = dict[str, Any]

_SPEED: Final = re.compile(r"x([0-9]+(?:\.[0-9]+)?)")
_AMOUNT: Final = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]+)?)(%?)")
_GANG: Final = re.compile(r"(.+):([0-9]+)@([^/]+?)(?:/([0-9.]+[smhd]))?")
_NODES: Final = re.compile(r"([0-9]+)x([0-9]+)(?::(.+))?")
_MOST_EPS: Final = 0.1


@dataclass(frozen=True)
class Flags:
    """What the command line says, each as it was typed."""

    quota: Sequence[str] = ()
    arrivals: Sequence[str] = ()
    gang: Sequence[str] = ()
    leave_out: Sequence[str] = ()
    add_nodes: Sequence[str] = ()
    remove_node: Sequence[str] = ()
    no_lending: Sequence[str] = ()
    policy: str | None = None
    settings: Sequence[str] = ()
    eps: str | None = None

    def changes(self) -> list[Entry]:
        """The entries of a patch.

        Raises:
            SettingError: for a flag that cannot be read; it names the flag.
        """
        found = [_quota(text) for text in self.quota]
        found += [_nodes(text) for text in self.add_nodes]
        if self.remove_node:
            found.append({"kind": "remove_nodes", "nodes": list(self.remove_node)})
        found += self._policy()
        found += [_quiet(text) for text in self.no_lending]
        found += [_arrivals(text) for text in self.arrivals]
        found += [_left_out(text) for text in self.leave_out]
        found += [_gang(text) for text in self.gang]
        return found

    def _policy(self) -> list[Entry]:
        settings = dict(_pair("--set", text) for text in self.settings)
        if self.eps is not None:
            settings["eps"] = _eps(self.eps)
        if self.policy is not None:
            return [{"kind": "policy", "policy": self.policy, "set": settings}]
        return [{"kind": "settings", "set": settings}] if settings else []


def read_scenario(path: Path) -> Entry:
    """A scenario in TOML, or JSON where the file's name ends so: `changes`, and over which time.

    Raises:
        InputError: if it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
        read = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InputError([Fault(str(path), None, "not-a-scenario", str(error))]) from error
    if not isinstance(read, dict) or not isinstance(read.get("changes", []), list):
        message = "a scenario is a table with a list of changes: [[changes]] in TOML"
        raise InputError([Fault(str(path), None, "not-a-scenario", message)])
    return read


def _pair(flag: str, text: str) -> tuple[str, str]:
    key, sign, value = text.rpartition("=")
    if not sign or not key or not value:
        raise SettingError(f"{flag} {text!r} is not of the form NAME=VALUE")
    return key, value


def _quota(text: str) -> Entry:
    pool, said = _pair("--quota", text)
    found = _AMOUNT.fullmatch(said)
    if found is None or (found[3] and not found[1]) or (not found[3] and "." in found[2]):
        raise SettingError(f"--quota {text!r}: the quota is a number of GPUs, +4, -4, +20% or -20%")
    sign = -1 if found[1] == "-" else 1
    if found[3]:
        return {"kind": "quota", "pool": pool, "by_pct": sign * float(found[2])}
    amount = sign * int(found[2])
    return {"kind": "quota", "pool": pool, "by_gpus" if found[1] else "gpus": amount}


def _arrivals(text: str) -> Entry:
    pool, said = _pair("--arrivals", text)
    found = _SPEED.fullmatch(said)
    if found is None:
        raise SettingError(
            f"--arrivals {text!r}: say how many times as many, such as {pool}=x2 or {pool}=x0.5"
        )
    return {"kind": "arrivals", "pool": pool, "times": float(found[1])}


def _gang(text: str) -> Entry:
    found = _GANG.fullmatch(text)
    if found is None:
        raise SettingError(f"--gang {text!r} is not of the form POOL:GPUS@INSTANT or POOL:GPUS@INSTANT/6h")
    entry: Entry = {"kind": "gang", "pool": found[1], "gpus": int(found[2]), "at": _instant(found[3])}
    return entry if found[4] is None else {**entry, "duration": found[4]}


def _quiet(text: str) -> Entry:
    begin, sign, end = text.partition("/")
    if not sign:
        raise SettingError(f"--no-lending {text!r} is not of the form FROM/TO: two instants, or 08:00/18:00")
    if re.fullmatch(r"[0-9]{2}:[0-9]{2}", begin):
        return {"kind": "no_lending", "from": begin, "to": end, "every": "day"}
    return {"kind": "no_lending", "from": _instant(begin), "to": _instant(end)}


def _left_out(text: str) -> Entry:
    kind, sign, name = text.partition(":")
    if sign and kind in ("pool", "user"):
        return {"kind": "leave_out", kind: name}
    return {"kind": "leave_out", "jobs": [job for job in text.split(",") if job]}


def _nodes(text: str) -> Entry:
    found = _NODES.fullmatch(text)
    if found is None:
        raise SettingError(f"--add-nodes {text!r} is not of the form COUNTxGPUS or COUNTxGPUS:POOL")
    entry: Entry = {"kind": "add_nodes", "count": int(found[1]), "num_gpus": int(found[2])}
    return entry if found[3] is None else {**entry, "pool": found[3]}


def _eps(text: str) -> str:
    """A share, or per cent with its sign; a share that large is a slip."""
    number, sign, rest = text.partition("%")
    try:
        share = float(number) / (100.0 if sign else 1.0)
    except ValueError:
        share = -1.0
    if rest or not 0.0 <= share <= 1.0:
        raise SettingError(f"--eps {text!r}: a share in [0, 1] such as 0.005, or 0.5%")
    if not sign and share > _MOST_EPS:
        raise SettingError(f"--eps {text}: a share of {100.0 * share:g} % of all jobs; is {text}% meant?")
    return repr(share)


def _instant(text: str) -> float | str:
    """Seconds where it is a number, else as it is."""
    try:
        return float(text)
    except ValueError:
        return text
