"""How commands show who calls: options, variables and profiles, and errors in one line."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceServicer, add_TaskServiceServicer_to_server
from taskyard_server.access.tokens import new_secret
from tests.certificates import Authority, replace
from tests.cli.every_command import every_command, options_of


class Doorkeeper(TaskServiceServicer):
    """Lists no tasks, for those whose token it is; ends the streams of `watch` as their token expires."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.tokens: set[str] | None = None
        self.address = ""

    def _admit(self, context: Any) -> None:
        self.seen.append(dict(context.invocation_metadata()).get("authorization", ""))
        if self.tokens is not None and self.seen[-1] not in self.tokens:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "this token is not known")

    def ListTasks(self, request: pb.ListTasksRequest, context: Any) -> pb.ListTasksResponse:  # noqa: N802
        del request
        self._admit(context)
        return pb.ListTasksResponse()

    def WatchTasks(self, request: pb.WatchTasksRequest, context: Any) -> Iterator[pb.WatchTasksResponse]:  # noqa: N802
        del request
        self._admit(context)
        yield pb.WatchTasksResponse(cursor="c")
        if len(self.seen) == 1:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "this token has expired")
        yield pb.WatchTasksResponse(end=pb.WatchEnd(reason=pb.WatchEnd.tasks_ended))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def serve(authority: Authority) -> Iterator[Any]:
    """Starts a server, perhaps with TLS, perhaps for client certificates only."""
    servers = []

    def started(tls: bool = False, asks: bool = False) -> Doorkeeper:
        keeper, server = Doorkeeper(), grpc.server(ThreadPoolExecutor(4))
        add_TaskServiceServicer_to_server(keeper, server)
        leaf = authority.leaf()
        credentials = grpc.ssl_server_credentials([(leaf.key, leaf.cert)], authority.cert if asks else None, asks)
        at = "127.0.0.1:0"
        port = server.add_secure_port(at, credentials) if tls else server.add_insecure_port(at)
        keeper.address = f"127.0.0.1:{port}"
        server.start()
        servers.append(server)
        return keeper

    yield started
    for server in servers:
        server.stop(None)


@pytest.fixture
def token_file(tmp_path):
    return str(replace(tmp_path / "token", b"of-file\n"))


@pytest.fixture
def error_of(anywhere):
    """Runs a command that must fail, and returns the line that it prints."""

    def run(*words):
        failed = anywhere(*words)
        assert (failed.code > 0, failed.out, failed.err.count("\n")) == (True, "", 1)
        return failed.err.removeprefix("taskyard: ").removesuffix("\n")

    return run


OF_THIS_MACHINE = {"host", "up", "store"}
OF_THE_WHOLE_SERVER = {"health", "namespace", "namespaces", "replicas", "token", "tokens", "whoami"}


def test_every_command_takes_the_same_credentials():
    same = {f"--{name}" for name in ("server", "token-file", "ca", "cert", "key", "profile", "insecure")}
    calling = {
        words: options_of(command) for words, command in every_command().items() if words[0] not in OF_THIS_MACHINE
    }
    about_a_namespace = {words for words in calling if words[0] not in OF_THE_WHOLE_SERVER} | {
        ("token", "create"),
        ("tokens", "create"),
    }
    assert {words for words, options in calling.items() if not same <= options} == set()
    assert {words for words, options in calling.items() if "--token" in options} == set()
    assert {words for words, options in calling.items() if "--namespace" in options} == about_a_namespace


def test_a_token_on_the_command_line_is_not_offered(error_of):
    assert error_of("list", "--token", "secret").startswith("No such option: --token")


def test_a_token_comes_from_a_file_or_the_environment(anywhere, serve, token_file, monkeypatch):
    server = serve()
    monkeypatch.setenv("TASKYARD_TOKEN", "of-environment")
    for options in ((), ("--token-file", token_file)):
        assert anywhere("list", "--server", server.address, *options).code == 0
    assert server.seen == ["Bearer of-environment", "Bearer of-file"]


def test_a_profile_says_where_the_server_is_and_who_calls(anywhere, serve, authority, tmp_path, monkeypatch):
    server = serve(tls=True)
    (tmp_path / "taskyard").mkdir()
    authority.write(tmp_path / "taskyard")
    text = f'[profiles.p]\naddress = "https://{server.address}"\nca = "ca.pem"\ntoken = "of-profile"\n'
    replace(tmp_path / "taskyard" / "config.toml", text.encode())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("TASKYARD_SERVER", "127.0.0.1:1")
    assert anywhere("list", "--profile", "p").err == ""
    assert server.seen == ["Bearer of-profile"]


