"""What the doctor says of certificates, of secrets that others can read, and of who may call."""

import tempfile
from datetime import timedelta

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from taskyard_server.cli.doctor.certificates import certificates
from taskyard_server.cli.doctor.envoy import envoy
from taskyard_server.cli.doctor.protection import protection
from tests.certificates import Authority
from tests.cli.doctor.yards import ill, only, told, yard

URI = "spiffe://taskyard/gateway/one"


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def tls(authority, tmp_path):
    """Settings with a certificate that is made with these arguments."""

    def make(section="tls", **how):
        cert, key = authority.leaf(**how).write(tmp_path, section)
        return {section: {"cert": str(cert), "key": str(key)}}

    return make


@pytest.fixture
def replica(authority, tmp_path):
    """Settings of the replica `one`, with a certificate that is made with these arguments."""

    def make(signer=authority, **how):
        cert, key = signer.leaf(**({"uris": [URI]} | how)).write(tmp_path, "replica")
        files = {"cert": str(cert), "key": str(key), "ca": str(authority.write(tmp_path))}
        return {"replicas": {"name": "one", "advertise": "127.0.0.1:4444", **files}}

    return make


def test_certificates_that_fit_are_well(tls, replica):
    settings = tls() | tls("gatewayTls") | replica()
    found = told(certificates, yard(settings))
    assert {status for status, _ in found} == {"ok"}
    assert [text.partition(":")[0] for _, text in found] == [
        *("certificate tls", "certificate gatewayTls", "certificate replicas", "authorities of replicas")
    ]
    assert found[0][1].endswith("is valid for 30 days, for localhost, 127.0.0.1, ::1")
    assert found[2][1].endswith(URI)


def test_without_tls_there_is_nothing_to_say():
    assert told(certificates, yard({})) == []


def test_a_key_that_does_not_fit_is_a_failure(tls, authority, tmp_path):
    settings = tls()
    authority.leaf().write(tmp_path, "other")
    (tmp_path / "tls.key").write_bytes((tmp_path / "other.key").read_bytes())
    found = only(certificates(yard(settings)))
    assert (found.status, found.todo.startswith("put the key there that belongs")) == ("failure", True)
    assert found.seen == f"tls.key: {tmp_path}/tls.key: does not belong to the certificate in {tmp_path}/tls.pem"


def test_a_file_that_is_not_there_is_a_failure(tmp_path):
    found = only(certificates(yard({"gatewayTls": {"cert": f"{tmp_path}/no.pem", "key": f"{tmp_path}/no.key"}})))
    assert (found.check, found.todo) == ("certificate gatewayTls", "put it there, or correct the setting")
    assert only(certificates(yard({"tls": {"cert": "/x"}}))).seen == "tls.key: is missing; tls needs cert and key"


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ({"valid_until": -timedelta(hours=1)}, "failure", "has expired on"),
        ({"valid_from": timedelta(hours=1)}, "failure", "is not valid before"),
        ({"valid_until": timedelta(days=5, hours=1)}, "warning", "ends in 5 days"),
        ({"names": ["yard.example"], "addresses": []}, "warning", "it is for yard.example, and not for 127.0.0.1"),
        ({"names": [], "addresses": []}, "failure", "it holds no name of a host"),
    ],
)
def test_what_callers_would_refuse_is_told(tls, how, status, words):
    found = only(certificates(yard(tls(**how))))
    assert (found.status, words in found.seen) == (status, True), found


def test_a_name_with_a_star_is_for_all_hosts_of_its_domain(tls):
    settings = tls(names=["*.example"], addresses=[]) | {"grpc": "yard.example:4711"}
    assert not ill(certificates(yard(settings)))


