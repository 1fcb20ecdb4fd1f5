"""Deliveries are counted for each namespace, and for all of them together (docs/rules.md, Figures)."""

import asyncio

import pytest

from taskyard_server.webhooks.webhooks import WebhookCounts


async def end(server, namespace, *urls):
    """End one task of the namespace for each URL, by cancelling it."""
    for url in urls:
        await server.cancel(await server.submit(url, namespace), namespace)


async def test_each_namespace_has_its_own_counts(server, receiver, make_receiver):
    refusing = await make_receiver(404)
    await end(server, "red", receiver.url, receiver.url, refusing.url)
    await end(server, "blue", refusing.url)
    await server.settled()
    assert server.webhooks.counts_of("red") == WebhookCounts(delivered=2, failed=1)
    assert server.webhooks.counts_of("blue") == WebhookCounts(failed=1)
    assert server.webhooks.counts == WebhookCounts(delivered=2, failed=2)


async def test_a_namespace_without_deliveries_counts_zeros(server):
    assert server.webhooks.counts_of("unknown") == WebhookCounts()


async def test_a_delivery_counts_once_it_is_over(make_server, receiver):
    server = await make_server(deliver=False)
    await end(server, "red", receiver.url)
    assert server.webhooks.counts_of("red") == WebhookCounts()
    server.deliver()
    await server.settled()
    assert server.webhooks.counts_of("red") == WebhookCounts(delivered=1)


async def test_several_tries_count_as_one_delivery(server, receiver):
    receiver.answers = [503, 503, 200]
    await end(server, "red", receiver.url)
    await server.settled()
    assert server.webhooks.counts_of("red") == WebhookCounts(delivered=1)


async def test_a_delivery_that_raises_counts_as_failed(server):
    await end(server, "red", "http://[::1/hook")
    await server.settled()
    assert server.webhooks.counts_of("red") == WebhookCounts(failed=1)


@pytest.mark.memory_store
async def test_a_full_queue_counts_as_dropped_and_not_as_failed(make_server, receiver):
    server = await make_server(deliver=False, max_pending=1)
    await end(server, "red", receiver.url)
    await end(server, "blue", receiver.url)
    assert server.webhooks.counts_of("red") == WebhookCounts()
    assert server.webhooks.counts_of("blue") == WebhookCounts(dropped=1)


@pytest.mark.memory_store
async def test_what_finish_leaves_counts_as_dropped(make_server, receiver):
    server = await make_server(deliver=False)
    await end(server, "red", receiver.url)
    await end(server, "blue", receiver.url, receiver.url)
    await server.webhooks.finish(0.01)
    dropped = [server.webhooks.counts_of(namespace).dropped for namespace in ("red", "blue")]
    assert (dropped, server.webhooks.counts) == ([1, 2], WebhookCounts(dropped=3))


@pytest.mark.memory_store
async def test_a_delivery_that_is_under_way_when_finish_gives_up_counts_as_dropped(make_server, receiver):
    async def never(_):
        await asyncio.Event().wait()

    receiver.answers = [never]
    server = await make_server(workers=1)
    await end(server, "red", receiver.url, receiver.url)
    await receiver.received()
    await server.webhooks.finish(0.01)
    assert server.webhooks.counts_of("red") == WebhookCounts(dropped=2)
