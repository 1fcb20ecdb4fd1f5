"""Tokens of a whole server: they outlive a kill, and their secrets are nowhere but in their answer.

See docs/operate/security.md.
"""

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

import grpc
import pytest

from taskyard.v1 import access_pb2, admin_pb2, admin_pb2_grpc, token_pb2_grpc
from taskyard.v1 import token_pb2 as pb
from tests.environment import without_settings
from tests.waiting import until

FIRST = "the-token-of-the-configuration"
ADMIN = pb.Grant(role=access_pb2.admin)
REQUIRED = {"auth": {"required": True}}


def bearer(secret):
    return (("authorization", f"Bearer {secret}"),)


async def whoami(server, secret=None):
    stub = token_pb2_grpc.TokenServiceStub(server.channel)
    return await stub.WhoAmI(pb.WhoAmIRequest(), metadata=() if secret is None else bearer(secret))


async def refused(call):
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call
    return refusal.value.code()


def contents(folder: Path) -> bytes:
    """All bytes of all files below a folder."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def titles() -> bytes:
    """The command lines of all processes."""
    return b"".join(file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline"))


@pytest.fixture
def start(up, tmp_path):
    """Starts a server on one and the same store."""
    (tmp_path / "yard").mkdir()
    url = f"sqlite:///{tmp_path}/yard/yard.db"

    async def run(config, *flags, **environment):
        return await up(config, *flags, **{"TASKYARD_STORE__URL": url, **environment})

    return run


@pytest.fixture
def command(tmp_path):
    """Runs `taskyard` on the same store. Returns exit code, output and errors."""

    async def run(*words, **environment):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "taskyard_server.cli.main", *words),
            env=without_settings() | {"TASKYARD_STORE__URL": f"sqlite:///{tmp_path}/yard/yard.db", **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, errors = await process.communicate()
        return process.returncode, printed.decode(), errors.decode()

    return run


async def kill(server):
    server.signal(signal.SIGKILL)
    await server.process.wait()


async def test_what_was_answered_about_tokens_is_true_after_a_kill(start):
    server = await start({**REQUIRED}, TASKYARD_ADMIN_TOKEN=FIRST)
    stub = token_pb2_grpc.TokenServiceStub(server.channel)
    by = {"metadata": bearer(FIRST)}
    for number in range(2):
        kept = await stub.CreateToken(pb.CreateTokenRequest(name=f"kept {number}", grants=[ADMIN]), **by)
        gone = await stub.CreateToken(pb.CreateTokenRequest(name=f"gone {number}", grants=[ADMIN]), **by)
        await stub.RevokeToken(pb.RevokeTokenRequest(token_id=gone.token.token_id), **by)
        last = await stub.CreateToken(pb.CreateTokenRequest(name=f"last {number}", grants=[ADMIN]), **by)
        await kill(server)
        server = await start({**REQUIRED}, TASKYARD_ADMIN_TOKEN=FIRST)
        stub = token_pb2_grpc.TokenServiceStub(server.channel)
        for answer in (kept, last):
            assert (await whoami(server, answer.secret)).credential == answer.token.token_id
        assert await refused(whoami(server, gone.secret)) is grpc.StatusCode.UNAUTHENTICATED
    listed = await stub.ListTokens(pb.ListTokensRequest(include_ended=True), **by)
    assert [token.name.split()[0] for token in listed.tokens] == ["kept", "gone", "last"] * 2


async def test_many_tokens_that_were_answered_when_the_server_was_killed_hold(start):
    server = await start({})
    stub = token_pb2_grpc.TokenServiceStub(server.channel)
    answered = []

    async def make():
        while True:
            answered.append(await stub.CreateToken(pb.CreateTokenRequest(name="x", grants=[ADMIN])))

    makers = [asyncio.create_task(make()) for _ in range(20)]
    await until(lambda: len(answered) >= 200)
    await kill(server)
    await asyncio.gather(*makers, return_exceptions=True)
    server = await start({**REQUIRED})
    for answer in answered:
        assert (await whoami(server, answer.secret)).credential == answer.token.token_id


async def test_a_secret_is_in_no_log_file_metric_title_or_configuration(start, tmp_path):
    log = tmp_path / "taskyard.log"
    config = {**REQUIRED, "log": {"file": str(log)}}
    server = await start(config, "--log-level", "debug", TASKYARD_ADMIN_TOKEN=FIRST)
    stub = token_pb2_grpc.TokenServiceStub(server.channel)
    by = {"metadata": bearer(FIRST)}
    answer = await stub.CreateToken(pb.CreateTokenRequest(name="ann", grants=[ADMIN]), **by)
    await whoami(server, answer.secret)
    await refused(whoami(server, answer.secret + "0"))
    own = {"metadata": bearer(answer.secret)}
    await stub.RevokeToken(pb.RevokeTokenRequest(token_id=answer.token.token_id), **own)
    await refused(whoami(server, answer.secret))
    admin = admin_pb2_grpc.AdminServiceStub(server.channel)
    settings = await admin.GetConfig(admin_pb2.GetConfigRequest(), **by)
    assert settings.config["auth"]["adminToken"] == "**********"
    seen = {
        "configuration": str(settings).encode(),
        "metrics": (await server.metrics()).encode(),
        "titles": titles(),
        "list": str(await stub.ListTokens(pb.ListTokensRequest(include_ended=True), **by)).encode(),
        "standard error": str(server.lines).encode() + str(server.noise).encode(),
    }
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    seen["files of the store"] = contents(tmp_path / "yard")
    seen["log"] = log.read_bytes()
    for secret in (answer.secret, FIRST):
        for where, found in seen.items():
            assert secret.encode() not in found, where
            assert secret[4:30].encode() not in found, where
    assert answer.token.token_id.encode() in seen["files of the store"]


async def test_the_last_use_is_kept_by_an_orderly_end(start):
    server = await start({**REQUIRED}, TASKYARD_ADMIN_TOKEN=FIRST)
    stub = token_pb2_grpc.TokenServiceStub(server.channel)
    by = {"metadata": bearer(FIRST)}
    answer = await stub.CreateToken(pb.CreateTokenRequest(name="ann", grants=[ADMIN]), **by)
    await whoami(server, answer.secret)
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    server = await start({**REQUIRED}, TASKYARD_ADMIN_TOKEN=FIRST)
    stub = token_pb2_grpc.TokenServiceStub(server.channel)
    (token,) = (await stub.ListTokens(pb.ListTokensRequest(), **by)).tokens
    assert token.HasField("last_used_at")


async def test_the_first_admin_is_made_on_the_machine_without_a_credential(start, command):
    server = await start({**REQUIRED})
    assert await refused(whoami(server)) is grpc.StatusCode.UNAUTHENTICATED
    code, printed, errors = await command("token", "create", "--admin")
    assert code == 0
    assert re.fullmatch(r"tyd_[0-9A-Za-z]{38}\n", printed)
    assert "shown this once" in errors
    me = await whoami(server, printed.strip())
    assert (me.name, me.kind, list(me.grants)) == ("admin", "token", [ADMIN])


async def test_who_has_revoked_the_last_admin_gets_in_again(start, command):
    server = await start({**REQUIRED})
    for _ in range(2):
        secret = (await command("token", "create", "--admin"))[1].strip()
        token_id = (await whoami(server, secret)).credential
        stub = token_pb2_grpc.TokenServiceStub(server.channel)
        await stub.RevokeToken(pb.RevokeTokenRequest(token_id=token_id), metadata=bearer(secret))
        assert await refused(whoami(server, secret)) is grpc.StatusCode.UNAUTHENTICATED
    listed = json.loads((await command("token", "list", "--ended", "--json"))[1])["tokens"]
    assert [(token["createdBy"], "revokedAt" in token) for token in listed] == [("local", True)] * 2


async def test_tokens_can_be_made_before_authentication_is_on(start, tmp_path):
    server = await start({"audit": {"file": str(tmp_path / "audit.log")}})
    me = await whoami(server)
    assert (me.name, me.kind, me.authentication) == ("local", "local", False)
    stub = token_pb2_grpc.TokenServiceStub(server.channel)
    answer = await stub.CreateToken(pb.CreateTokenRequest(name="ann", grants=[ADMIN]))
    assert answer.token.created_by == "local"
    (line,) = (tmp_path / "audit.log").read_text().splitlines()
    assert answer.token.token_id in line
    assert answer.secret not in line
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    server = await start({**REQUIRED})
    assert (await whoami(server, answer.secret)).authentication


async def test_a_store_with_tokens_is_checked_copied_backed_up_and_restored(start, command, tmp_path):
    server = await start({**REQUIRED})
    secrets = [(await command("token", "create", "--admin"))[1].strip() for _ in range(2)]
    assert await command("store", "check") == (0, "Nothing is wrong.\n", "")
    assert json.loads((await command("store", "stats", "--json"))[1])["rows"]["tokens"] == 2
    assert (await command("store", "backup", f"{tmp_path}/backup.db"))[0] == 0
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    source = f"sqlite:///{tmp_path}/yard/yard.db"
    assert (await command("store", "copy", source, f"sqlite:///{tmp_path}/copy.db"))[0] == 0
    assert (await command("store", "restore", f"{tmp_path}/backup.db", "--replace"))[0] == 0
    for url in (source, f"sqlite:///{tmp_path}/copy.db"):
        server = await start({**REQUIRED}, TASKYARD_STORE__URL=url)
        for secret in secrets:
            assert (await whoami(server, secret)).kind == "token"
        server.signal(signal.SIGTERM)
        assert await server.exited() == 0
