"""Tokens of files, which change, and what happens to calls and streams whose token is refused."""

import asyncio
import os

import grpc
import pytest

from taskyard import Client, NewTask, PermissionDenied, SyncClient, Unauthenticated
from taskyard.calls import tasks as task_calls
from taskyard.connection.credentials import find_credentials
from tests.certificates import replace
from tests.waiting import until


@pytest.fixture
def token_file(tmp_path):
    """A file with the token `one`."""
    return replace(tmp_path / "token", b"one\n")


@pytest.fixture
async def server(serve):
    """A server that takes every token."""
    return await serve()


@pytest.fixture
async def client(server, token_file):
    """A client with the token of the file."""
    async with Client(server.address, agent_id="ann", token_file=token_file, patience=5) as client:
        yield client


async def test_the_file_is_read_anew_when_it_changes(server, client, token_file):
    await client.get("a")
    replace(token_file, b"two")
    await client.get("a")
    token_file.write_text("  three\n\n")
    await client.get("a")
    assert server.seen == ["one", "two", "three"]


async def test_the_blocking_client_reads_it_anew_too(server, token_file):
    def call():
        with SyncClient(server.address, token_file=token_file) as client:
            client.get("a")
            replace(token_file, b"two")
            client.get("a")

    await asyncio.to_thread(call)
    assert server.seen == ["one", "two"]


@pytest.mark.parametrize("content", [None, b"", b"se\ncret", b"\xff", b"x" * 100_000], ids=str)
async def test_a_file_that_is_away_or_broken_for_a_while_leaves_the_token(server, client, token_file, content, caplog):
    await client.get("a")
    token_file.unlink()
    if content is not None:
        token_file.write_bytes(content)
    await client.get("a")
    replace(token_file, b"two")
    await client.get("a")
    assert server.seen == ["one", "one", "two"]
    assert "secret" not in caplog.text
    assert "se\ncret" not in caplog.text


async def test_a_pipe_is_read_once(server, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = asyncio.create_task(asyncio.to_thread(pipe.write_bytes, b"one"))
    client = await asyncio.to_thread(find_credentials, server.address, token_file=pipe)
    await writing
    os.utime(pipe)
    assert [client.metadata()[-1] for _ in range(2)] == [("authorization", "Bearer one")] * 2
    assert not client.changed_since(client.metadata())


async def test_a_refused_call_says_which_way_was_tried_and_not_what_was_sent(server, client, token_file):
    server.tokens = set()
    with pytest.raises(Unauthenticated) as raised:
        await client.get("a")
    expected = f"this token is not known (tried: the token in the file {token_file} given by token_file=)"
    assert raised.value.reason == expected
    assert len(server.seen) == 1


async def test_without_credentials_the_error_says_how_to_give_some(server):
    server.tokens = set()
    async with Client(server.address) as client:
        with pytest.raises(Unauthenticated) as raised:
            await client.get("a")
    assert raised.value.reason == (
        "this token is not known (tried: nothing; give a token by TASKYARD_TOKEN, token_file= or profile=, or a client "
        "certificate by cert=)"
    )


async def test_a_call_that_is_refused_is_repeated_once_with_a_token_that_came_meanwhile(
    server, client, token_file, monkeypatch
):
    server.tokens = {"two"}
    real = server._admit

    async def renew_first(context):
        replace(token_file, b"two")
        await real(context)

    monkeypatch.setattr(server, "_admit", renew_first)
    assert (await client.get("a")).id == "a"
    assert server.seen == ["one", "two"]


@pytest.mark.parametrize("params", [{}, {"x": "y" * 1_100_000}], ids=["shared stream", "own call"])
async def test_a_submission_that_is_refused_is_repeated_too(server, client, token_file, monkeypatch, params):
    server.tokens = {"two"}
    real = server._admit

    async def renew_first(context):
        replace(token_file, b"two")
        await real(context)

    monkeypatch.setattr(server, "_admit", renew_first)
    await client.submit("click", params=params)
    assert server.seen == ["one", "two"]


async def test_a_missing_permission_is_not_tried_again(server, client, token_file):
    server.tokens, server.code = set(), grpc.StatusCode.PERMISSION_DENIED
    for call in (lambda: client.get("a"), lambda: client.submit("click"), lambda: anext(client.watch())):
        with pytest.raises(PermissionDenied) as raised:
            await call()
        assert raised.value.reason == "this token is not known"
    assert server.seen == ["one"] * 3
    replace(token_file, b"two")


# Streams


async def test_a_long_wait_that_is_ended_goes_on_by_the_next_call(server, client, monkeypatch):
    monkeypatch.setattr(task_calls, "ADMITTED_SECS", 0)
    waiting = asyncio.create_task(client.wait("a"))
    await server.admitted(1)
    server.expired.set()
    await server.admitted(2)
    server.ended.set()
    assert (await waiting).id == "a"
    assert server.seen == ["one", "one"]


async def test_a_wait_that_is_refused_at_the_door_ends(server, client):
    server.tokens = set()
    with pytest.raises(Unauthenticated, match="this token is not known"):
        await client.wait("a")
    assert server.seen == ["one"]


async def test_a_watch_whose_token_expires_goes_on_with_the_new_one(server, client, token_file):
    events = client.watch()
    assert (await anext(events)).task.id == "after-"
    replace(token_file, b"two")
    server.tokens = {"two"}
    server.expired.set()
    assert (await anext(events)).task.id == "after-1"
    assert server.seen == ["one", "two"]


async def test_a_watch_tries_once_more_and_then_ends(server, client):
    events = client.watch()
    await anext(events)
    server.tokens = set()
    server.expired.set()
    with pytest.raises(Unauthenticated, match="this token is not known"):
        await anext(events)
    assert server.seen == ["one", "one"]


async def test_each_success_is_good_for_one_more_try(server, client):
    events = client.watch()
    for _ in range(3):
        await anext(events)
        server.expired.set()
    await anext(events)
    assert server.seen == ["one"] * 4


async def test_a_fixed_token_is_tried_once_more_too_since_it_may_have_other_grants(server):
    async with Client(server.address, token="one") as client:
        events = client.watch()
        await anext(events)
        server.expired.set()
        assert (await anext(events)).task.id == "after-1"
    assert server.seen == ["one", "one"]


async def test_a_watch_that_never_worked_ends_at_once(server, client):
    server.tokens = set()
    with pytest.raises(Unauthenticated, match="this token is not known"):
        await anext(client.watch())
    assert server.seen == ["one"]


async def test_submissions_go_on_with_the_new_token(server, client, token_file):
    assert (await client.submit("first")).id == "first"
    replace(token_file, b"two")
    server.tokens = {"two"}
    server.expired.set()
    await until(lambda: not server.expired.is_set())
    assert (await client.submit("second")).id == "second"
    assert server.seen == ["one", "two"]


async def test_refused_submissions_all_end_and_later_ones_are_tried_again(server, client):
    server.tokens = set()
    refused = await asyncio.gather(*(client.submit(NewTask(f"t{n}")) for n in range(3)), return_exceptions=True)
    assert [type(each) for each in refused] == [Unauthenticated] * 3
    server.tokens = None
    assert (await client.submit("later")).id == "later"
    assert server.seen == ["one", "one"]
