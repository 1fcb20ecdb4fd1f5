"""With a store a webhook is kept from the commit that ends its task until it is done (docs/rules.md, Webhooks)."""

import asyncio
from base64 import b64encode

import pytest

from taskyard_server.core.limits import Limits
from taskyard_server.engine import outbox as outbox_module
from taskyard_server.store.port import CommitDelayed, Table, key_of, namespace_of, number_of
from taskyard_server.store.records.deliveries import decode_delivery
from taskyard_server.store.sqlite.store import SqliteStore
from taskyard_server.webhooks.webhooks import WebhookCounts
from tests import reporting
from tests.live import live
from tests.store.dict_store import DictStore
from tests.store.groups import rows_of
from tests.waiting import until
from tests.webhooks.conftest import MAX_WAIT_SECS, Server

SECRET = "whsec_" + b64encode(b"a secret of twenty-four.").decode()


class Gate:
    """An answer that is delayed until the gate is opened."""

    def __init__(self):
        self.opened = asyncio.Event()

    async def __call__(self, writer):
        await self.opened.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


class CountingStore(DictStore):
    """Counts the reads of the outbox, and can hold back or refuse them."""

    def __init__(self):
        super().__init__()
        self.reads = 0
        self.refused = 0
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def rows(self, table, **within):
        found = [rows async for rows in super().rows(table, **within)]
        if table is Table.OUTBOX:
            self.reads += 1
            await self.may_read.wait()
            if self.refused:
                self.refused -= 1
                raise CommitDelayed("the disk is busy")
        for rows in found:
            yield rows


@pytest.fixture
async def start(make_server, monkeypatch):
    """Starts a `Server` over a store; `limits` and `deliver` as in `make_server`."""
    del make_server  # for its patches
    monkeypatch.setattr(outbox_module, "REMOVE_AFTER_SECS", 0.01)
    made = []

    async def start(store, *, deliver=True, **settings):
        server = Server()
        made.append(server)
        await server.open({"secret": SECRET, **settings}, Limits(), store)
        if deliver:
            server.deliver()
        return server

    yield start
    for server in made:
        await server.close()


@pytest.fixture
def store():
    return DictStore()


def due(store):
    """Namespace number, number and task of each delivery in the outbox."""
    rows = sorted(store.tables[Table.OUTBOX].items())
    return [(namespace_of(key), number_of(key), decode_delivery(record).task_id) for key, record in rows]


def ids(posts):
    return [post.header("webhook-id") for post in posts]


async def removed(store, left=0):
    """Once no more than so many rows are left in the outbox."""
    await until(lambda: len(store.tables[Table.OUTBOX]) <= left)


async def end(server, namespace, *urls):
    """Cancel one new task for each URL; their ids."""
    found = []
    for url in urls:
        task = await server.submit(url, namespace)
        await server.engine.tasks.cancel(namespace, task.id, show=live)
        found.append(task.id)
    return found


async def test_the_commit_that_ends_a_task_keeps_its_webhook(start, store, receiver):
    server = await start(store, deliver=False)
    task = await server.submit(receiver.url)
    lease = await server.claim()
    assert due(store) == []
    await reporting.complete(server.engine, "default", "host", task.id, lease.token, None)
    assert due(store) == [(1, 1, task.id)]
    assert store.ended.keys() == {key_of(1, task.seq)}


async def test_a_task_without_a_callback_has_no_row(start, store):
    server = await start(store)
    await server.end(None)
    await end(server, "red", None)
    assert due(store) == []


async def test_a_row_goes_after_its_delivery(start, store, receiver):
    server = await start(store)
    (task,) = await server.end(receiver.url)
    assert ids(await receiver.received()) == [f"{task.id}-1-done"]
    await server.settled()
    assert server.counts == (1, 0, 0)
    await removed(store)


