"""Which tasks are posted, their body and their headers (docs/rules.md, Webhooks)."""

import pytest
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1.task_pb2 import Payload
from taskyard_server.core.errors import QueueFull
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions
from tests import reporting
from tests.live import live

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
START_TEXT = "2023-11-14T22:13:20Z"


def packed_params(**fields):
    params = Struct()
    params.update(fields)
    return params.SerializeToString()


def packed_result(**fields):
    result = Value()
    result.struct_value.update(fields)
    return result.SerializeToString()


async def test_typed_payloads_are_posted_in_base64(server, receiver):
    payload = Payload(data=b"[1]").SerializeToString()
    task = await server.submit(receiver.url, input=payload)
    lease = await server.claim()
    await reporting.complete(server.engine, "default", "host", task.id, lease.token, None, output=payload)
    (post,) = await receiver.received()
    assert (post.json()["input"], post.json()["output"]) == ({"data": "WzFd"}, {"data": "WzFd"})


async def test_the_body_is_the_rest_snapshot_of_the_ended_task(server, receiver):
    task = await server.submit(
        receiver.url,
        agent_id="agent-crawl-01",
        action="type",
        tab_id="8f9c7d4e1234567890abcdef12345678",
        ref="e12",
        priority=5,
        params=packed_params(text="Zürich ☃", scrollY=400, ratio=0.5, deep={"list": [1, 2.5, None, True]}),
        deadline=server.now + 30,
        project="atlas",
        requires=frozenset({"gpu", "browser"}),
        labels=(("team", "crawl"),),
        traceparent=TRACEPARENT,
    )
    lease = await server.claim()
    server.now += 0.842
    result = packed_result(success=True, status=200, height=12.75)
    await reporting.complete(server.engine, "default", "host", task.id, lease.token, result)
    (post,) = await receiver.received()
    assert post.json() == {
        "taskId": task.id,
        "agentId": "agent-crawl-01",
        "action": "type",
        "tabId": "8f9c7d4e1234567890abcdef12345678",
        "ref": "e12",
        "params": {"text": "Zürich ☃", "scrollY": 400, "ratio": 0.5, "deep": {"list": [1, 2.5, None, True]}},
        "priority": 5,
        "state": "done",
        "deadline": "2023-11-14T22:13:50Z",
        "createdAt": START_TEXT,
        "startedAt": START_TEXT,
        "completedAt": "2023-11-14T22:13:20.842Z",
        "latencyMs": 842,
        "result": {"success": True, "status": 200, "height": 12.75},
        "position": 1,
        "callbackUrl": receiver.url,
        "project": "atlas",
        "requires": ["browser", "gpu"],
        "labels": {"team": "crawl"},
        "hostId": "host",
        "traceparent": TRACEPARENT,
    }


async def test_whole_numbers_are_written_without_a_point(server, receiver):
    await server.submit(receiver.url, params=packed_params(scrollY=400, big=2**53, nothing=0, ratio=0.5))
    await server.complete(packed_result(status=-3))
    (post,) = await receiver.received()
    params, result = post.json()["params"], post.json()["result"]
    assert {name: type(value) for name, value in params.items()} == {
        "scrollY": int,
        "big": int,
        "nothing": int,
        "ratio": float,
    }
    assert (params["big"], params["nothing"]) == (2**53, 0)
    assert type(result["status"]) is int
    assert result["status"] == -3


async def test_fields_that_do_not_apply_are_left_out(server, receiver):
    await server.submit(receiver.url)
    await server.complete()
    (post,) = await receiver.received()
    assert sorted(post.json()) == [
        "action",
        "agentId",
        "callbackUrl",
        "completedAt",
        "createdAt",
        "deadline",
        "hostId",
        "latencyMs",
        "position",
        "priority",
        "startedAt",
        "state",
        "taskId",
    ]


async def test_a_done_task_is_posted(server, receiver):
    task = await server.submit(receiver.url)
    await server.complete()
    (post,) = await receiver.received()
    assert (post.json()["taskId"], post.json()["state"]) == (task.id, "done")


async def test_a_failed_task_is_posted_with_its_error(server, receiver):
    task = await server.submit(receiver.url)
    await server.fail("executor returned 422: told to fail")
    (post,) = await receiver.received()
    assert (post.json()["taskId"], post.json()["state"]) == (task.id, "failed")
    assert post.json()["error"] == "executor returned 422: told to fail"


async def test_a_task_that_is_cancelled_in_the_queue_is_posted(server, receiver):
    task = await server.submit(receiver.url)
    await server.cancel(task)
    (post,) = await receiver.received()
    assert (post.json()["taskId"], post.json()["state"]) == (task.id, "cancelled")
    assert "startedAt" not in post.json()


async def test_a_task_that_is_cancelled_while_it_runs_is_posted_once(server, receiver):
    task = await server.submit(receiver.url)
    await server.claim()
    await server.cancel(task)
    await server.settled()
    assert [post.json()["state"] for post in receiver.posts] == ["cancelled"]
    assert server.counts == (1, 0, 0)


async def test_a_task_that_missed_its_deadline_in_the_queue_is_posted(server, receiver):
    await server.submit(receiver.url, deadline=server.now + 1)
    server.now += 2
    await server.engine.hosts.register("default", "host", None, HostProfile(), show=live)
    assert await server.engine.leases.claim("default", "host", show=live) == []
    (post,) = await receiver.received()
    assert (post.json()["state"], post.json()["error"]) == ("failed", "deadline exceeded while queued")


