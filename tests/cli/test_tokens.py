"""`taskyard token` and `taskyard whoami` (docs/operate/security.md)."""

import re
import subprocess
import sys

import grpc
import pytest

from taskyard_server.cli.failure import FAILED, MISUSED
from tests.cases import every_case
from tests.environment import without_settings
from tests.ports import free_port

SECRET = re.compile(r"tyd_[0-9A-Za-z]{38}\n")


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    """The address and the URL of the store of a server that keeps tokens, without authentication."""
    grpc_at, metrics_at = (f"127.0.0.1:{free_port()}" for _ in range(2))
    url = f"sqlite:///{tmp_path_factory.mktemp('tokens')}/yard.db"
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", "--log-level", "error"]
    server = subprocess.Popen(
        [*command, "--grpc", grpc_at, "--metrics", metrics_at, "--store", url],
        env=without_settings(),
        stdout=subprocess.DEVNULL,
    )
    try:
        with grpc.insecure_channel(grpc_at) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
        yield grpc_at, url
    finally:
        server.terminate()
        server.wait(timeout=30)


@pytest.fixture
def local(anywhere, yard, monkeypatch):
    """Runs a command on the machine of the server, without a word about where it is."""
    for name in ("TASKYARD_SERVER", "TASKYARD_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TASKYARD_STORE__URL", yard[1])
    return anywhere


def granted(local, *words):
    """The grant of a new token."""
    (grant,) = local("token", "create", *words, "--json").json["token"]["grants"]
    return grant


def test_the_secret_alone_is_on_standard_output(local):
    made = local("token", "create", "bot", "--role", "agent", "--agent", "ann", "--expires", "30d")
    assert made.code == 0
    assert SECRET.fullmatch(made.out)
    assert re.fullmatch(
        r"tok_\w{20} \(bot\): agent ann in default, until [-0-9: ]+\. Its secret is shown this once:\n", made.err
    )
    assert made.out.strip() not in made.err


def test_a_token_without_a_name_has_that_of_its_role(local):
    assert local("token", "create", "--admin", "--json").json["token"]["name"] == "admin"


def test_options_become_the_grant(local):
    empty = {"agents": [], "hosts": [], "projects": [], "actions": [], "payloads": False}
    assert granted(local, "--admin") == {**empty, "role": "admin", "namespaces": []}
    assert granted(
        local, "--role", "agent", "--agent", "a", "--agent", "b*", "--namespace", "x", "--namespace", "y*"
    ) == {
        **empty,
        "role": "agent",
        "namespaces": ["x", "y*"],
        "agents": ["a", "b*"],
    }
    assert granted(local, "--role", "host", "--host", "h", "--project", "p", "--action", "a*") == {
        **empty,
        "role": "host",
        "namespaces": ["default"],
        "hosts": ["h"],
        "projects": ["p"],
        "actions": ["a*"],
    }
    assert granted(local, "--role", "viewer", "--payloads", "--namespace", "*") == {
        **empty,
        "role": "viewer",
        "namespaces": ["*"],
        "payloads": True,
    }


def test_a_token_is_listed_shown_and_revoked(local):
    token = local("token", "create", "mine", "--role", "operator", "--json").json["token"]
    token_id = token["tokenId"]
    assert token in local("token", "list", "--json").json["tokens"]
    assert local("token", "show", token_id, "--json").json["token"] == token
    assert "operator in default" in local("token", "show", token_id).out
    revoked = local("token", "revoke", token_id)
    assert (revoked.out, revoked.code) == (f"{token_id} (mine) is revoked\n", 0)
    assert local("token", "revoke", token_id, "--json").json["token"]["revokedAt"]
    assert token_id not in local("token", "list").out
    (line,) = [line for line in local("token", "list", "--ended").out.splitlines() if token_id in line]
    assert "revoked" in line


def test_no_command_but_create_shows_a_secret(local):
    made = local("token", "create", "--admin", "--json").json
    token_id = made["token"]["tokenId"]
    for words in (("list", "--ended"), ("list", "--json"), ("show", token_id), ("revoke", token_id, "--json")):
        assert made["secret"] not in local("token", *words).out


