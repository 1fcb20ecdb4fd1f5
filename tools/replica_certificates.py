#!/usr/bin/env python
"""Makes the certificates of replicas, in one folder: `tools/replica_certificates.py FOLDER NAME...`.

    replicas-ca.pem            the authority of replicas, and of nothing else: `replicas.ca`
    NAME.pem, NAME.key         of each replica, as server and as client: `replicas.cert`, `replicas.key`

What is there already stays. Only the user who runs it can read the folder.
"""

import sys
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from yard_certificates import Authority, private

AUTHORITY: Final = "replicas-ca"
URI: Final = "spiffe://taskyard/gateway/"


def main() -> None:
    """Make what is missing."""
    folder, *names = sys.argv[1:]
    make_replica_certificates(Path(folder).resolve(), names)


def make_replica_certificates(folder: Path, names: list[str]) -> None:
    """Make an authority in this folder, and a certificate for each of these replicas, unless they are there."""
    authority = Authority(private(folder), AUTHORITY)
    for name in names:
        uri: list[x509.GeneralName] = [x509.UniformResourceIdentifier(URI + name)]
        authority.sign(folder / name, uri, ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


if __name__ == "__main__":
    main()
