"""The folder of `taskyard up --secure FOLDER`: what TLS, roles and an audit log need, made at the first start.

    ca.pem                     the authority: give it to clients
    server.pem, server.key     for the names of this machine, and those that are given
    operator.pem, operator.key a client certificate with the role operator, for the gateway
    admin.token                a token with the role admin
    metrics.token              the token of Prometheus
    taskyard.json              the settings; edit them as you like
    replicas/ca.pem            with `replicas.advertise`, the authority of replicas, and of nothing else
    replicas/NAME/             replica.pem and replica.key of each, as server and as client, and its audit.log

What is there stays, but certificates are made anew within a month of their end, and for other names. Only the user who
runs the server can read the folder. Replicas on one store share it, and may start at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from taskyard_server.cli.failure import Failure
from taskyard_server.gateway.envoy_secrets import GATEWAYS
from taskyard_server.net.authority import Authority, write
from taskyard_server.net.exposure import is_ip
from taskyard_server.settings.config import ConfigError, Settings
from taskyard_server.settings.config_sources import SEVERAL_VARIABLES, load

NAME: Final = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
SETTINGS: Final = "taskyard.json"
ADMIN_TOKEN: Final = "admin.token"
METRICS_TOKEN: Final = "metrics.token"
AUDIT: Final = "audit.log"
REPLICAS: Final = "replicas"
OWN: Final = "replica"
OPERATOR: Final = "spiffe://taskyard/operators/local"


@dataclass(frozen=True, slots=True)
class SecureFolder:
    """The settings of a folder, the flags that come after them, and the admin token if it was made just now."""

    authority: Path
    config: Path
    flags: dict[str, Any]
    new_token: str | None


def secure_folder(folder: Path, names: Iterable[str] = (), flags: dict[str, Any] | None = None) -> SecureFolder:
    """Make what is missing, with a certificate for `names` too. `flags` are those of the start. Raises `Failure`."""
    folder = folder.resolve()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        with _alone(folder):
            config = folder / SETTINGS
            if not config.exists():
                write(config, json.dumps(_settings(folder), indent=2).encode() + b"\n")
            settings = load(config, flags or {}).settings
            _make_certificates(folder, names, settings)
            had = (folder / ADMIN_TOKEN).exists()
            _make_token(folder / METRICS_TOKEN)
            # Who gives a token by the environment needs no other one.
            if not _has_admin_token():
                _make_token(folder / ADMIN_TOKEN)
            secured = secured_flags(folder, flags or {})
    except ConfigError as error:
        raise Failure(str(error)) from None
    except (OSError, ValueError) as error:
        raise Failure(f"--secure {folder}: {error}") from None
    return SecureFolder(folder / "ca.pem", config, secured, None if had else secured.get("auth", {}).get("adminToken"))


def secured_flags(folder: Path, flags: dict[str, Any]) -> dict[str, Any]:
    """The flags of a start, with those that the files of a folder stand for. Raises `OSError` and `ConfigError`."""
    secured = dict(flags)
    if (path := folder / METRICS_TOKEN).exists():
        secured["metricsToken"] = path.read_text().strip()
    if not _has_admin_token() and (path := folder / ADMIN_TOKEN).exists():
        secured["auth"] = {"adminToken": path.read_text().strip()}
    settings = load(folder / SETTINGS, flags).settings
    if settings.replicas.advertise is not None:
        own = folder / REPLICAS / settings.replicas.name
        if settings.replicas.cert is None:
            pair = {"cert": f"{own / OWN}.pem", "key": f"{own / OWN}.key", "ca": str(folder / REPLICAS / "ca.pem")}
            secured["replicas"] = {**flags.get("replicas", {}), **pair}
        # Two processes cannot rotate one file.
        if settings.audit.file == folder.resolve() / AUDIT:
            secured["audit"] = {"file": str(own / AUDIT)}
    return secured


def _has_admin_token() -> bool:
    """True if the environment has one, by any of its variables."""
    return any(name in os.environ for name in SEVERAL_VARIABLES["auth.adminToken"])


def certify_replica(folder: Path, name: str) -> None:
    """Make an authority of replicas in a folder, and `NAME/replica.pem` and `.key`, unless they are there.

    Give the folder to nothing else: who has a certificate of this authority is believed whatever it says of callers.
    """
    for each in (folder, folder / name):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    uri = x509.UniformResourceIdentifier(f"{GATEWAYS}{name}")
    usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    Authority(folder).sign(folder / name / OWN, [uri], *usages)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Only one process at a time is within."""
    with open(os.open(folder / ".lock", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make_certificates(folder: Path, names: Iterable[str], settings: Settings) -> None:
    authority = Authority(folder)
    served = {"localhost", "127.0.0.1", "::1", *names}
    if (replica := settings.replicas).advertise is None:
        served.add(socket.gethostname())
    # Else the certificate is that of all replicas, each of which would make it anew with its own name.
    elif replica.cert is None:
        certify_replica(folder / REPLICAS, replica.name)
    authority.sign(folder / "server", [_name(each) for each in sorted(served)], ExtendedKeyUsageOID.SERVER_AUTH)
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
        "audit": {"file": str(folder / AUDIT)},
    }
