#!/usr/bin/env python
"""Makes what a yard with TLS, roles and an audit log needs, in one folder: `tools/secure_yard.py FOLDER`.

`make up-secure` runs it, and then `taskyard up --config FOLDER/taskyard.json`. What is there already stays, but
certificates are made anew within a month of their end. Only the user who runs it can read the folder.

    ca.pem                     the authority: give it to clients
    server.pem, server.key     for localhost, in the names of this machine
    operator.pem, operator.key a client certificate with the role operator, for the gateway
    admin.token                a token with the role admin
    taskyard.json              the settings; edit them as you like
"""

import json
import secrets
import socket
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from yard_certificates import Authority, private, write

OPERATOR: Final = "spiffe://taskyard/operators/local"


def main() -> None:
    """Make what is missing in the folder that the argument names."""
    folder = private(Path(sys.argv[1]).resolve())
    authority = Authority(folder)
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in sorted({"localhost", socket.gethostname()})]
    names += [x509.IPAddress(ip_address(address)) for address in ("127.0.0.1", "::1")]
    authority.sign(folder / "server", names, ExtendedKeyUsageOID.SERVER_AUTH)
    authority.sign(folder / "operator", [x509.UniformResourceIdentifier(OPERATOR)], ExtendedKeyUsageOID.CLIENT_AUTH)
    if not (folder / "admin.token").exists():
        write(folder / "admin.token", f"{secrets.token_urlsafe(32)}\n".encode())
    if not (folder / "taskyard.json").exists():
        write(folder / "taskyard.json", json.dumps(settings(folder), indent=2).encode() + b"\n")


def settings(folder: Path) -> dict[str, object]:
    """The settings of a yard that keeps all it has in this folder."""
    pair = {"cert": str(folder / "server.pem"), "key": str(folder / "server.key")}
    return {
        "store": {"url": f"sqlite:///{folder}/yard.db"},
        "auth": {
            "required": True,
            "certificates": [{"uri": OPERATOR, "grants": [{"role": "operator"}]}],
        },
        "tls": pair,
        "gatewayTls": {**pair, "clientCa": str(folder / "ca.pem")},
        "audit": {"file": str(folder / "audit.log")},
    }


if __name__ == "__main__":
    main()
