"""Typed actions, codecs, parents and failures from a client to a handler and back, in each place where handlers run."""

from datetime import timedelta

import grpc
import pytest

from taskyard import BadValue, Client, RetryPolicy, TaskFailed, TaskState
from taskyard.codecs import FernetCodec
from taskyard.hosting.failing import Retry
from tests.clients.python.host import process_handlers
from tests.clients.python.host.process_handlers import Page, crawl
from tests.clients.python.host.real_server import Namespace, running

PLACES = ["loop", "thread", "process"]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with running(tmp_path_factory.mktemp("taskyard"), {"maxDeliveries": 3}) as address:
        yield address


@pytest.fixture
async def namespace(address):
    async with grpc.aio.insecure_channel(address) as channel:
        yield Namespace(address, channel)


@pytest.fixture
async def client(namespace):
    async with Client(namespace.address, agent_id="ann", namespace=namespace.name) as client:
        yield client


@pytest.mark.parametrize("place", PLACES)
async def test_a_typed_action_goes_there_and_comes_back_exactly(namespace, client, work, place):
    host = namespace.host()
    if place == "loop":

        @host.handles(crawl)
        async def fetch(page: Page, task):
            return process_handlers.fetch(page, task)
    else:
        host.handles(crawl, runs_in=place)(process_handlers.fetch)
    work(host)
    links = await client.run(crawl, Page("a", 2**60))
    assert (type(links), links.serial) == (process_handlers.Links, 2**60 + 1)


@pytest.mark.parametrize("place", ["thread", "process"])
async def test_with_a_codec_the_server_sees_nothing(namespace, client, work, place):
    codec = FernetCodec(FernetCodec.new_key())
    host = namespace.host(codec=codec)
    host.handles(crawl, runs_in=place)(process_handlers.fetch)
    work(host)
    async with Client(namespace.address, agent_id="ann", namespace=namespace.name, codec=codec) as encrypting:
        handle = await encrypting.submit(crawl, Page("secret", 1))
        assert (await handle.result()).serial == 2
    shown = await client.get(handle.id)
    assert shown.params == {}
    assert b"secret" not in shown.input.data
    assert shown.input.encoding == shown.output.encoding == "fernet"
    # A client without the codec cannot be understood by such a host either.
    with pytest.raises(BadValue, match="fernet"):
        await client.run(crawl, Page("plain", 1))


async def test_a_host_without_the_codec_fails_the_task_for_good_and_says_why(namespace, work):
    host = namespace.host()
    host.handles(crawl)(process_handlers.fetch)
    work(host)
    codec = FernetCodec(FernetCodec.new_key())
    async with Client(namespace.address, agent_id="ann", namespace=namespace.name, codec=codec) as client:
        with pytest.raises(TaskFailed, match="is encoded by 'fernet', here is no codec") as caught:
            await client.run(crawl, Page("a"))
    assert caught.value.code == "bad_input"


@pytest.mark.parametrize("place", PLACES)
async def test_what_a_handler_submits_has_its_task_as_the_parent(namespace, client, work, place):
    host = namespace.host()
    handler = process_handlers.submits_async if place == "loop" else process_handlers.submits
    host.action("parent", runs_in=place)(handler)
    work(host)
    handle = await client.submit("parent", params={"address": namespace.address, "namespace": namespace.name})
    child = await client.get(await handle.result())
    assert child.parent_id == handle.id
    await client.cancel(child.id)


@pytest.mark.parametrize("place", ["thread", "process"])
async def test_a_failure_tells_where_the_handler_failed(namespace, client, work, place):
    host = namespace.host()
    host.action("fails", runs_in=place)(process_handlers.fails)
    work(host)
    with pytest.raises(TaskFailed) as caught:
        await client.run("fails")
    assert "KeyError: 'no such thing'" in str(caught.value)
    assert "process_handlers.py" in caught.value.traceback
    assert "taskyard/hosting" not in caught.value.traceback


async def test_retry_attempts_a_task_again_that_has_no_policy(namespace, client, work):
    host, attempts = namespace.host(), []

    @host.action("busy")
    async def busy(task):
        attempts.append(task.attempt)
        if len(attempts) < 3:
            raise Retry("busy", after=timedelta(milliseconds=10))

    work(host)
    task = await client.wait((await client.submit("busy")).id)
    assert (task.state, attempts) == (TaskState.DONE, [1, 2, 3])


async def test_not_retryable_ends_a_task_that_has_attempts_left(namespace, client, work):
    host = namespace.host()
    host.action("gone")(process_handlers.wants_no_other)
    work(host)
    with pytest.raises(TaskFailed) as caught:
        await client.run("gone", retry_policy=RetryPolicy(max_attempts=5))
    assert (caught.value.code, caught.value.attempts) == ("gone", 1)
