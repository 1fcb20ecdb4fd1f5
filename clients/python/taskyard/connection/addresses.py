"""Addresses of servers: one or several, which are well formed, which ask for TLS, and which stay on this machine."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

HTTPS: Final = "https://"
WITH_SCHEME: Final = re.compile(r"(unix|unix-abstract|dns|ipv4|ipv6|vsock|xds):.+")
"""Addresses that gRPC accepts beside `HOST:PORT`."""
ON_THIS_MACHINE: Final = ("unix:", "unix-abstract:")
LISTS: Final = ("ipv4:", "ipv6:")
"""The schemes of IP addresses, of which each stands before one or more."""
RESOLVED: Final = ("dns:///", "dns:")
"""The forms of `dns` that ask the resolver of this machine, the longer one first."""


def split_addresses(text: str) -> tuple[tuple[str, ...], bool]:
    """Split the addresses of servers that do the same work, of which any will do.

    Args:
        text: One address, or several separated by commas. `https://` before the first holds for all.

    Returns:
        The addresses without `https://`, each once, and whether they ask for TLS.

    Raises:
        ValueError: An address is malformed, or `https://` stands before a later one alone.
    """
    with_https = text.startswith(HTTPS)
    addresses: dict[str, None] = {}
    scheme = ""
    for part in map(str.strip, text.split(",")):
        address = part.removeprefix(HTTPS)
        if part.startswith(HTTPS) and not with_https:
            raise ValueError(f"https:// stands before the first address or before none, is {text!r}")
        # gRPC reads `ipv4:1.2.3.4,5.6.7.8` as a list: each part is an address of that scheme.
        if scheme and _is_ip(address):
            address = scheme + address
        scheme = next((each for each in LISTS if address.startswith(each)), "")
        check_address(address)
        if with_https and WITH_SCHEME.fullmatch(address):
            raise ValueError(f"must be HOST:PORT or https://HOST:PORT, is {HTTPS + address!r}")
        addresses[address] = None
    return tuple(addresses), with_https


def check_address(address: str) -> None:
    """Check an address before gRPC tries it without end.

    Args:
        address: The address of one server, without `https://`.

    Raises:
        ValueError: The address is malformed.
    """
    host, _, port = address.rpartition(":")
    is_host_and_port = re.fullmatch(r"[^/\s]+", host) is not None and port.isdecimal() and 0 < int(port) < 65536
    if not is_host_and_port and not WITH_SCHEME.fullmatch(address):
        raise ValueError(f"must be HOST:PORT or https://HOST:PORT, is {address!r}")


def is_local(address: str) -> bool:
    """Say whether what is sent to an address surely stays on this machine.

    Args:
        address: A well-formed address.

    Returns:
        Whether it is a unix socket, or names addresses of the loopback interface alone. False where that is not
        certain, as for a name other than `localhost`.
    """
    if address.startswith(ON_THIS_MACHINE):
        return True
    for scheme in (*LISTS, *RESOLVED):
        if address.startswith(scheme):
            return _is_loopback(address.removeprefix(scheme))
    return not WITH_SCHEME.fullmatch(address) and _is_loopback(address)


def _is_ip(text: str) -> bool:
    """True if this is an IP address, perhaps with a port."""
    bracketed = re.fullmatch(r"\[([0-9a-fA-F:.]+)\](:[0-9]+)?", text)
    for host in (bracketed[1],) if bracketed else (text, text.rpartition(":")[0]):
        try:
            ipaddress.ip_address(host)
        except ValueError:
            continue
        return True
    return False


def _is_loopback(host_and_port: str) -> bool:
    """True if `HOST:PORT` or `HOST` is `localhost` or an address of loopback, read as strictly as can be."""
    bracketed = re.fullmatch(r"\[([0-9a-fA-F:.]+)\](:[0-9]+)?", host_and_port)
    plain = re.fullmatch(r"([^:\[\]]+)(:[0-9]+)?", host_and_port)
    match = bracketed or plain
    if match is None:
        # gRPC takes `::1:50051` for one address of IPv6 without a port.
        return False
    if match[1].lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(match[1]).is_loopback
    except ValueError:
        return False