def test_a_chain_in_which_one_has_not_signed_the_one_before_is_a_failure(tls, tmp_path):
    settings = tls()
    with (tmp_path / "tls.pem").open("ab") as file:
        file.write(Authority("another").cert)
    assert "certificate 1 is not signed by the next one" in only(certificates(yard(settings))).seen


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            {"uris": ["spiffe://taskyard/gateway/two"]},
            "its URI is spiffe://taskyard/gateway/two, and this replica needs",
        ),
        ({"uris": []}, "its URI is missing"),
        ({"signer": Authority("another")}, "no authority of replicas.ca has signed it"),
        ({"usages": [ExtendedKeyUsageOID.SERVER_AUTH]}, "it is not for servers and clients both"),
    ],
)
def test_what_other_replicas_would_refuse_is_a_failure(replica, how, words):
    found = only(certificates(yard(replica(**how))))
    assert (found.status, found.seen.startswith(words)) == ("failure", True), found


def test_files_of_the_executor_that_cannot_be_used_are_a_failure(tmp_path):
    (tmp_path / "ca.pem").write_text("nothing")
    assert only(certificates(yard({"executorCa": f"{tmp_path}/ca.pem"}))).check == "certificate executor"


# Who may call


def test_what_up_refuses_is_a_failure_with_what_to_set():
    found = only(protection(yard({"grpc": "0.0.0.0:4711"})))
    assert (found.status, found.seen) == ("failure", "grpc: 0.0.0.0:4711 can be reached from other machines")
    assert found.todo == "set tls.cert, tls.key, or listen on 127.0.0.1, or pass --insecure"


def test_authentication_is_told():
    def said(**auth):
        (found,) = told(protection, yard({"auth": auth}))
        return found[1]

    assert said() == "authentication: it is off: anyone who reaches the server is admin"
    assert said(adminToken="x" * 20) == "authentication: it is on, by an admin token"
    assert only(protection(yard({"auth": {"required": True}}))).todo == "set auth.adminToken"


def test_keys_and_settings_that_others_can_read_are_warnings(tls, tmp_path):
    settings, file = tls() | {"auth": {"adminToken": "x" * 20}}, tmp_path / "taskyard.json"
    file.touch(0o600)
    (tmp_path / "tls.key").chmod(0o644)
    found = only(protection(yard(settings)))
    assert (found.status, found.todo) == ("warning", f"chmod o-rwx {tmp_path}/tls.key")
    (tmp_path / "tls.key").chmod(0o640)
    sources = {"auth.adminToken": "file"}
    assert not ill(protection(yard(settings, config_file=file, sources=sources)))
    file.chmod(0o604)
    assert only(protection(yard(settings, config_file=file, sources=sources))).check == "secrets"
    assert not ill(protection(yard(settings, config_file=file)))


# The gateway


def test_envoy_takes_the_configuration_of_each_kind(tls, replica):
    for settings in ({}, tls("gatewayTls"), tls() | replica()):
        ((status, text),) = told(envoy, yard(settings))
        assert (status, "takes its configuration" in text) == ("ok", True), text
    assert told(envoy, yard({"gateway": False}))[0][0] == "ok"


def test_an_envoy_that_is_not_there_or_refuses_is_a_failure(monkeypatch, tmp_path):
    found = only(envoy(yard({"rest": "no.such.invalid:4711"})))
    assert (found.status, "not an address" in found.seen) == ("failure", True)
    refusing = tmp_path / "envoy"
    refusing.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "envoy version: x/1.2.3/Clean" || { echo "no good" >&2; exit 1; }'
    )
    monkeypatch.setattr("taskyard_server.cli.doctor.envoy.envoy_binary", lambda: str(refusing))
    assert only(envoy(yard({}))).seen == f"{refusing}: permission denied"
    refusing.chmod(0o755)
    assert only(envoy(yard({}))).seen == "Envoy 1.2.3 refuses its configuration: no good"
    refusing.write_text("#!/bin/sh\nexit 3")
    assert only(envoy(yard({}))).seen == f"{refusing} --version ends with status 3"


def test_without_a_folder_for_temporary_files_the_gateway_cannot_start(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    found = only(envoy(yard({})))
    assert (found.status, found.seen) == ("failure", "no folder for temporary files: no such file or directory")
