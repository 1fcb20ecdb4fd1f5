"""What is posted, and when (scheduler-reference, Webhook Callbacks; DESIGN, Webhooks)."""

import pytest
from google.protobuf.struct_pb2 import Struct, Value

from taskyard_server.core.errors import QueueFull
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission, TaskOptions
from tests import reporting

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


async def test_the_body_is_the_rest_snapshot_of_the_ended_task(yard, receiver):
    task = await yard.submit(
        receiver.url,
        agent_id="agent-crawl-01",
        action="type",
        tab_id="8f9c7d4e1234567890abcdef12345678",
        ref="e12",
        priority=5,
        params=packed_params(text="Zürich ☃", scrollY=400, ratio=0.5, deep={"list": [1, 2.5, None, True]}),
        deadline=yard.now + 30,
        project="atlas",
        requires=frozenset({"gpu", "browser"}),
        labels=(("team", "crawl"),),
        traceparent=TRACEPARENT,
    )
    lease = await yard.claim()
    yard.now += 0.842
    result = packed_result(success=True, status=200, height=12.75)
    await reporting.complete(yard.engine, "default", "host", task.id, lease.token, result)
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


async def test_whole_numbers_are_written_without_a_point(yard, receiver):
    await yard.submit(receiver.url, params=packed_params(scrollY=400, big=2**53, nothing=0, ratio=0.5))
    await yard.complete(packed_result(status=-3))
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


async def test_what_a_task_does_not_have_is_left_out(yard, receiver):
    await yard.submit(receiver.url)
    await yard.complete()
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


async def test_a_done_task_is_posted(yard, receiver):
    task = await yard.submit(receiver.url)
    await yard.complete()
    (post,) = await receiver.received()
    assert (post.json()["taskId"], post.json()["state"]) == (task.id, "done")


async def test_a_failed_task_is_posted_with_its_error(yard, receiver):
    task = await yard.submit(receiver.url)
    await yard.fail("executor returned 422: told to fail")
    (post,) = await receiver.received()
    assert (post.json()["taskId"], post.json()["state"]) == (task.id, "failed")
    assert post.json()["error"] == "executor returned 422: told to fail"


async def test_a_task_that_is_cancelled_in_the_queue_is_posted(yard, receiver):
    task = await yard.submit(receiver.url)
    await yard.cancel(task)
    (post,) = await receiver.received()
    assert (post.json()["taskId"], post.json()["state"]) == (task.id, "cancelled")
    assert "startedAt" not in post.json()


async def test_a_task_that_is_cancelled_while_it_runs_is_posted_once(yard, receiver):
    task = await yard.submit(receiver.url)
    await yard.claim()
    await yard.cancel(task)
    await yard.settled()
    assert [post.json()["state"] for post in receiver.posts] == ["cancelled"]
    assert yard.counts == (1, 0, 0)


async def test_a_task_that_missed_its_deadline_in_the_queue_is_posted(yard, receiver):
    await yard.submit(receiver.url, deadline=yard.now + 1)
    yard.now += 2
    await yard.engine.hosts.register("default", "host", None, HostProfile())
    assert await yard.engine.leases.claim("default", "host") == []
    (post,) = await receiver.received()
    assert (post.json()["state"], post.json()["error"]) == ("failed", "deadline exceeded while queued")


async def test_tasks_that_end_with_the_scheduler_are_posted(yard, receiver):
    await yard.submit(receiver.url)
    await yard.engine.admin.close()
    (post,) = await receiver.received()
    assert (post.json()["state"], post.json()["error"]) == ("cancelled", "scheduler shutdown")


async def test_each_task_of_a_batch_is_posted_with_the_batch(yard, receiver):
    asked = [Submission("ann", "click", options=TaskOptions(callback_url=receiver.url))] * 2
    batch = await yard.engine.tasks.submit_batch("default", asked)
    await yard.complete()
    await yard.fail("broken")
    await yard.settled()
    posted = [(post.json()["taskId"], post.json()["batchId"]) for post in receiver.posts]
    assert sorted(posted) == sorted((task.id, batch.batch.id) for task in batch.outcomes)


async def test_a_rejected_task_is_not_posted(make_yard, receiver):
    yard = make_yard(limits=Limits(max_queue_size=1))
    accepted = await yard.submit(receiver.url)
    with pytest.raises(QueueFull):
        await yard.submit(receiver.url)
    await yard.cancel(accepted)
    await yard.settled()
    assert [post.json()["taskId"] for post in receiver.posts] == [accepted.id]


async def test_a_task_on_its_way_is_not_posted(yard, receiver):
    await yard.submit(receiver.url)
    lease = await yard.claim()
    await reporting.release(yard.engine, "default", "host", lease.task.id, lease.token)
    await yard.claim()
    await yard.tell()
    await yard.settled()
    assert receiver.posts == []
    await yard.engine.admin.close()
    await yard.settled()
    assert lease.task.state == "paused"
    assert receiver.posts == []


async def test_a_task_without_a_callback_is_not_posted(yard, receiver):
    await yard.submit(None)
    await yard.complete()
    await yard.end(receiver.url)
    await yard.settled()
    assert len(receiver.posts) == 1
    assert yard.counts == (1, 0, 0)


async def test_each_task_is_posted_to_its_own_url(yard, receiver, make_receiver):
    other = await make_receiver()
    ours, theirs = await yard.end(f"{receiver.url}?from=taskyard&n=1", other.url)
    await yard.settled()
    assert [(post.method, post.path, post.json()["taskId"]) for post in receiver.posts] == [
        ("POST", "/hook?from=taskyard&n=1", ours.id)
    ]
    assert [(post.method, post.path, post.json()["taskId"]) for post in other.posts] == [("POST", "/hook", theirs.id)]


async def test_the_documented_headers_are_sent_under_their_documented_names(yard, receiver):
    (task,) = await yard.end(receiver.url)
    (post,) = await receiver.received()
    assert ("X-PinchTab-Event", "task.completed") in post.headers
    assert ("X-PinchTab-Task-ID", task.id) in post.headers


async def test_the_event_header_is_the_same_however_the_task_ended(yard, receiver):
    await yard.submit(receiver.url)
    await yard.fail("broken")
    await yard.cancel(await yard.submit(receiver.url))
    await yard.settled()
    assert [post.header("X-PinchTab-Event") for post in receiver.posts] == ["task.completed"] * 2


async def test_the_body_is_sent_as_json_with_its_length_and_host(yard, receiver):
    await yard.end(receiver.url)
    (post,) = await receiver.received()
    assert post.header("content-type") == "application/json"
    assert post.header("content-length") == str(len(post.body))
    assert post.header("host") == f"127.0.0.1:{receiver.port}"


async def test_the_traceparent_of_the_submitter_is_passed_on(yard, receiver):
    await yard.submit(receiver.url, traceparent=TRACEPARENT)
    await yard.complete()
    (post,) = await receiver.received()
    assert [value for name, value in post.headers if name == "traceparent"] == [TRACEPARENT]


async def test_no_traceparent_is_made_up(yard, receiver):
    await yard.end(receiver.url)
    (post,) = await receiver.received()
    assert post.header("traceparent") is None
