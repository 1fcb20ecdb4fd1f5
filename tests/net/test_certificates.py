"""The certificates of the tests are what TLS libraries accept, or refuse for the reason that a test names."""

import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from tests.certificates import Authority, Leaf


def test_a_leaf_is_accepted_for_its_names_and_not_for_others(tmp_path: Path) -> None:
    authority = Authority()
    assert handshake(tmp_path, authority, authority.leaf(), "localhost") is None
    assert "Hostname mismatch" in str(handshake(tmp_path, authority, authority.leaf(), "elsewhere"))


def test_a_leaf_of_another_authority_and_an_expired_one_are_refused(tmp_path: Path) -> None:
    authority = Authority()
    assert "unable to get local issuer" in str(handshake(tmp_path, authority, Authority().leaf(), "localhost"))
    expired = authority.leaf(valid_until=-timedelta(hours=1))
    assert "expired" in str(handshake(tmp_path, authority, expired, "localhost"))


def test_uris_are_alternative_names() -> None:
    leaf = Authority().leaf(uris=["spiffe://taskyard/host/h1"], names=(), addresses=())
    certificate = x509.load_pem_x509_certificate(leaf.cert)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://taskyard/host/h1"]


def test_without_any_name_there_is_no_extension() -> None:
    leaf = Authority().leaf(names=(), addresses=())
    with pytest.raises(x509.ExtensionNotFound):
        x509.load_pem_x509_certificate(leaf.cert).extensions.get_extension_for_class(x509.SubjectAlternativeName)


def handshake(folder: Path, authority: Authority, leaf: Leaf, name: str) -> ssl.SSLError | None:
    """A TLS handshake in memory; why the client refuses."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    server.load_cert_chain(*leaf.write(folder))
    client.load_verify_locations(authority.write(folder))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return error
    return None
