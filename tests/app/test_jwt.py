"""JWTs as credentials of a running server: its start, its reload, and its calls (docs/operate/security.md, JWTs)."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from taskyard.v1 import task_pb2, token_pb2, token_pb2_grpc
from tests.access.issuers import AUDIENCE, NAME, Issuer, key_set
from tests.ports import free_port

SECS = 20.0


@pytest.fixture
def issuer() -> Issuer:
    issuer = Issuer()
    issuer.clock.now = time.time()
    return issuer


def settings(folder: Path, role: str = "viewer", **changes: Any) -> dict[str, Any]:
    """A file of settings with the issuer, whose subjects `b*` have this role."""
    rule = {"claims": {"sub": "b*"}, "grants": [{"role": role}]}
    issuer = {"issuer": NAME, "audience": AUDIENCE, "jwks": str(folder / "jwks.json"), "rules": [rule], **changes}
    return {"auth": {"jwt": [issuer]}}


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


async def who(server: Any, token: str) -> token_pb2.WhoAmIResponse:
    stub: Any = token_pb2_grpc.TokenServiceStub(server.channel)
    answer: token_pb2.WhoAmIResponse = await stub.WhoAmI(
        token_pb2.WhoAmIRequest(), metadata=bearer(token), timeout=SECS
    )
    return answer


async def status_of(call: Any) -> tuple[str, str]:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details() or ""
    return "OK", ""


async def test_a_jwt_is_a_principal_with_what_its_claims_grant(up: Any, tmp_path: Path, issuer: Issuer) -> None:
    (tmp_path / "jwks.json").write_bytes(key_set(issuer.jwk()))
    server = await up(settings(tmp_path))
    answer = await who(server, issuer.token())
    assert (answer.name, answer.kind, answer.credential) == ("bob", "jwt", f"jwt:{NAME}:bob")
    assert [grant.role for grant in answer.grants] == [3]
    assert answer.expires_at.seconds == int(issuer.clock.now + 600)

    def listing(token: str) -> Any:
        return server.tasks.ListTasks(task_pb2.ListTasksRequest(), metadata=bearer(token), timeout=SECS)

    assert await status_of(listing(issuer.token())) == ("OK", "")
    submit = server.tasks.SubmitTask(
        task_pb2.SubmitTaskRequest(agent_id="a", action="x"), metadata=bearer(issuer.token()), timeout=SECS
    )
    assert (await status_of(submit))[0] == "PERMISSION_DENIED"
    # Known, but granted nothing.
    code, text = await status_of(listing(issuer.token(sub="ann")))
    assert code == "PERMISSION_DENIED"
    assert "viewer" in text
    expired = issuer.token(exp=time.time() - 1)
    assert await status_of(listing(expired)) == ("UNAUTHENTICATED", "authorization: the JWT has expired")
    assert (await status_of(listing(issuer.token(iss="https://other.example"))))[0] == "UNAUTHENTICATED"
    assert (await status_of(listing("x" * 30)))[0] == "UNAUTHENTICATED"
    assert not any(expired[-40:] in str(line) for line in server.lines)


async def test_sighup_takes_other_rules_and_issuers_and_ends_streams_that_they_do_not_let_in(
    up: Any, tmp_path: Path, issuer: Issuer
) -> None:
    (tmp_path / "jwks.json").write_bytes(key_set(issuer.jwk()))
    server = await up(settings(tmp_path))
    token = issuer.token()
    watch = server.tasks.WatchTasks(task_pb2.WatchTasksRequest(), metadata=bearer(token))
    await watch.wait_for_connection()
    (tmp_path / "taskyard.json").write_text(json.dumps(settings(tmp_path, "operator")))
    server.signal(signal.SIGHUP)
    await server.logged("config_reloaded")
    assert [grant.role for grant in (await who(server, token)).grants] == [4]

    async def read() -> None:
        async for _ in watch:
            pass

    assert (await status_of(read()))[0] == "UNAUTHENTICATED"
    (tmp_path / "taskyard.json").write_text(json.dumps(settings(tmp_path, audience="other")))
    server.signal(signal.SIGHUP)
    await server.logged("config_reloaded", times=2)
    assert (await status_of(who(server, token)))[0] == "UNAUTHENTICATED"


async def test_keys_that_are_replaced_hold_without_a_restart(up: Any, tmp_path: Path, issuer: Issuer) -> None:
    (tmp_path / "jwks.json").write_bytes(key_set(issuer.jwk()))
    server = await up(settings(tmp_path))
    await server.logged("keys_read")
    other = Issuer(number=1)
    other.clock.now = issuer.clock.now
    assert (await status_of(who(server, other.token())))[0] == "UNAUTHENTICATED"
    (tmp_path / "new.json").write_bytes(key_set(other.jwk()))
    (tmp_path / "new.json").replace(tmp_path / "jwks.json")
    await server.logged("keys_read", times=2)
    assert (await who(server, other.token())).name == "bob"
    assert (await status_of(who(server, issuer.token())))[0] == "UNAUTHENTICATED"


def test_a_missing_file_of_keys_is_one_line_and_exit_code_1(refused: Any, tmp_path: Path) -> None:
    refusal = refused(json.dumps(settings(tmp_path)))
    assert refusal.exit_code == 1
    assert refusal.errors == [f"auth.jwt.jwks: {tmp_path}/jwks.json: no such file or directory"]
    assert refusal.others == []


async def test_a_server_starts_although_its_issuer_is_away(up: Any, tmp_path: Path, issuer: Issuer) -> None:
    server = await up(settings(tmp_path, jwks=f"http://127.0.0.1:{free_port()}/jwks"))
    (line,) = await server.logged("keys_not_read")
    assert line["level"] == "warning"
    assert (await status_of(who(server, issuer.token())))[0] == "UNAUTHENTICATED"
