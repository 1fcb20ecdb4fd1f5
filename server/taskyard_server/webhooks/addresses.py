"""Which addresses deliveries of webhooks may go to (docs/rules.md, Webhooks)."""

from __future__ import annotations

import ipaddress
from typing import Final

GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class AddressRefused(Exception):
    """The URL leads to a loopback, private, link-local or otherwise special address."""


def is_public(address: str) -> bool:
    """True if an address is globally reachable; so must an IPv4 address be that an IPv6 one embeds."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo or (None, None))[1]
        if ip in NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return inner.is_global and not inner.is_multicast
        if ip not in GLOBAL_UNICAST:
            return False
    return ip.is_global and not ip.is_multicast