def test_a_name_cannot_write_to_the_terminal(local):
    made = local("token", "create", "\x1b[31mred[bold]", "--admin")
    assert (made.out, made.code) == ("", 1)
    assert made.err == "taskyard: name: must not hold control characters\n"
    assert "[bold]red" in (local("token", "create", "[bold]red", "--admin"), local("token", "list"))[1].out


@every_case(
    ("words", "problem"),
    [
        ((), "give --role or --admin"),
        (("--role", "boss"), "--role: must be among agent, host, viewer, operator, admin"),
        (("--role", "viewer", "--admin"), "--admin: is --role admin; give one of them"),
        (("--role", "agent"), "grants[0].agents: is required for the role agent, `*` for all"),
        (("--role", "viewer", "--agent", "a"), "grants[0].agents: is for the role agent alone"),
        (("--admin", "--namespace", "a"), "grants[0].namespaces: none for the role admin, which holds in all of them"),
        (("--admin", "--expires", "0d"), "--expires: must be a duration such as 12h or 30d"),
        (("--admin", "--expires", "-1d"), "--expires: must be a duration such as 12h or 30d"),
        (("--admin", "--expires", "soon"), "--expires: must be a duration such as 12h or 30d"),
        (("--admin", "--expires", "99999999d"), "--expires: must be a duration such as 12h or 30d"),
        (("--admin", "--server", "x:1", "--store", "sqlite:///x"), "give --server, or --store and --config, not both"),
    ],
)
def test_what_is_wrong_is_one_line(local, words, problem):
    failed = local("token", "create", *words)
    assert (failed.out, failed.err) == ("", f"taskyard: {problem}\n")
    assert failed.code == (FAILED if problem.startswith("grants") else MISUSED)


def test_a_token_that_is_not_there_is_one_line(local):
    assert local("token", "show", "tok_none").err == "taskyard: token not found\n"
    assert local("token", "revoke", "tok_none").err == "taskyard: token not found\n"


def test_a_store_without_a_server_is_named(local, tmp_path):
    failed = local("token", "list", "--store", f"sqlite:///{tmp_path}/none.db")
    assert failed.err == f"taskyard: no server runs on {tmp_path}/none.db\n"


def test_a_named_store_comes_before_the_server_and_the_token_of_the_environment(anywhere, yard, monkeypatch):
    monkeypatch.setenv("TASKYARD_SERVER", "127.0.0.1:1")
    monkeypatch.setenv("TASKYARD_TOKEN", "one-that-was-revoked")
    assert anywhere("token", "create", "--admin", "--store", yard[1]).code == 0


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_named_server_is_called_over_the_network(anywhere, yard, monkeypatch, way):
    monkeypatch.setenv("TASKYARD_STORE__URL", "memory://")
    words = ("--server", yard[0]) if way == "option" else ()
    if way == "variable":
        monkeypatch.setenv("TASKYARD_SERVER", yard[0])
    assert SECRET.fullmatch(anywhere("token", "create", "--admin", *words).out)
    assert anywhere("token", "list", "--server", "127.0.0.1:1").err == "taskyard: no server answers at 127.0.0.1:1\n"


@pytest.mark.memory_store
def test_a_server_that_keeps_nothing_says_what_to_do(taskyard):
    failed = taskyard("token", "create", "--admin")
    assert failed.code == 1
    assert "TASKYARD_ADMIN_TOKEN" in failed.err


def test_one_learns_who_one_is(anywhere, yard):
    shown = anywhere("whoami", "--server", yard[0])
    assert "local" in shown.out
    assert "off: anyone who reaches the server is admin" in shown.out
    assert anywhere("whoami", "--server", yard[0], "--json").json == {
        "name": "local",
        "kind": "local",
        "credential": "local",
        "grants": [
            {
                "role": "admin",
                "namespaces": [],
                "agents": [],
                "hosts": [],
                "projects": [],
                "actions": [],
                "payloads": False,
            }
        ],
        "authentication": False,
    }
