#!/usr/bin/env python
"""Makes the certificates of replicas, in one folder: `tools/replica_certificates.py FOLDER NAME...`.

    ca.pem                     the authority of replicas, and of nothing else: `replicas.ca`
    NAME.pem, NAME.key         of each replica, as server and as client: `replicas.cert`, `replicas.key`

What is there already stays. Give the folder to nothing else: who gets a certificate of this authority with the URI of a
gateway is believed whatever it says of callers. Only the user who runs it can read the folder.
"""

import sys
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from taskyard_server.net.authority import Authority

URI: Final = "spiffe://taskyard/gateway/"


def main() -> None:
    """Make what is missing."""
    folder, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    authority = Authority(folder)
    for name in names:
        uri: list[x509.GeneralName] = [x509.UniformResourceIdentifier(URI + name)]
        authority.sign(folder / name, uri, ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


if __name__ == "__main__":
    main()
