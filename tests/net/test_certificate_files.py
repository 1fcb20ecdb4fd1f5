"""The certificate files of a listener: what is refused, and when new ones are in force (certificates.py)."""

from collections.abc import Iterator, MutableMapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from taskyard_server.net.certificates import PATIENCE_SECS, CertificateError, CertificateFiles, certificate_files
from taskyard_server.settings.security import TlsSettings
from tests.certificates import Authority

AUTHORITY = Authority()


@pytest.fixture
def log_lines() -> Iterator[list[MutableMapping[str, Any]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    cert, key = AUTHORITY.leaf().write(tmp_path)
    files = CertificateFiles("tls", cert, key, AUTHORITY.write(tmp_path))
    files.load()
    return files


def refusal(files: CertificateFiles) -> str:
    with pytest.raises(CertificateError) as refused:
        files.load()
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(("name", "setting"), [("leaf.pem", "cert"), ("leaf.key", "key"), ("ca.pem", "clientCa")])
def test_a_file_that_cannot_be_read_is_named_with_its_setting(
    files: CertificateFiles, tmp_path: Path, name: str, setting: str
) -> None:
    path = tmp_path / name
    path.unlink()
    assert refusal(files) == f"tls.{setting}: {path}: no such file or directory"
    path.mkdir()
    assert refusal(files) == f"tls.{setting}: {path}: is not a file"
    path.rmdir()
    for garbage in (b"", b"\xff\x00", b"-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n"):
        path.write_bytes(garbage)
        what = "private key" if setting == "key" else "certificate"
        assert refusal(files) == f"tls.{setting}: {path}: holds no {what} in PEM, or a broken one"
    path.write_bytes(b"x" * (2 << 20))
    assert refusal(files) == f"tls.{setting}: {path}: is too long"


def test_a_key_of_another_certificate_is_refused(files: CertificateFiles) -> None:
    files.key.write_bytes(AUTHORITY.leaf().key)
    assert refusal(files) == f"tls.key: {files.key}: does not belong to the certificate in {files.cert}"


def test_an_encrypted_key_is_refused_and_nothing_asks_for_a_password(files: CertificateFiles) -> None:
    leaf = AUTHORITY.leaf()
    files.cert.write_bytes(leaf.cert)
    files.key.write_bytes(leaf.encrypted_key(b"secret"))
    assert refusal(files) == f"tls.key: {files.key}: is encrypted; the server needs one without a password"


@pytest.mark.parametrize("key", [Ed25519PrivateKey.generate(), generate_private_key(65_537, 1024)])
def test_a_key_that_envoy_does_not_take_is_refused_for_both_listeners(files: CertificateFiles, key: Any) -> None:
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert refusal(files).endswith("must be RSA of 2048 bits or more, or P-256, P-384 or P-521")


def test_half_a_pair_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pem"
    assert certificate_files("tls", TlsSettings()) is None
    for settings, missing in (
        (TlsSettings(cert=path), "key"),
        (TlsSettings(key=path), "cert"),
        (TlsSettings(client_ca=path), "cert"),
        (TlsSettings(cert=path, client_ca=path), "key"),
    ):
        with pytest.raises(CertificateError, match=rf"^tls\.{missing}: is missing; tls needs cert and key$"):
            certificate_files("tls", settings)


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ({"valid_until": -timedelta(hours=1)}, "it has expired at "),
        ({"valid_from": timedelta(hours=1)}, "it is not valid before "),
    ],
)
def test_a_certificate_that_is_not_valid_now_is_taken_with_a_warning(
    files: CertificateFiles, tmp_path: Path, log_lines: list[Any], times: Any, why: str
) -> None:
    AUTHORITY.leaf(**times).write(tmp_path)
    files.load()
    (line,) = log_lines
    assert (line["event"], line["log_level"], line["file"]) == ("certificate_not_valid", "warning", str(files.cert))
    assert line["why"].startswith(why)


def test_files_that_nobody_touched_are_not_read_again(files: CertificateFiles, log_lines: list[Any]) -> None:
    before = files.current
    assert not files.look(1.0)
    assert files.current is before
    assert log_lines == []


def test_the_same_content_written_anew_is_no_news(files: CertificateFiles, log_lines: list[Any]) -> None:
    before = files.current
    files.cert.write_bytes(before.cert)
    assert not files.look(1.0)
    assert files.current is before
    assert log_lines == []


def test_a_new_pair_is_in_force_once_both_files_are_there(files: CertificateFiles, log_lines: list[Any]) -> None:
    before, leaf = files.current, AUTHORITY.leaf()
    files.cert.write_bytes(leaf.cert)
    assert not files.look(1.0)
    assert files.current is before
    files.key.write_bytes(leaf.key)
    assert files.look(1.5)
    assert (files.current.cert, files.current.key) == (leaf.cert, leaf.key)
    assert [line["event"] for line in log_lines] == ["certificate_replaced"]


def test_a_new_authority_of_clients_is_news(files: CertificateFiles, tmp_path: Path) -> None:
    authority = Authority()
    authority.write(tmp_path)
    assert files.look(1.0)
    assert files.current.client_ca == authority.cert


def test_what_stays_unusable_is_logged_once_and_the_old_stays(files: CertificateFiles, log_lines: list[Any]) -> None:
    before = files.current
    files.key.unlink()
    for tenths in range(100):
        assert not files.look(1 + tenths / 10)
    assert files.current is before
    (line,) = log_lines
    assert (line["event"], line["log_level"]) == ("certificate_not_replaced", "error")
    assert line["error"] == f"tls.key: {files.key}: no such file or directory"


def test_the_patience_begins_anew_with_each_change(files: CertificateFiles, log_lines: list[Any]) -> None:
    files.key.write_bytes(b"x")
    assert not files.look(1.0)
    files.key.write_bytes(b"xy")
    assert not files.look(PATIENCE_SECS)
    assert not files.look(PATIENCE_SECS + 1)
    assert log_lines == []
    assert not files.look(2 * PATIENCE_SECS)
    assert [line["event"] for line in log_lines] == ["certificate_not_replaced"]


def test_links_that_lead_elsewhere_are_followed(files: CertificateFiles, tmp_path: Path) -> None:
    """As certbot and Kubernetes replace certificates."""
    leaf, folder = AUTHORITY.leaf(), tmp_path / "next"
    folder.mkdir()
    cert, key = leaf.write(folder)
    for link, target in ((files.cert, cert), (files.key, key)):
        link.unlink()
        link.symlink_to(target)
    assert files.look(1.0)
    assert files.current.cert == leaf.cert


def test_nothing_shows_the_key(files: CertificateFiles) -> None:
    assert "PRIVATE" not in repr(files.current)
