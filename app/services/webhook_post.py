"""One message to one receiver over HTTP: within a deadline, to an address that is allowed, and no further.

The name is looked up once, every address it has must be allowed, and the connection goes to one of these: a
name that is answered differently the second time leads nowhere else. Nothing is followed, and of the answer
nothing but the status is read.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from app.settings import is_loopback
from domain.errors import AntecastError, SettingError

TIMEOUT_S: Final = 10.0

_PORTS: Final = {"http": 80, "https": 443}
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)(?: |\r?\n)")
_READABLE: Final = re.compile(r"[!-~]+")
_MOST_HEAD_BYTES: Final = 16_384
_FIRST_FINAL: Final = 200
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class NotDelivered(AntecastError):  # noqa: N818 - named after what has happened
    """The receiver could not be told; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a message goes.

    Attributes:
        host: name or address, without brackets.
        path: with the query.
    """

    is_https: bool
    host: str
    port: int
    path: str
    host_header: str


def target_of(url: str, *, allows_private: bool) -> Target:
    """Read the address of a receiver.

    Args:
        url: `https://...`; `http://...` to this machine only.
        allows_private: whether private networks and this machine are allowed.

    Raises:
        SettingError: for any other, or an address that is not allowed.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingError(f"the url of the webhook cannot be read: {error}") from error
    host = parts.hostname or ""
    if _READABLE.fullmatch(url) is None or not host:
        raise SettingError("the url of the webhook has to be https://host/path, in ASCII and without spaces")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise SettingError("the url of the webhook must hold no user, no password and no fragment")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise SettingError(
            "the url of the webhook has to be https; http is for this machine only (127.0.0.1)"
        )
    if is_loopback(host) and not allows_private:
        raise SettingError(_refusal(host))
    literal = _literal(host)
    if literal is not None and not _is_allowed(literal, allows_private=allows_private):
        raise SettingError(_refusal(host))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(
        parts.scheme == "https",
        host,
        port or _PORTS[parts.scheme],
        path,
        parts.netloc,
    )


async def post(target: Target, headers: Mapping[str, str], body: bytes, *, allows_private: bool) -> int:
    """Send a message and return the status of the answer.

    Raises:
        NotDelivered: if there is no answer within the deadline, or the address is not allowed.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await _post(target, headers, body, allows_private=allows_private)
    except TimeoutError as error:
        raise NotDelivered(f"no answer within {TIMEOUT_S:g} s") from error
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise NotDelivered(f"{type(error).__name__}: {error}") from error


async def _post(target: Target, headers: Mapping[str, str], body: bytes, *, allows_private: bool) -> int:
    address = await _address_of(target, allows_private=allows_private)
    tls = ssl.create_default_context() if target.is_https else None
    reader, writer = await asyncio.open_connection(
        str(address),
        target.port,
        ssl=tls,
        server_hostname=target.host if tls else None,
        limit=_MOST_HEAD_BYTES,
    )
    try:
        lines = [
            f"POST {target.path} HTTP/1.1",
            f"Host: {target.host_header}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        await writer.drain()
        return await _status(reader)
    finally:
        writer.transport.abort()  # the rest of the answer is nobody's concern


async def _status(reader: asyncio.StreamReader) -> int:
    """The status of the answer, behind those that say that one is coming."""
    left = _MOST_HEAD_BYTES
    while left > 0:
        line = await reader.readuntil(b"\n")
        left -= len(line)
        found = _STATUS.match(line)
        if found is None:
            raise NotDelivered("the answer is no HTTP/1.1")
        if int(found[1]) >= _FIRST_FINAL:
            return int(found[1])
        while left > 0 and line.strip():
            line = await reader.readuntil(b"\n")
            left -= len(line)
    raise NotDelivered("the answer does not begin")


async def _address_of(target: Target, *, allows_private: bool) -> Address:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
    for address in addresses:
        if not _is_allowed(address, allows_private=allows_private):
            raise NotDelivered(_refusal(f"{target.host} ({address})"))
    if not addresses:
        raise NotDelivered(f"{target.host} has no address")
    return addresses[0]


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_allowed(address: Address, *, allows_private: bool) -> bool:
    """Whether messages may go there; addresses that stand for others are those others."""
    address = _meant(address)
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return False  # among them the metadata services of clouds
    return address.is_global or allows_private


def _meant(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1])
        if inner:
            return inner
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _refusal(host: str) -> str:
    return (
        f"webhooks do not go to {host}: it is not on the public internet. Where that is wanted, set "
        "ANTECAST_WEBHOOK_PRIVATE=true (link-local addresses are never allowed)"
    )