def test_a_client_certificate_is_shown(anywhere, serve, authority, tmp_path):
    server = serve(tls=True, asks=True)
    cert, key = authority.leaf(uris=["spiffe://taskyard/operator"]).write(tmp_path)
    options = ("--ca", str(authority.write(tmp_path)), "--cert", str(cert), "--key", str(key))
    assert anywhere("list", "--server", server.address, *options).err == ""


def test_a_refusal_says_which_way_was_tried_and_not_what_was_sent(error_of, serve, token_file, monkeypatch):
    server = serve()
    server.tokens = set()
    assert error_of("list", "--server", server.address) == (
        "this token is not known (tried: nothing; give a token by TASKYARD_TOKEN, --token-file or --profile, or a "
        "client certificate by --cert)"
    )
    monkeypatch.setenv("TASKYARD_TOKEN", "secret")
    told = error_of("list", "--server", server.address)
    assert told == "this token is not known (tried: the token given by TASKYARD_TOKEN)"
    assert token_file in error_of("list", "--server", server.address, "--token-file", token_file)


def test_a_token_is_not_sent_in_the_clear_unless_that_is_allowed(error_of, monkeypatch):
    monkeypatch.setenv("TASKYARD_TOKEN", "secret")
    assert error_of("list", "--server", "yard.invalid:1") == (
        "--server: the token given by TASKYARD_TOKEN is not sent in the clear to yard.invalid:1: encrypt the "
        "connection (https://yard.invalid:1 or --ca), or allow it by --insecure"
    )
    assert error_of("list", "--server", "yard.invalid:1", "--insecure").startswith(
        "no server answers at yard.invalid:1"
    )


SPOILT = {
    "cut": lambda secret: secret[:-1],
    "with another end": lambda secret: secret[:-1] + ("a" if secret[-1] == "b" else "b"),
}


@pytest.mark.parametrize("given", ["variable", "file", "profile"])
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_token_with_a_wrong_checksum_is_refused_before_any_call(error_of, serve, tmp_path, monkeypatch, given, spoil):
    server, secret = serve(), spoil(new_secret())
    options: tuple[str, ...] = ("--server", server.address)
    if given == "variable":
        monkeypatch.setenv("TASKYARD_TOKEN", secret)
    elif given == "file":
        options += ("--token-file", str(replace(tmp_path / "token", secret.encode())))
    else:
        (tmp_path / "taskyard").mkdir()
        replace(tmp_path / "taskyard" / "config.toml", f'[profiles.p]\ntoken = "{secret}"\n'.encode())
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        options += ("--profile", "p")
    for command in ("list", "watch"):
        told = error_of(command, *options)
        assert told.endswith(" is no whole token: characters of it are missing or mistyped")
        assert secret not in told
    assert server.seen == []


def test_a_whole_token_is_sent(anywhere, serve, monkeypatch):
    server, secret = serve(), new_secret()
    monkeypatch.setenv("TASKYARD_TOKEN", secret)
    assert anywhere("list", "--server", server.address).err == ""
    assert server.seen == [f"Bearer {secret}"]


def test_missing_encryption_and_certificates_are_named(error_of, serve, authority, tmp_path):
    server = serve(tls=True, asks=True)
    assert "if it demands TLS, use https://" in error_of("list", "--server", server.address)
    ca = str(authority.write(tmp_path))
    assert error_of("list", "--server", server.address, "--ca", ca).endswith(
        "if it demands a client certificate, give --cert and --key"
    )
    other = str(Authority("another").write(tmp_path, "other"))
    assert "is not signed by" in error_of("list", "--server", server.address, "--ca", other)
    assert (
        error_of("list", "--server", server.address, "--ca", "/nowhere") == "--ca: /nowhere: No such file or directory"
    )
    assert error_of("list", "--server", server.address, "--cert", ca) == "--key: is missing beside cert"


def test_a_watch_goes_on_with_the_token_read_anew(anywhere, serve, token_file):
    server = serve()
    watched = anywhere("watch", "--server", server.address, "--token-file", token_file, "--task", "t", "--until-ended")
    assert watched.code == 0
    assert server.seen == ["Bearer of-file"] * 2


def test_a_watch_that_is_refused_ends(error_of, serve, token_file):
    server = serve()
    server.tokens = set()
    assert "not known" in error_of("watch", "--server", server.address, "--token-file", token_file)
    assert len(server.seen) == 1


def test_a_file_of_a_pipe_is_a_token_file(serve):
    server = serve()
    command = f"{sys.executable} -m taskyard_server.cli.main list --server {server.address} --token-file <(echo piped)"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert server.seen == ["Bearer piped"]
