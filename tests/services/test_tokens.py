"""TokenService behind authentication: what it makes, shows and refuses, and the calls that a token lets in."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from pydantic import SecretStr

from taskyard.v1 import access_pb2, task_pb2, task_pb2_grpc, token_pb2_grpc
from taskyard.v1 import token_pb2 as pb
from taskyard_server.access import failures
from taskyard_server.access.authentication import MALFORMED, UNKNOWN
from taskyard_server.access.token_directory import TokenDirectory
from taskyard_server.access.tokens import new_secret
from taskyard_server.conversion.submissions import no_default_retry
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.interceptors.open_calls import ENDED, OpenCalls
from taskyard_server.services import tokens
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService
from taskyard_server.services.tokens import NOT_KEPT, TokenService
from taskyard_server.settings.security import AuthSettings
from tests.cases import every_case
from tests.engines import running_engine
from tests.store.dict_store import DictStore
from tests.waiting import LIMIT_SECS, until

FIRST = "the-token-of-the-configuration"
ADMIN = pb.Grant(role=access_pb2.admin)


def agent(*agents: str, namespaces: tuple[str, ...] = ("default",)) -> pb.Grant:
    return pb.Grant(role=access_pb2.agent, namespaces=namespaces, agents=agents)


def bearer(secret: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {secret}"),)


class Yard:
    """A server with authentication, and its clients."""

    def __init__(self, channel: grpc.aio.Channel, clock: Any, open_calls: OpenCalls) -> None:
        self.clock, self.open_calls = clock, open_calls
        self.tokens = token_pb2_grpc.TokenServiceStub(channel)
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)

    async def create(self, *grants: pb.Grant, by: str = FIRST, **fields: Any) -> pb.CreateTokenResponse:
        request = pb.CreateTokenRequest(**{"name": "ann", "grants": grants, **fields})
        return await self.tokens.CreateToken(request, metadata=bearer(by))

    async def whoami(self, *metadata: tuple[str, str | bytes]) -> pb.WhoAmIResponse:
        return await self.tokens.WhoAmI(pb.WhoAmIRequest(), metadata=metadata)

    async def revoke(self, token_id: str, by: str = FIRST) -> pb.RevokeTokenResponse:
        return await self.tokens.RevokeToken(pb.RevokeTokenRequest(token_id=token_id), metadata=bearer(by))

    async def listed(self, by: str = FIRST, **fields: Any) -> pb.ListTokensResponse:
        return await self.tokens.ListTokens(pb.ListTokensRequest(**fields), metadata=bearer(by))


@pytest.fixture
async def yard(clock, monkeypatch) -> AsyncIterator[Yard]:
    # The delay of wrong credentials has its own tests.
    monkeypatch.setattr(failures, "FIRST_DELAY_SECS", 0.0)
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(running_engine(clock=clock, store=DictStore()))
        logs = engine.event_logs(encode_event)
        engine.subscribe(logs)
        directory = TokenDirectory(engine.now)
        await directory.open(engine.persistence)
        admission = CallAdmission(AuthSettings(required=True, admin_token=SecretStr(FIRST)), directory)
        server = grpc.aio.server(interceptors=(CallInterceptor(admission),))
        token_pb2_grpc.add_TokenServiceServicer_to_server(
            TokenService(directory, admission.open_calls.end_stale), server
        )
        tasks = TaskService(engine, 262_144, TaskWatches(engine, logs, 15), no_default_retry)
        task_pb2_grpc.add_TaskServiceServicer_to_server(tasks, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        stack.push_async_callback(server.stop, None)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        yield Yard(channel, clock, admission.open_calls)


# What is made and shown


async def test_a_token_is_answered_with_its_secret_once(yard):
    answer = await yard.create(agent("ann*"), ttl_secs=60)
    token = answer.token
    assert (token.name, token.created_by, list(token.grants)) == ("ann", "admin-token", [agent("ann*")])
    assert token.expires_at.seconds == int(yard.clock.now + 60)
    shown = await yard.tokens.GetToken(pb.GetTokenRequest(token_id=token.token_id), metadata=bearer(FIRST))
    assert shown.token == token
    for text in (str(shown), str(await yard.listed())):
        assert answer.secret not in text


async def test_the_bearer_learns_who_it_is(yard):
    answer = await yard.create(agent("ann"), ttl_secs=60)
    me = await yard.whoami(*bearer(answer.secret))
    assert (me.name, me.kind, me.credential) == ("ann", "token", answer.token.token_id)
    assert (list(me.grants), me.expires_at) == ([agent("ann")], answer.token.expires_at)
    assert me.authentication


async def test_the_admin_token_of_the_configuration_is_named_by_its_kind(yard):
    me = await yard.whoami(*bearer(FIRST))
    assert (me.name, me.kind, me.credential, list(me.grants)) == ("admin", "admin-token", "admin-token", [ADMIN])
    assert not me.HasField("expires_at")


async def test_who_made_a_token_is_shown_by_the_id_of_its_credential(yard):
    first = await yard.create(ADMIN)
    second = await yard.create(agent("x"), by=first.secret)
    assert second.token.created_by == first.token.token_id


async def test_tokens_are_listed_in_pages_oldest_first(yard):
    ids = [(await yard.create(agent("x"))).token.token_id for _ in range(5)]
    found, token = [], ""
    while True:
        page = await yard.listed(page_size=2, page_token=token)
        found.append([each.token_id for each in page.tokens])
        token = page.next_page_token
        if not token:
            break
    assert found == [ids[:2], ids[2:4], ids[4:]]


async def test_a_page_is_no_longer_than_a_message_may_be(yard, monkeypatch):
    ids = [(await yard.create(agent("x"))).token.token_id for _ in range(3)]
    monkeypatch.setattr(tokens, "MAX_PAGE_BYTES", 100)
    page = await yard.listed()
    assert [each.token_id for each in page.tokens] == ids[:1]
    rest = await yard.listed(page_token=page.next_page_token)
    assert [each.token_id for each in rest.tokens] == ids[1:2]


async def test_a_page_token_of_another_query_is_refused(yard, refused):
    for _ in range(2):
        await yard.create(agent("x"))
    token = (await yard.listed(page_size=1)).next_page_token
    refusal = await refused(yard.listed(page_size=1, page_token=token, include_ended=True))
    assert (refusal.code, refusal.message) == ("bad_request", "pageToken: is not a token of this listing")


async def test_ended_tokens_are_listed_where_they_are_asked_for(yard):
    revoked, expired, kept = [(await yard.create(agent("x"), **fields)).token for fields in ({}, {"ttl_secs": 9}, {})]
    await yard.revoke(revoked.token_id)
    yard.clock.now += 10
    assert [token.token_id for token in (await yard.listed()).tokens] == [kept.token_id]
    everything = (await yard.listed(include_ended=True)).tokens
    assert [token.token_id for token in everything] == [revoked.token_id, expired.token_id, kept.token_id]
    assert [token.HasField("revoked_at") for token in everything] == [True, False, False]


async def test_the_last_use_is_shown_at_once(yard):
    answer = await yard.create(agent("x"))
    assert not answer.token.HasField("last_used_at")
    await yard.whoami(*bearer(answer.secret))
    (token,) = (await yard.listed()).tokens
    assert token.last_used_at.seconds == int(yard.clock.now)


# What is refused


def of(role: int, **fields: Any) -> pb.Grant:
    return pb.Grant(role=role, **fields)  # type: ignore[arg-type]


HERE = {"namespaces": ["default"]}
WRONG = [
    ({"name": ""}, "name: is required"),
    ({"name": "  "}, "name: must not be blank"),
    ({"name": "x" * 257}, "name: must be at most 256 characters"),
    ({"name": "a\nb"}, "name: must not hold control characters"),
    ({"ttl_secs": 0}, "ttlSecs: must be 1 or more"),
    ({"grants": []}, "grants: is required"),
    ({"grants": [ADMIN] * 33}, "grants: must have at most 32 entries"),
    ({"grants": [ADMIN, of(0)]}, "grants[1].role: is required, one of agent, host, viewer, operator, admin"),
    ({"grants": [of(6)]}, "grants[0].role: must be among agent, host, viewer, operator, admin"),
    ({"grants": [of(-1)]}, "grants[0].role: must be among agent, host, viewer, operator, admin"),
    ({"grants": [of(1, agents=["x"])]}, "grants[0].namespaces: is required, `*` for all"),
    ({"grants": [of(1, **HERE)]}, "grants[0].agents: is required for the role agent, `*` for all"),
    ({"grants": [of(2, **HERE)]}, "grants[0].hosts: is required for the role host, `*` for all"),
    ({"grants": [of(3, **HERE, agents=["x"])]}, "grants[0].agents: is for the role agent alone"),
    ({"grants": [of(1, **HERE, agents=["x"], hosts=["h"])]}, "grants[0].hosts: is for the role host alone"),
    ({"grants": [of(4, **HERE, projects=["p"])]}, "grants[0].projects: is for the role host alone"),
    ({"grants": [of(4, **HERE, actions=["p"])]}, "grants[0].actions: is for the role host alone"),
    ({"grants": [of(4, **HERE, payloads=True)]}, "grants[0].payloads: is for the role viewer alone"),
    ({"grants": [of(5, **HERE)]}, "grants[0].namespaces: none for the role admin, which holds in all of them"),
    ({"grants": [agent("")]}, "grants[0].agents: must not hold a blank name"),
    ({"grants": [agent(" ")]}, "grants[0].agents: must not hold a blank name"),
    ({"grants": [agent("a*b")]}, "grants[0].agents: may have * only at the end of a name"),
    ({"grants": [agent("**")]}, "grants[0].agents: may have * only at the end of a name"),
    ({"grants": [agent("a\0")]}, "grants[0].agents: must not hold control characters"),
    ({"grants": [agent("x" * 257)]}, "grants[0].agents: each must be at most 256 characters"),
    ({"grants": [agent(*map(str, range(65)))]}, "grants[0].agents: must have at most 64 entries"),
]
BAD_NAMESPACES = ["", "a b", "ä", "*a", "a**", "-", ".*", "a/b*", "x" * 64]


@every_case(("fields", "message"), WRONG, ids=[message for _, message in WRONG])
async def test_what_is_wrong_is_named(yard, refused, fields, message):
    refusal = await refused(yard.create(**{"grants": [ADMIN], **fields}))
    assert (refusal.code, refusal.message) == ("bad_request", message)
    assert not (await yard.listed(include_ended=True)).tokens


@every_case("namespace", BAD_NAMESPACES)
async def test_a_namespace_that_cannot_be_is_refused(yard, refused, namespace):
    refusal = await refused(yard.create(agent("x", namespaces=("default", namespace))))
    assert refusal.code == "bad_request"
    assert refusal.message.startswith("grants[0].namespaces: each must be")


@every_case("namespace", ["*", "a*", "default", "A.b-c_9", "A.b-c_9*"])
async def test_a_namespace_and_the_beginning_of_one_are_taken(yard, namespace):
    token = (await yard.create(agent("x", namespaces=(namespace,)))).token
    assert list(token.grants[0].namespaces) == [namespace]


@every_case("call", ["GetToken", "RevokeToken"])
@every_case("token_id", ["", "tok_", "tok_00000000000000000000", "x" * 5_000])
async def test_a_token_that_is_not_there_is_not_found(yard, refused, call, token_id):
    request = {"GetToken": pb.GetTokenRequest, "RevokeToken": pb.RevokeTokenRequest}[call](token_id=token_id)
    refusal = await refused(getattr(yard.tokens, call)(request, metadata=bearer(FIRST)))
    assert (refusal.code, refusal.message) == ("not_found", "token not found")


@pytest.mark.parametrize(
    "grant",
    [
        agent("*", namespaces=("*",)),
        of(2, namespaces=["*"], hosts=["*"]),
        of(3, namespaces=["*"], payloads=True),
        of(4, namespaces=["*"]),
    ],
)
async def test_only_an_admin_makes_shows_and_revokes_tokens_and_all_learn_who_they_are(yard, refused, grant):
    answer = await yard.create(grant)
    me = {"metadata": bearer(answer.secret)}
    token_id = answer.token.token_id
    for call in (
        yard.create(ADMIN, by=answer.secret),
        yard.listed(by=answer.secret),
        yard.tokens.GetToken(pb.GetTokenRequest(token_id=token_id), **me),
        yard.revoke(token_id, by=answer.secret),
    ):
        refusal = await refused(call)
        assert refusal.code == "permission_denied"
        assert "the role admin is needed" in refusal.message
    assert (await yard.whoami(*bearer(answer.secret))).credential == token_id


async def test_without_a_store_tokens_are_refused_and_the_way_out_is_named(refused):
    server = grpc.aio.server(interceptors=(CallInterceptor(),))
    token_pb2_grpc.add_TokenServiceServicer_to_server(TokenService(None, None), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = token_pb2_grpc.TokenServiceStub(channel)
        for call in (
            stub.CreateToken(pb.CreateTokenRequest(name="x", grants=[ADMIN])),
            stub.ListTokens(pb.ListTokensRequest()),
            stub.GetToken(pb.GetTokenRequest(token_id="tok_x")),
            stub.RevokeToken(pb.RevokeTokenRequest(token_id="tok_x")),
        ):
            refusal = await refused(call)
            assert (refusal.code, refusal.message) == ("conflict", NOT_KEPT)
        me = await stub.WhoAmI(pb.WhoAmIRequest())
        assert (me.name, me.kind, me.credential, me.authentication) == ("local", "local", "local", False)
    await server.stop(None)


# Hostile callers


async def test_a_token_counts_in_one_place_alone(yard, refused):
    secret = (await yard.create(ADMIN)).secret
    for metadata in (
        (),
        (("x-authorization", f"Bearer {secret}"),),
        (("cookie", f"token={secret}"),),
        (("token", secret),),
        (("proxy-authorization", f"Bearer {secret}"),),
        (("taskyard-namespace", secret),),
        (("x-forwarded-client-cert", f"URI={secret}"),),
        (("authorization-bin", f"Bearer {secret}".encode()),),
    ):
        refusal = await refused(yard.whoami(*metadata))
        assert refusal.code == "unauthenticated"
        assert secret not in str(refusal)
    for request in (pb.ListTokensRequest(page_token=secret), pb.GetTokenRequest(token_id=secret)):
        call = yard.tokens.ListTokens if isinstance(request, pb.ListTokensRequest) else yard.tokens.GetToken
        assert (await refused(call(request))).code == "unauthenticated"


@every_case(
    ("form", "is_in"),
    [
        ("Bearer {}", True),
        ("bearer {}", True),
        ("BEARER {}", True),
        ("Bearer   {}", True),
        ("{}", False),
        ("Bearer{}", False),
        ("Basic {}", False),
        ("Token {}", False),
        ("Bearer", False),
        ("Bearer {0} {0}", False),
        ("Bearer {0},{0}", False),
        ("Bearer {0}, Bearer {0}", False),
        ('Bearer "{}"', False),
        ("Bearer {}0", False),
        ("Bearer Bearer {}", False),
        ("", False),
    ],
)
async def test_the_header_has_one_form_in_any_case_of_bearer(yard, refused, form, is_in):
    secret = (await yard.create(ADMIN)).secret
    call = yard.whoami(("authorization", form.format(secret)))
    if is_in:
        assert (await call).kind == "token"
    else:
        refusal = await refused(call)
        assert refusal.code == "unauthenticated"
        assert refusal.message in (MALFORMED, UNKNOWN)
        assert secret not in str(refusal)


async def test_two_headers_let_nobody_in(yard, refused):
    secret = (await yard.create(ADMIN)).secret
    for other in (secret, FIRST, "wrong", ""):
        for headers in ((secret, other), (other, secret)):
            refusal = await refused(yard.whoami(*(header for each in headers for header in bearer(each))))
            assert (refusal.code, refusal.message) == ("unauthenticated", MALFORMED)


async def test_malformed_and_foreign_tokens_are_refused_alike(yard, refused):
    answer = await yard.create(ADMIN)
    other = await yard.create(ADMIN)
    secret = answer.secret
    for wrong in (
        new_secret(),
        secret[:-1],
        secret[1:],
        "tyd_" + secret[4:].swapcase(),
        secret[:20] + other.secret[20:],
        answer.token.token_id,
        "tyd_" + "0" * 4_000,
        "%00" + secret,
        FIRST + "x",
        FIRST.upper(),
    ):
        refusal = await refused(yard.whoami(*bearer(wrong)))
        assert (refusal.code, refusal.message) == ("unauthenticated", UNKNOWN)


async def test_an_expired_token_is_refused_as_an_unknown_one(yard, refused):
    answer = await yard.create(ADMIN, ttl_secs=60)
    yard.clock.now += 59
    await yard.whoami(*bearer(answer.secret))
    yard.clock.now += 1
    refusal = await refused(yard.whoami(*bearer(answer.secret)))
    assert (refusal.code, refusal.message) == ("unauthenticated", UNKNOWN)


async def test_a_revoked_token_is_refused_and_another_of_the_same_name_is_not(yard, refused):
    one, other = [await yard.create(ADMIN) for _ in range(2)]
    first = await yard.revoke(one.token.token_id)
    yard.clock.now += 5
    assert await yard.revoke(one.token.token_id) == first
    assert (await refused(yard.whoami(*bearer(one.secret)))).message == UNKNOWN
    assert (await yard.whoami(*bearer(other.secret))).credential == other.token.token_id


async def test_a_token_can_revoke_itself_and_is_told_so(yard, refused):
    answer = await yard.create(ADMIN)
    revoked = await yard.revoke(answer.token.token_id, by=answer.secret)
    assert revoked.token.HasField("revoked_at")
    assert (await refused(yard.whoami(*bearer(answer.secret)))).message == UNKNOWN


async def test_the_streams_and_waits_of_a_revoked_token_end_at_once_and_others_go_on(yard):
    one, other = [await yard.create(of(4, namespaces=["*"])) for _ in range(2)]
    submitted = await yard.tasks.SubmitTask(
        task_pb2.SubmitTaskRequest(agent_id="ann", action="click"), metadata=bearer(other.secret)
    )
    watches = [
        yard.tasks.WatchTasks(task_pb2.WatchTasksRequest(), metadata=bearer(each.secret)) for each in (one, other)
    ]
    for watch in watches:
        await watch.read()
    wait = yard.tasks.WaitTask(
        task_pb2.WaitTaskRequest(task_id=submitted.task_id, timeout_ms=60_000), metadata=bearer(one.secret)
    )
    # Both watches, the wait and no more.
    await until(lambda: len(yard.open_calls._open) == 3)
    await yard.revoke(one.token.token_id)
    async with asyncio.timeout(LIMIT_SECS):
        for ended in (watches[0].read(), wait):
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await ended
            assert (refusal.value.code(), refusal.value.details()) == (grpc.StatusCode.UNAUTHENTICATED, ENDED)
        await yard.tasks.CancelTask(
            task_pb2.CancelTaskRequest(task_id=submitted.task_id), metadata=bearer(other.secret)
        )
        assert (await watches[1].read()).events
    watches[1].cancel()


async def test_no_secret_is_logged(yard, refused, log_lines):
    answer = await yard.create(ADMIN)
    await yard.whoami(*bearer(answer.secret))
    await refused(yard.whoami(*bearer(answer.secret + "0")))
    await refused(yard.create(by=answer.secret))
    await yard.revoke(answer.token.token_id)
    await refused(yard.whoami(*bearer(answer.secret)))
    assert log_lines
    assert answer.secret not in str(log_lines)
    assert answer.secret[:20] not in str(log_lines)
