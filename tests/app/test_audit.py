"""The audit log of a whole server: tokens, the admin socket, signals and reloads, and a path that is of no use."""

import json
import signal

import grpc
import pytest

from taskyard.v1 import admin_pb2, store_pb2, token_pb2
from taskyard.v1.store_pb2_grpc import StoreServiceStub
from taskyard.v1.token_pb2_grpc import TokenServiceStub
from taskyard_server.net.admin_address import address_of, socket_path
from tests.environment import new_store_file

ADMIN = "0123456789-of-the-admin"
BEARER = (("authorization", f"Bearer {ADMIN}"),)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "audit.log"


@pytest.fixture
def lines(file):
    return lambda: [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def config(file):
    return {"audit": {"file": str(file)}, "auth": {"adminToken": ADMIN}}


async def test_tokens_that_are_made_and_revoked_are_named_by_their_ids(up, config, lines, file, tmp_path):
    store = new_store_file()
    await up(config, "--store", f"sqlite:///{store}")
    grant = token_pb2.Grant(role="viewer", namespaces=["default"])
    async with grpc.aio.insecure_channel(address_of(socket_path(store))) as channel:
        tokens = TokenServiceStub(channel)
        made = await tokens.CreateToken(token_pb2.CreateTokenRequest(name="ann", grants=[grant]))
        await tokens.RevokeToken(token_pb2.RevokeTokenRequest(token_id=made.token.token_id))
        await StoreServiceStub(channel).BackupStore(store_pb2.BackupStoreRequest(path=str(tmp_path / "copy.db")))
    by_socket = {"event": "change", "principal": "local", "credential": "local", "role": "admin", "by": "admin_socket"}
    found = [{key: value for key, value in line.items() if key != "at"} for line in lines()]
    named = {"token_id": made.token.token_id}
    rest = {"namespace": "default", "outcome": "ok"}
    assert found == [
        {**by_socket, **rest, "method": "TokenService/CreateToken", "on": named},
        {**by_socket, **rest, "method": "TokenService/RevokeToken", "on": named},
        {**by_socket, **rest, "method": "StoreService/BackupStore", "on": {"path": str(tmp_path / "copy.db")}},
    ]
    assert made.secret not in file.read_text()


async def test_tokens_made_by_a_call_name_who_made_them(up, config, lines):
    server = await up(config, "--store", f"sqlite:///{new_store_file()}")
    grant = token_pb2.Grant(role="viewer", namespaces=["default"])
    request = token_pb2.CreateTokenRequest(name="ann", grants=[grant])
    made = await TokenServiceStub(server.channel).CreateToken(request, metadata=BEARER)
    (line,) = lines()
    assert (line["principal"], line["credential"]) == ("admin", "admin-token")
    assert line["on"] == {"token_id": made.token.token_id}


async def test_a_reload_and_the_signal_to_stop_are_written_down(up, config, lines, tmp_path):
    server = await up(config)
    later = config | {"scheduler": {"maxInflight": 3}}
    (tmp_path / "taskyard.json").write_text(json.dumps(later))
    server.signal(signal.SIGHUP)
    await server.logged("config_reloaded")
    (tmp_path / "taskyard.json").write_text("{")
    server.signal(signal.SIGHUP)
    await server.logged("config_reload_failed")
    server.signal(signal.SIGTERM)
    await server.exited()
    found = [{key: value for key, value in line.items() if key != "at"} for line in lines()]
    assert found == [
        {"event": "reload", "principal": "local", "changed": ["scheduler.maxInflight"], "outcome": "ok"},
        {"event": "reload", "principal": "local", "outcome": "conflict"},
        {"event": "stop_signal", "principal": "local"},
    ]


async def test_without_authentication_changes_are_the_local_admins(up, file, lines):
    server = await up({"audit": {"file": str(file)}})
    await server.submit()
    who = await TokenServiceStub(server.channel).WhoAmI(token_pb2.WhoAmIRequest())
    assert not who.authentication
    await server.admin.DrainServer(admin_pb2.DrainServerRequest(grace_period_secs=0))
    await server.exited()
    assert [(line["principal"], line["method"]) for line in lines()] == [
        ("local", "TaskService/SubmitTask"),
        ("local", "AdminService/DrainServer"),
    ]


def test_a_log_that_cannot_be_written_is_one_line_at_the_start(refused, tmp_path):
    refusal = refused(json.dumps({"audit": {"file": str(tmp_path)}}))
    assert refusal.exit_code == 1
    assert refusal.errors == [f"cannot write the audit log to {tmp_path}: not a regular file"]
