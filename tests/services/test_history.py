"""Tasks that have left memory, over the services (docs/rules.md, History), and listings by time and age."""

from itertools import chain

import pytest
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import task_pb2 as pb
from taskyard_server.core.limits import Limits
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from tests.store.dict_store import DictStore

STATE = pb.Task.State


@pytest.fixture
async def start_kept(start_api, clock):
    """Starts a server whose ended tasks leave memory at once."""
    engines = []

    async def start(history_days=7.0, **limits):
        limits = Limits(**{"max_retained_tasks": 0, **limits})
        engine = Engine(limits, clock, store=DictStore(), store_options=StoreOptions(history_days=history_days))
        await engine.open()
        engines.append(engine)
        return await start_api(engine)

    yield start
    for engine in engines:
        await engine.admin.close()


@pytest.fixture
async def kept(start_kept):
    return await start_kept()


async def fail(api, task_id):
    """Let a task fail; it leaves memory."""
    (lease,) = await api.claim()
    assert lease.task.id == task_id
    for report in (
        Report(ReportKind.STARTED, task_id, lease.token),
        Report(ReportKind.FAILED, task_id, lease.token, error="broken", retryable=False),
    ):
        await api.engine.leases.report("default", "host", [report])
    assert api.engine.tasks.state_of("default", task_id) is None


async def cancelled(api, clock, count, secs=1.0):
    """The ids of tasks that were cancelled, so many seconds after one another."""
    ids = []
    for _ in range(count):
        ids.append((await api.submit()).task_id)
        await api.cancel(ids[-1])
        clock.now += secs
    return ids


async def in_pages(api, **fields):
    pages, token = [], None
    while True:
        response = await api.list_tasks(**fields, page_token=token)
        assert response.count == len(response.tasks)
        pages.append([task.task_id for task in response.tasks])
        if not response.HasField("next_page_token"):
            return pages
        token = response.next_page_token


async def test_an_ended_task_is_shown_as_it_was(kept):
    task_id = (await kept.submit(target="t", labels={"a": "b"}, idempotency_key="k")).task_id
    before = await kept.get(task_id)
    await kept.cancel(task_id)
    assert kept.engine.tasks.state_of("default", task_id) is None
    after = await kept.get(task_id)
    assert (after.state, after.HasField("completed_at")) == (STATE.cancelled, True)
    for message in (before, after):
        message.ClearField("state")
        message.ClearField("completed_at")
    assert after == before
    waited = await kept.wait(task_id)
    assert (waited.ended, waited.task.state) == (True, STATE.cancelled)


async def test_a_failed_task_is_resumed_and_one_that_fails_again_resolved(kept):
    task_id = (await kept.submit()).task_id
    await fail(kept, task_id)
    assert (await kept.get(task_id)).state == STATE.failed
    assert (await kept.resume(task_id)).status == STATE.queued
    assert (await kept.get(task_id)).run == 2
    await fail(kept, task_id)
    result = Value(string_value="by hand")
    assert (await kept.resolve(task_id, result=result)).status == STATE.done
    resolved = await kept.get(task_id)
    assert (resolved.state, resolved.result) == (STATE.done, result)


async def test_what_has_ended_otherwise_is_a_conflict(kept, refused):
    task_id = (await kept.submit()).task_id
    await kept.cancel(task_id)
    for call in (kept.cancel, kept.pause, kept.resume, kept.resolve):
        assert (await refused(call(task_id))).code == "conflict"
    assert (await refused(kept.resume_target_task("t", task_id))).code == "not_found"


async def test_an_unknown_id_is_not_found(kept, refused):
    task_id = (await kept.submit()).task_id
    await kept.cancel(task_id)
    for wrong in ("tsk_1", task_id[:-1] + ("0" if task_id[-1] != "0" else "1"), "tsk_" + "f" * 32):
        for call in (kept.get, kept.wait, kept.cancel, kept.pause, kept.resume, kept.resolve):
            assert (await refused(call(wrong))).code == "not_found"
    other = (("taskyard-namespace", "other"),)
    await kept.submit(metadata=other)
    assert (await refused(kept.get(task_id, metadata=other))).code == "not_found"


