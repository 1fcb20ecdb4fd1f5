"""`taskyard up --secure FOLDER` makes what a secure start needs, once (cli/up/secure_folder.py)."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from taskyard_server.cli.failure import Failure
from taskyard_server.cli.up.secure_folder import secure_folder
from taskyard_server.net import authority
from taskyard_server.net.exposure import exposed
from taskyard_server.settings.config import Settings
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
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def served_names(folder: Path) -> x509.SubjectAlternativeName:
    return certificate(folder / "server.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def replica(folder: Path, name: str, *names: str) -> tuple[Settings, str | None]:
    """The settings of a replica that starts with a folder, and the admin token if it was shown."""
    flags: dict[str, Any] = {"replicas": {"name": name, "advertise": f"{name}.example:50052"}}
    secure = secure_folder(folder, names, {**EVERYWHERE, "store": {"url": "postgresql://db/yard"}, **flags})
    return LiveConfig(secure.config, secure.flags).settings, secure.new_token


def test_what_it_makes_is_for_its_owner_alone(folder: Path) -> None:
    secure_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    replica(folder, "a")
    assert {path.name for path in folder.rglob("*") if path.stat().st_mode & 0o077} == set()


def test_with_it_a_server_may_listen_everywhere(folder: Path) -> None:
    secure = secure_folder(folder, flags=EVERYWHERE)
    settings = LiveConfig(secure.config, secure.flags).settings
    assert settings.grpc == EVERYWHERE["grpc"]
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


@pytest.mark.parametrize("variable", ["TASKYARD_ADMIN_TOKEN", "TASKYARD_AUTH__ADMIN_TOKEN"])
def test_an_admin_token_of_the_environment_is_the_only_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, token := "t" * 32)
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


OF_REPLICAS = ("ca.pem", "ca.key", "a/replica.pem", "a/replica.key")


@pytest.mark.parametrize(
    "name", ["ca.pem", "ca.key", "server.pem", "server.key", *(f"replicas/{name}" for name in OF_REPLICAS)]
)
def test_a_file_that_is_something_else_is_named(folder: Path, name: str) -> None:
    replica(folder, "a")
    (folder / name).write_text("something else")
    before = contents(folder)
    with pytest.raises(Failure, match=rf"--secure {folder}: {folder}/{name} is no (certificate|key)"):
        replica(folder, "a")
    assert contents(folder) == before


@every_case("name", ["", "a b", "https://yard", "*", "a..b"])
def test_what_is_no_name_of_a_machine_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(Failure, match="is neither the name of a machine nor an address"):
        secure_folder(folder, [name])


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match="--secure"):
        secure_folder(tmp_path / "file")


def test_settings_that_are_wrong_are_named_before_anything_else_is_made(folder: Path) -> None:
    folder.mkdir()
    (folder / "taskyard.json").write_text('{"grcp": "x"}')
    with pytest.raises(Failure, match="grcp: unknown key, did you mean grpc"):
        secure_folder(folder)
    assert contents(folder).keys() == {".lock", "taskyard.json"}


# Replicas


def test_replicas_share_all_but_what_they_show_to_each_other_and_their_audit_logs(folder: Path) -> None:
    (a, token), (b, of_b) = replica(folder, "a", "yard.example"), replica(folder, "b", "yard.example")
    assert (token is not None, of_b, exposed(a)) == (True, None, [])
    assert (a.replicas.name, a.replicas.advertise) == ("a", "a.example:50052")
    assert a.replicas.ca == b.replicas.ca != folder / "ca.pem"
    assert a.audit.file != b.audit.file
    assert {a.audit.file, b.audit.file} == {folder / "replicas" / name / "audit.log" for name in "ab"}
    same = {"replicas", "audit"}
    assert a.model_dump(exclude=same) == b.model_dump(exclude=same)


def test_the_certificate_of_a_replica_is_of_their_own_authority_and_has_its_uri_alone(folder: Path) -> None:
    settings, _ = replica(folder, "a")
    assert settings.replicas.cert is not None
    assert settings.replicas.ca is not None
    made = certificate(settings.replicas.cert)
    made.verify_directly_issued_by(certificate(settings.replicas.ca))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.UniformResourceIdentifier("spiffe://taskyard/gateway/a")]
    assert set(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == {
        x509.ExtendedKeyUsageOID.SERVER_AUTH,
        x509.ExtendedKeyUsageOID.CLIENT_AUTH,
    }


def test_a_replica_that_joins_or_starts_again_changes_nothing_of_the_others(folder: Path) -> None:
    replica(folder, "a", "yard.example")
    before = contents(folder)
    replica(folder, "b", "yard.example")
    replica(folder, "a", "yard.example")
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {"replicas/b/replica.pem", "replicas/b/replica.key"}


def test_certificates_and_an_audit_log_of_ones_own_are_kept(folder: Path) -> None:
    config = secure_folder(folder).config
    mine = {"replicas": {"cert": "/mine/a.pem", "key": "/mine/a.key", "ca": "/mine/ca.pem"}}
    config.write_text(json.dumps({**json.loads(config.read_text()), **mine, "audit": {"file": "/mine/audit.log"}}))
    settings, _ = replica(folder, "a")
    assert settings.replicas.cert == Path("/mine/a.pem")
    assert settings.audit.file == Path("/mine/audit.log")
    assert not (folder / "replicas").exists()


def test_a_replica_is_found_by_variables_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKYARD_REPLICAS__NAME", "a")
    monkeypatch.setenv("TASKYARD_REPLICAS__ADVERTISE", "a.example:50052")
    secure = secure_folder(folder)
    settings = LiveConfig(secure.config, secure.flags).settings
    assert (settings.replicas.name, settings.replicas.advertise) == ("a", "a.example:50052")
    assert settings.replicas.cert == folder / "replicas/a/replica.pem"


START = """
import sys
from pathlib import Path
from taskyard_server.cli.up.secure_folder import secure_folder

flags = {"replicas": {"name": sys.argv[2], "advertise": "127.0.0.1:50052"}}
print("ready", flush=True)
sys.stdin.readline()
secure = secure_folder(Path(sys.argv[1]), ["yard.example"], flags)
print(secure.new_token or "", secure.flags["auth"]["adminToken"], Path(secure.flags["replicas"]["ca"]).read_text())
"""


def test_several_may_start_at_once(folder: Path) -> None:
    running = [
        subprocess.Popen(
            (sys.executable, "-c", START, folder, name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={key: value for key, value in os.environ.items() if not key.startswith("TASKYARD_")},
        )
        for name in "abcd"
    ]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in running:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    said = [each.communicate()[0].split(" ", 2) for each in running]
    assert [each.returncode for each in running] == [0] * 4
    shown, used, authorities = ({each[field] for each in said} for field in range(3))
    (token,) = used
    assert shown == {"", token}
    assert [each[0] for each in said].count(token) == 1
    assert len(authorities) == 1
    replicas = certificate(folder / "replicas/ca.pem")
    for name in "abcd":
        certificate(folder / f"replicas/{name}/replica.pem").verify_directly_issued_by(replicas)
    certificate(folder / "server.pem").verify_directly_issued_by(certificate(folder / "ca.pem"))