@pytest.mark.parametrize(("answer", "tries"), [(503, 3), (404, 1)])
async def test_a_row_goes_after_its_last_failure(start, store, receiver, answer, tries):
    receiver.answers = [answer]
    server = await start(store)
    await server.end(receiver.url)
    await server.settled()
    assert server.counts == (0, 1, 0)
    assert len(receiver.posts) == tries
    await removed(store)


async def test_a_row_goes_after_a_delivery_that_raises(start, store):
    server = await start(store)
    await server.end("http://[::1/hook")
    await server.settled()
    assert server.counts == (0, 1, 0)
    await removed(store)


async def test_rows_go_together_without_a_commit_for_each(start, store, receiver):
    server = await start(store, deliver=False, workers=4)
    await server.end(*[receiver.url] * 20)
    before = store.meta.number
    server.webhooks._outbox.done("default", 1)
    server.webhooks._outbox.done("default", 2)
    assert len(due(store)) == 20
    await until(lambda: len(due(store)) < 20)
    assert [number for _, number, _ in due(store)] == list(range(3, 21))
    assert store.meta.number == before + 1


async def test_rows_go_with_a_commit_that_comes_anyway(start, store, receiver, monkeypatch):
    monkeypatch.setattr(outbox_module, "REMOVE_AFTER_SECS", 60)
    server = await start(store)
    await server.end(receiver.url)
    await server.settled()
    assert len(due(store)) == 1
    await server.submit(None)
    assert due(store) == []


async def test_what_is_done_is_removed_before_the_store_is_closed(start, store, receiver, monkeypatch):
    monkeypatch.setattr(outbox_module, "REMOVE_AFTER_SECS", 60)
    server = await start(store)
    await server.end(receiver.url)
    await server.settled()
    await server.close()
    assert due(store) == []


async def test_what_was_due_at_a_kill_is_delivered_by_the_next_server(start, store, receiver):
    first = await start(store, deliver=False)
    tasks = await first.end(*[receiver.url] * 3)
    left = store.copy()
    second = await start(left, workers=1)
    posts = await receiver.received(3)
    assert [post.json()["taskId"] for post in posts] == [task.id for task in tasks]
    await second.settled()
    assert second.counts == (3, 0, 0)
    await removed(left)


async def test_what_is_due_is_delivered_after_its_task_has_left_memory(start, store, receiver):
    first = await start(store, deliver=False)
    (task,) = await first.end(receiver.url)
    left = store.copy()
    left.tables[Table.TASKS].clear()
    left.ended.clear()
    second = await start(left)
    (post,) = await receiver.received()
    assert (post.json()["taskId"], post.json()["state"]) == (task.id, "done")
    await second.settled()


async def test_numbers_go_on_after_a_restart(start, store, receiver):
    first = await start(store, deliver=False)
    await first.end(receiver.url, receiver.url)
    left = store.copy()
    second = await start(left, deliver=False)
    await second.end(receiver.url)
    assert [number for _, number, _ in due(left)] == [1, 2, 3]


async def test_old_ones_come_before_new_ones(start, store, receiver):
    first = await start(store, deliver=False)
    old = await first.end(receiver.url, receiver.url)
    left = store.copy()
    second = await start(left, deliver=False, workers=1)
    new = await second.end(receiver.url)
    second.deliver()
    new += await second.end(receiver.url)
    posts = await receiver.received(4)
    assert [post.json()["taskId"] for post in posts] == [task.id for task in old + new]
    await second.settled()
    assert second.counts == (4, 0, 0)


async def test_a_kill_between_delivery_and_removal_delivers_again_with_the_same_id(start, store, receiver, monkeypatch):
    monkeypatch.setattr(outbox_module, "REMOVE_AFTER_SECS", 60)
    first = await start(store)
    (task,) = await first.end(receiver.url)
    await first.settled()
    await start(store.copy())
    assert ids(await receiver.received(2)) == [f"{task.id}-1-done"] * 2
    assert receiver.posts[0].body == receiver.posts[1].body