async def test_every_listing_goes_both_ways_with_the_same_tasks(kept, clock):
    ids = await cancelled(kept, clock, 7)
    for size in (1, 3, 7, 1000):
        assert list(chain(*await in_pages(kept, history=True, page_size=size))) == ids
        assert list(chain(*await in_pages(kept, history=True, newest_first=True, page_size=size))) == ids[::-1]
    assert (await kept.list_tasks()).count == 0


async def test_a_time_that_was_shown_bounds_a_listing_exactly(kept, api, clock):
    clock.now = 1_700_000_000.1234567
    for server in (kept, api):
        ids = await cancelled(server, clock, 9, secs=0.0000013)
        history = server is kept
        shown = {task_id: task.created_at for task_id, task in zip(ids, await tasks(server, history), strict=True)}
        for place, task_id in enumerate(ids):
            for newest_first in (False, True):
                order = slice(None, None, -1 if newest_first else 1)
                later = await in_pages(
                    server, history=history, newest_first=newest_first, created_from=shown[task_id], page_size=2
                )
                earlier = await in_pages(
                    server, history=history, newest_first=newest_first, created_until=shown[task_id], page_size=2
                )
                assert list(chain(*later)) == ids[place:][order]
                assert list(chain(*earlier)) == ids[:place][order]


async def test_a_page_token_is_of_one_order_one_range_and_one_door(kept, clock, refused):
    await cancelled(kept, clock, 3)
    for _ in range(2):
        await kept.submit()
    some = at(clock.now - 100)
    selections = [
        {},
        {"history": True},
        {"newest_first": True},
        {"history": True, "newest_first": True},
        {"history": True, "created_from": some},
        {"history": True, "created_until": at(clock.now + 100)},
    ]
    for place, selection in enumerate(selections):
        token = (await kept.list_tasks(**selection, page_size=1)).next_page_token
        for other in selections[:place] + selections[place + 1 :]:
            assert (await refused(kept.list_tasks(**other, page_token=token))).code == "bad_request"


@pytest.mark.parametrize("field", ["created_from", "created_until"])
async def test_a_time_that_is_none_is_a_bad_request(api, refused, field):
    shown = {"created_from": "createdFrom", "created_until": "createdUntil"}[field]
    for wrong in (Timestamp(seconds=253_402_300_800), Timestamp(nanos=-1), Timestamp(seconds=-(10**12))):
        refusal = await refused(api.list_tasks(**{field: wrong}))
        assert refusal.code == "bad_request"
        assert refusal.message.startswith(f"{shown}: ")


async def test_times_at_the_edges_of_the_calendar_bound_nothing(api):
    await api.submit()
    first, last = Timestamp(seconds=-62_135_596_800), Timestamp(seconds=253_402_300_799, nanos=999_000_000)
    assert (await api.list_tasks(created_from=first, created_until=last)).count == 1
    assert (await api.list_tasks(created_from=last)).count == (await api.list_tasks(created_until=first)).count == 0


async def test_a_server_without_history_says_why(start_api, start_kept, refused):
    keeps_nothing = await start_api(Engine(Limits()))
    refusal = await refused(keeps_nothing.list_tasks(history=True))
    assert (refusal.code, "memory://" in refusal.message) == ("bad_request", True)
    without = await start_kept(history_days=0)
    refusal = await refused(without.list_tasks(history=True))
    assert (refusal.code, "store.historyDays is 0" in refusal.message) == ("bad_request", True)


async def test_a_wrong_state_name_is_refused_in_the_history_too(kept, refused):
    assert (await refused(kept.list_tasks(history=True, state="finished"))).code == "bad_request"


async def tasks(api, history):
    return (await api.list_tasks(history=history)).tasks


def at(secs):
    time = Timestamp()
    time.FromMicroseconds(int(secs * 1e6))
    return time