@pytest.mark.memory_store
async def test_tasks_that_are_cancelled_at_shutdown_are_posted(server, receiver):
    await server.submit(receiver.url)
    await server.engine.admin.close()
    (post,) = await receiver.received()
    assert (post.json()["state"], post.json()["error"]) == ("cancelled", "scheduler shutdown")


async def test_a_task_that_is_resumed_in_the_same_turn_is_posted_as_it_ended(server, receiver):
    """Listeners are called once a turn of the event loop, and may find the task in its next run."""
    task = await server.submit(receiver.url, params=packed_params(text="x"))
    lease = await server.claim()
    await reporting.fail(server.engine, "default", "host", task.id, lease.token, "broken")
    await server.engine.tasks.resume("default", task.id, show=live)
    assert task.state == "queued"
    (post,) = await receiver.received()
    body = post.json()
    assert (body["state"], body["error"], body["completedAt"]) == ("failed", "broken", START_TEXT)
    assert body["params"] == {"text": "x"}


async def test_a_failed_task_is_posted_again_when_it_is_resolved(server, receiver):
    task = await server.submit(receiver.url)
    await server.fail("broken")
    await server.engine.tasks.resolve("default", task.id, packed_result(by="hand"), show=live)
    # Each end has a post of its own, and neither waits for the other.
    posts = {post.json()["state"]: post.json() for post in await receiver.received(2)}
    assert posts.keys() == {"failed", "done"}
    assert posts["failed"]["error"] == "broken"
    assert posts["done"]["result"] == {"by": "hand"}


async def test_each_task_of_a_batch_is_posted_with_the_batch(server, receiver):
    submissions = [Submission("ann", "click", options=TaskOptions(callback_url=receiver.url))] * 2
    batch = await server.engine.tasks.submit_batch("default", submissions, show=live)
    await server.complete()
    await server.fail("broken")
    await server.settled()
    posted = [(post.json()["taskId"], post.json()["batchId"]) for post in receiver.posts]
    assert sorted(posted) == sorted((task.id, batch.batch.id) for task in batch.outcomes)


async def test_a_rejected_task_is_not_posted(make_server, receiver):
    server = await make_server(limits=Limits(max_queue_size=1))
    accepted = await server.submit(receiver.url)
    with pytest.raises(QueueFull):
        await server.submit(receiver.url)
    await server.cancel(accepted)
    await server.settled()
    assert [post.json()["taskId"] for post in receiver.posts] == [accepted.id]


async def test_a_task_that_has_not_ended_is_not_posted(server, receiver):
    await server.submit(receiver.url)
    lease = await server.claim()
    await reporting.release(server.engine, "default", "host", lease.task.id, lease.token)
    await server.claim()
    await server.notified()
    await server.settled()
    assert receiver.posts == []
    await server.engine.admin.close()
    await server.settled()
    assert lease.task.state == "paused"
    assert receiver.posts == []


async def test_a_task_without_a_callback_is_not_posted(server, receiver):
    await server.submit(None)
    await server.complete()
    await server.end(receiver.url)
    await server.settled()
    assert len(receiver.posts) == 1
    assert server.counts == (1, 0, 0)


async def test_each_task_is_posted_to_its_own_url(server, receiver, make_receiver):
    other = await make_receiver()
    first, second = await server.end(f"{receiver.url}?from=taskyard&n=1", other.url)
    await server.settled()
    assert [(post.method, post.path, post.json()["taskId"]) for post in receiver.posts] == [
        ("POST", "/hook?from=taskyard&n=1", first.id)
    ]
    assert [(post.method, post.path, post.json()["taskId"]) for post in other.posts] == [("POST", "/hook", second.id)]


async def test_the_documented_headers_name_the_event_and_the_task(server, receiver):
    (task,) = await server.end(receiver.url)
    (post,) = await receiver.received()
    assert ("X-PinchTab-Event", "task.completed") in post.headers
    assert ("X-PinchTab-Task-ID", task.id) in post.headers


async def test_the_event_header_is_the_same_for_every_end(server, receiver):
    await server.submit(receiver.url)
    await server.fail("broken")
    await server.cancel(await server.submit(receiver.url))
    await server.settled()
    assert [post.header("X-PinchTab-Event") for post in receiver.posts] == ["task.completed"] * 2


async def test_the_body_is_sent_as_json_with_its_length_and_host(server, receiver):
    await server.end(receiver.url)
    (post,) = await receiver.received()
    assert post.header("content-type") == "application/json"
    assert post.header("content-length") == str(len(post.body))
    assert post.header("host") == f"127.0.0.1:{receiver.port}"


async def test_the_trace_context_of_the_task_is_sent(server, receiver):
    await server.submit(receiver.url, traceparent=TRACEPARENT)
    await server.complete()
    (post,) = await receiver.received()
    assert [value for name, value in post.headers if name == "traceparent"] == [TRACEPARENT]


async def test_a_task_without_trace_context_sends_none(server, receiver):
    await server.end(receiver.url)
    (post,) = await receiver.received()
    assert post.header("traceparent") is None
