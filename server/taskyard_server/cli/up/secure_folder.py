"""The folder of `taskyard up --secure FOLDER`: what TLS, roles and an audit log need, made at the first start.

    ca.pem                     the authority: give it to clients
    server.pem, server.key     for the names of this machine, and those that are given
    operator.pem, operator.key a client certificate with the role operator, for the gateway
    admin.token                a token with the role admin
    metrics.token              the token of Prometheus
    taskyard.json              the settings; edit them as you like

What is there stays, but certificates are made anew within a month of their end, and for other names. Only the user who
runs the server can read the folder.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from taskyard_server.cli.failure import Failure
from taskyard_server.net.authority import Authority, write
from taskyard_server.net.exposure import is_ip

NAME: Final = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
SETTINGS: Final = "taskyard.json"
ADMIN_TOKEN: Final = "admin.token"
METRICS_TOKEN: Final = "metrics.token"
OPERATOR: Final = "spiffe://taskyard/operators/local"


@dataclass(frozen=True, slots=True)
class SecureFolder:
    """The settings of a folder, the flags that come after them, and the admin token if it was made just now."""

    authority: Path
    config: Path
    flags: dict[str, Any]
    new_token: str | None


def secure_folder(folder: Path, names: Iterable[str] = ()) -> SecureFolder:
    """Make what is missing, with a certificate for `names` too. Raises `Failure`."""
    folder = folder.resolve()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        _make_certificates(folder, names)
        config = folder / SETTINGS
        if not config.exists():
            write(config, json.dumps(_settings(folder), indent=2).encode() + b"\n")
        had = (folder / ADMIN_TOKEN).exists()
        _make_token(folder / METRICS_TOKEN)
        # Who gives a token by the environment needs no other one.
        if "TASKYARD_ADMIN_TOKEN" not in os.environ:
            _make_token(folder / ADMIN_TOKEN)
        flags = secured_flags(folder)
    except (OSError, ValueError) as error:
        raise Failure(f"--secure {folder}: {error}") from None
    return SecureFolder(folder / "ca.pem", config, flags, None if had else flags.get("auth", {}).get("adminToken"))


def secured_flags(folder: Path) -> dict[str, Any]:
    """The flags that the tokens of a folder stand for, as far as they are there. Raises `OSError`."""
    flags: dict[str, Any] = {}
    if (path := folder / METRICS_TOKEN).exists():
        flags["metricsToken"] = path.read_text().strip()
    if "TASKYARD_ADMIN_TOKEN" not in os.environ and (path := folder / ADMIN_TOKEN).exists():
        flags["auth"] = {"adminToken": path.read_text().strip()}
    return flags


def _make_certificates(folder: Path, names: Iterable[str]) -> None:
    authority = Authority(folder)
    served = sorted({"localhost", "127.0.0.1", "::1", socket.gethostname(), *names})
    authority.sign(folder / "server", [_name(each) for each in served], ExtendedKeyUsageOID.SERVER_AUTH)
    authority.sign(folder / "operator", [x509.UniformResourceIdentifier(OPERATOR)], ExtendedKeyUsageOID.CLIENT_AUTH)


def _name(text: str) -> x509.GeneralName:
    if is_ip(text):
        return x509.IPAddress(ip_address(text))
    if not NAME.fullmatch(text):
        raise ValueError(f"{text!r} is neither the name of a machine nor an address")
    return x509.DNSName(text)


def _make_token(path: Path) -> None:
    if not path.exists():
        write(path, f"{secrets.token_urlsafe(32)}\n".encode())


def _settings(folder: Path) -> dict[str, object]:
    """The settings of a yard that keeps all it has in this folder."""
    pair = {"cert": str(folder / "server.pem"), "key": str(folder / "server.key")}
    return {
        "store": {"url": f"sqlite:///{folder}/yard.db"},
        "auth": {"required": True, "certificates": [{"uri": OPERATOR, "grants": [{"role": "operator"}]}]},
        "tls": pair,
        "gatewayTls": {**pair, "clientCa": str(folder / "ca.pem")},
        "audit": {"file": str(folder / "audit.log")},
    }