async def test_a_kill_during_a_delivery_delivers_again(start, store, receiver):
    gate = Gate()
    receiver.answers = [gate, 200]
    first = await start(store)
    await first.end(receiver.url)
    await receiver.received()
    left = store.copy()
    second = await start(left)
    await receiver.received(2)
    await second.settled()
    await removed(left)
    gate.opened.set()


async def test_workers_that_are_cancelled_leave_their_deliveries_in_the_outbox(start, store, receiver):
    receiver.answers = [Gate()]
    server = await start(store)
    await server.end(receiver.url)
    await receiver.received()
    await server.close()
    assert len(due(store)) == 1


async def test_the_body_is_what_was_true_at_the_end_though_the_task_has_gone_on(start, store, receiver):
    """The commit comes after the turn: the task has been resumed, and has ended again, before anything is posted."""
    server = await start(store, deliver=False, workers=1)
    task = await server.submit(receiver.url)
    await server.fail("broken")
    await server.engine.tasks.resume("default", task.id, show=live)
    await server.complete(b"\x1a\x04good")
    server.deliver()
    failed, done = [post.json() for post in await receiver.received(2)]
    assert (failed["state"], failed["error"]) == ("failed", "broken")
    assert "result" not in failed
    assert (done["state"], done["result"]) == ("done", "good")


async def test_nothing_is_dropped_where_the_queue_is_full(start, store, receiver, logged):
    server = await start(store, deliver=False, max_pending=2, workers=1)
    tasks = await server.end(*[receiver.url] * 50)
    server.deliver()
    await server.settled()
    assert server.counts == (50, 0, 0)
    assert [post.json()["taskId"] for post in receiver.posts] == [task.id for task in tasks]
    assert {line["event"] for line in logged} == {"webhook_delivered"}
    await removed(store)


@pytest.mark.parametrize("max_pending", [1, 2, 3, 10])
async def test_all_arrive_once_in_the_order_of_each_namespace_while_more_come(start, store, receiver, max_pending):
    server = await start(store, max_pending=max_pending, workers=1)
    expected = {"red": [], "blue": [], "green": []}
    for _ in range(17):
        for namespace in expected:
            expected[namespace] += await end(server, namespace, receiver.url)
        await asyncio.sleep(0)
    await server.settled()
    arrived = [post.json()["taskId"] for post in receiver.posts]
    assert len(arrived) == 51
    for namespace, tasks in expected.items():
        assert [task for task in arrived if task in tasks] == tasks
        assert server.webhooks.counts_of(namespace) == WebhookCounts(delivered=17)
    await removed(store)


async def test_the_memory_holds_no_more_than_the_queue(start, store, receiver):
    gate = Gate()
    receiver.answers = [gate]
    server = await start(store, max_pending=2, workers=1)
    await server.end(*[receiver.url] * 20)
    await receiver.received()
    assert server.webhooks._pending.qsize() <= 2
    gate.opened.set()
    await server.settled()
    assert server.counts == (20, 0, 0)


async def test_a_namespace_with_many_does_not_hold_up_another(start, store, receiver):
    first = await start(store, deliver=False)
    await end(first, "red", *[receiver.url] * 30)
    (blue,) = await end(first, "blue", receiver.url)
    await start(store.copy(), max_pending=4, workers=1)
    await receiver.received(31)
    assert [post.json()["taskId"] for post in receiver.posts].index(blue) <= 8


async def test_one_that_is_committed_while_the_last_are_read_is_not_forgotten(start, receiver):
    store = CountingStore()
    server = await start(store, deliver=False, max_pending=2, workers=1)
    await server.end(receiver.url)
    store.may_read.clear()
    server.deliver()
    await until(lambda: store.reads)
    await server.end(receiver.url)
    store.may_read.set()
    await server.settled()
    assert server.counts == (2, 0, 0)
    # Now nothing waits in the store: the next needs no read.
    reads = store.reads
    await server.end(receiver.url)
    await server.settled()
    assert (server.counts, store.reads) == ((3, 0, 0), reads)


