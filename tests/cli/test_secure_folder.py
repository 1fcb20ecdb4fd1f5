"""`taskyard up --secure FOLDER` makes what a secure start needs, once (cli/up/secure_folder.py)."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from taskyard_server.cli.failure import Failure
from taskyard_server.cli.up.secure_folder import secure_folder
from taskyard_server.net import authority
from taskyard_server.net.exposure import exposed
from taskyard_server.settings.live_config import LiveConfig
from tests.cases import every_case

EVERYWHERE = {"grpc": "0.0.0.0:1", "rest": "0.0.0.0:2", "metrics": "0.0.0.0:3"}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASKYARD_ADMIN_TOKEN", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "yard"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def served_names(folder: Path) -> x509.SubjectAlternativeName:
    return certificate(folder / "server.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_what_it_makes_is_for_its_owner_alone(folder: Path) -> None:
    secure_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in folder.iterdir() if path.stat().st_mode & 0o077} == set()


def test_with_it_a_server_may_listen_everywhere(folder: Path) -> None:
    secure = secure_folder(folder)
    settings = LiveConfig(secure.config, {**EVERYWHERE, **secure.flags}).settings
    assert exposed(settings) == []
    assert settings.auth.admin_token is not None
    assert settings.auth.admin_token.get_secret_value() == secure.new_token


def test_a_second_start_keeps_all_and_shows_no_token(folder: Path) -> None:
    first, before = secure_folder(folder), contents(folder)
    second = secure_folder(folder)
    assert contents(folder) == before
    assert (second.flags, second.new_token) == (first.flags, None)
    assert first.new_token == before["admin.token"].decode().strip()


def test_the_settings_are_the_users_to_edit(folder: Path) -> None:
    config = secure_folder(folder).config
    config.write_text(json.dumps({**json.loads(config.read_text()), "shutdownGracePeriodSeconds": 7}))
    again = secure_folder(folder)
    assert LiveConfig(again.config, again.flags).settings.shutdown_grace_period_seconds == 7


def test_an_admin_token_of_the_environment_is_the_only_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKYARD_ADMIN_TOKEN", token := "t" * 32)
    secure = secure_folder(folder)
    settings = LiveConfig(secure.config, secure.flags).settings
    assert settings.auth.admin_token is not None
    assert settings.auth.admin_token.get_secret_value() == token
    assert secure.new_token is None
    assert "admin.token" not in contents(folder)


def test_further_names_are_in_the_certificate_of_the_same_authority(folder: Path) -> None:
    secure_folder(folder)
    before = contents(folder)
    secure_folder(folder, ["yard.example", "192.0.2.7"])
    names = served_names(folder)
    assert {"localhost", "yard.example"} <= set(names.get_values_for_type(x509.DNSName))
    assert ip_address("192.0.2.7") in names.get_values_for_type(x509.IPAddress)
    changed = {name for name, content in contents(folder).items() if before[name] != content}
    assert changed == {"server.pem", "server.key"}


def lost_authority(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / "ca.pem").unlink()


def other_key(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / "server.key").write_bytes((folder / "operator.key").read_bytes())


def eleven_months(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(days=336)

    monkeypatch.setattr(authority, "datetime", Later)


@pytest.mark.parametrize("after", [lost_authority, other_key, eleven_months])
def test_a_certificate_that_no_longer_serves_is_made_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    secure_folder(folder)
    before = certificate(folder / "server.pem")
    after(folder, monkeypatch)
    secure_folder(folder)
    made = certificate(folder / "server.pem")
    made.verify_directly_issued_by(certificate(folder / "ca.pem"))
    assert made.serial_number != before.serial_number


@pytest.mark.parametrize("name", ["ca.pem", "ca.key", "server.pem", "server.key"])
def test_a_file_that_is_something_else_is_named(folder: Path, name: str) -> None:
    secure_folder(folder)
    (folder / name).write_text("something else")
    before = contents(folder)
    with pytest.raises(Failure, match=rf"--secure {folder}: {name} is no (certificate|key)"):
        secure_folder(folder)
    assert contents(folder) == before


@every_case("name", ["", "a b", "https://yard", "*", "a..b"])
def test_what_is_no_name_of_a_machine_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(Failure, match="is neither the name of a machine nor an address"):
        secure_folder(folder, [name])


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match="--secure"):
        secure_folder(tmp_path / "file")
