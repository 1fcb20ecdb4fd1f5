"""Webhooks over the end of the real process: with a store they arrive nevertheless (docs/rules.md, Webhooks)."""

import asyncio
import signal
from base64 import b64encode

import pytest

from tests.waiting import LIMIT_SECS

SECRET = "whsec_" + b64encode(b"a secret of twenty-four.").decode()
CONFIG = {"webhooks": {"allowPrivate": True, "secret": SECRET}}


@pytest.fixture
def kept(up, tmp_path):
    """Starts a server over one file, again and again."""
    return lambda **config: up({**CONFIG, **config}, "--store", f"sqlite:///{tmp_path}/yard.db")


async def arrived(hook):
    async with asyncio.timeout(LIMIT_SECS):
        await hook.came.wait()
    hook.came.clear()


def ids(hook):
    return [line.partition(": ")[2] for head in hook.heads for line in head.split("\r\n") if "webhook-id:" in line]


async def test_a_webhook_that_was_under_way_at_a_kill_arrives_after_the_restart(kept, hook):
    hook.opened.clear()
    server = await kept()
    task_id = await server.submit(callback_url=hook.url)
    await arrived(hook)
    server.signal(signal.SIGKILL)
    await server.exited()
    hook.opened.set()
    server = await kept()
    await arrived(hook)
    (delivered,) = await server.logged("webhook_delivered")
    assert delivered["task_id"] == task_id
    assert ids(hook) == [f"{task_id}-1-done"] * 2
    assert hook.posts[0] == hook.posts[1]
    assert hook.posts[1]["result"]["success"] is True


async def test_webhooks_that_found_no_room_at_a_kill_arrive_after_the_restart(kept, hook):
    hook.opened.clear()
    webhooks = {**CONFIG["webhooks"], "maxPending": 1, "workers": 1}
    server = await kept(webhooks=webhooks)
    task_ids = [await server.submit(callback_url=hook.url) for _ in range(8)]
    await server.logged("task_done", 8)
    await arrived(hook)
    server.signal(signal.SIGKILL)
    await server.exited()
    hook.opened.set()
    server = await kept(webhooks=webhooks)
    await server.logged("webhook_delivered", 8)
    assert sorted(post["taskId"] for post in hook.posts[1:]) == sorted(task_ids)
    assert server.events("webhook_dropped") == []


async def test_a_webhook_that_was_delivered_is_not_delivered_again_after_an_orderly_stop(kept, hook):
    server = await kept()
    await server.submit(callback_url=hook.url)
    await server.logged("webhook_delivered")
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    server = await kept()
    # The next one comes after whatever is left of the first server.
    second = await server.submit(callback_url=hook.url)
    await server.logged("webhook_delivered", task_id=second)
    assert len(hook.posts) == 2


async def test_a_second_signal_leaves_what_is_not_delivered_to_the_next_server(kept, hook):
    hook.opened.clear()
    server = await kept()
    task_id = await server.submit(callback_url=hook.url)
    await arrived(hook)
    server.signal(signal.SIGTERM)
    await server.logged("draining")
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    hook.opened.set()
    server = await kept()
    (delivered,) = await server.logged("webhook_delivered")
    assert delivered["task_id"] == task_id