async def test_a_read_that_failed_is_repeated(start, receiver, monkeypatch):
    monkeypatch.setattr("taskyard_server.webhooks.backlog.REPEAT_AFTER_SECS", 0.01)
    store = CountingStore()
    store.refused = 2
    server = await start(store, deliver=False)
    await server.end(receiver.url)
    server.deliver()
    await server.settled()
    assert server.counts == (1, 0, 0)


async def test_what_finish_leaves_is_not_dropped(start, store, receiver, logged):
    server = await start(store, deliver=False)
    await server.end(*[receiver.url] * 3)
    await server.webhooks.finish(0.01)
    assert server.counts == (0, 0, 0)
    assert [(line["event"], line["log_level"]) for line in logged] == [("webhooks_kept", "info")]
    assert len(due(store)) == 3


async def test_finish_waits_for_what_is_not_committed_yet(start, store, receiver):
    server = await start(store)
    task = await server.submit(receiver.url)
    cancelling = asyncio.create_task(server.engine.tasks.cancel("default", task.id, show=live))
    await asyncio.sleep(0)
    assert due(store) == []
    await server.engine.admin.close()
    await server.webhooks.finish(MAX_WAIT_SECS)
    await cancelling
    assert server.counts == (1, 0, 0)


async def test_a_shutdown_cancels_no_task_and_so_posts_none(start, store, receiver):
    server = await start(store)
    task = await server.submit(receiver.url)
    await server.engine.admin.close()
    await server.webhooks.finish(MAX_WAIT_SECS)
    assert (task.state, due(store), receiver.posts) == ("queued", [], [])


async def test_a_record_that_cannot_be_read_stays_and_holds_up_no_other(start, store, receiver, logged):
    first = await start(store, deliver=False)
    await first.end(receiver.url, receiver.url)
    left = store.copy()
    left.tables[Table.OUTBOX][key_of(1, 1)] = b"\xc1"
    second = await start(left)
    await second.settled()
    assert second.counts == (1, 0, 0)
    await removed(left, 1)
    assert list(left.tables[Table.OUTBOX]) == [key_of(1, 1)]
    assert [(line["namespace"], line["number"]) for line in logged if line["event"] == "webhook_unreadable"] == [
        ("default", 1)
    ]


async def test_the_rows_of_a_namespace_at_fault_stay_as_they_are(start, store, receiver):
    first = await start(store, deliver=False)
    await end(first, "red", receiver.url)
    (blue,) = await end(first, "blue", receiver.url)
    left = store.copy()
    left.tables[Table.TASKS][next(iter(left.tables[Table.TASKS]))] = b"\xc1"
    before = dict(left.tables[Table.OUTBOX])
    second = await start(left)
    second.engine.admin.reconcile()
    await second.settled()
    assert [post.json()["taskId"] for post in receiver.posts] == [blue]
    await second.close()
    assert left.tables[Table.OUTBOX] == {key: row for key, row in before.items() if namespace_of(key) == 1}


async def test_the_outbox_of_a_file_is_delivered_after_a_restart(start, receiver, tmp_path):
    path = str(tmp_path / "yard.db")
    first = await start(SqliteStore(path, min_free_bytes=0), deliver=False)
    tasks = await first.end(*[receiver.url] * 5)
    await first.close()
    store = SqliteStore(path, min_free_bytes=0)
    second = await start(store, max_pending=2, workers=1)
    await second.settled()
    assert [post.json()["taskId"] for post in receiver.posts] == [task.id for task in tasks]
    second.engine.outbox.remove_done()
    await asyncio.sleep(0)
    await second.engine.persistence.committer.settle()
    assert await rows_of(store, Table.OUTBOX) == []
