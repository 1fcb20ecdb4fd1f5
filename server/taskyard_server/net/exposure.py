"""Which listeners other machines can reach, and what has to be set before they may (docs/operate/security.md)."""

import socket
from ipaddress import ip_address

from taskyard_server.settings.config import Settings

LOOPBACK = "localhost"


def exposed(settings: Settings) -> list[str]:
    """The reasons not to listen as these settings say: a line for each listener, which names what to set."""
    needs = [("grpc", settings.grpc, _missing_for_grpc(settings))]
    if settings.gateway:
        needs.append(("rest", settings.rest, _missing_for_rest(settings)))
    needs.append(("metrics", settings.metrics, _missing_for_metrics(settings)))
    return [
        f"{name}: {address} can be reached from other machines: set {', '.join(missing)}, "
        "or listen on 127.0.0.1, or pass --insecure"
        for name, address, missing in needs
        if missing and not is_loopback(address)
    ]


def authentication_is_on(settings: Settings) -> bool:
    """True if a call needs a credential."""
    return settings.auth.is_on(settings.tls)


def is_loopback(address: str) -> bool:
    """True if nobody but this machine can reach HOST:PORT. A name that cannot be resolved counts as reachable."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host == LOOPBACK:
        return True
    try:
        found = {host} if is_ip(host) else {str(each[4][0]) for each in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False
    return all(ip_address(each.partition("%")[0]).is_loopback for each in found)


def is_ip(host: str) -> bool:
    """True if a host is an address, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _missing_for_grpc(settings: Settings) -> list[str]:
    # With a certificate authentication is on.
    return [] if settings.tls.cert is not None else ["tls.cert", "tls.key"]


def _missing_for_rest(settings: Settings) -> list[str]:
    missing = [] if settings.gateway_tls.cert is not None else ["gatewayTls.cert", "gatewayTls.key"]
    return missing if authentication_is_on(settings) else [*missing, "auth.required"]


def _missing_for_metrics(settings: Settings) -> list[str]:
    missing = [] if settings.metrics_token is not None else ["metricsToken"]
    # It has the certificate of gRPC.
    return missing if settings.tls.cert is not None else [*missing, "tls.cert", "tls.key"]
