"""SubmitTask (docs/rules.md, Submitting): request fields and responses."""

import re

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.task_pb2 import SubmitTaskRequest, Unique

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def in_secs(api, secs):
    """The time of the server in `secs` seconds."""
    return Timestamp(seconds=int(api.engine.now()) + secs)


async def test_the_response_is_the_documented_one(api):
    response = await api.submit()
    body = MessageToDict(response)
    assert body == {
        "taskId": response.task_id,
        "state": "queued",
        "position": 1,
        "createdAt": body["createdAt"],
    }
    assert re.fullmatch(r"tsk_[0-9a-f]{32}", response.task_id)
    assert response.created_at.seconds == pytest.approx(api.engine.now(), abs=5)


async def test_the_documented_request_is_accepted_and_its_fields_are_shown(api):
    request = {
        "agentId": "agent-crawl-01",
        "action": "click",
        "tabId": "8f9c7d4e1234567890abcdef12345678",
        "ref": "e14",
        "params": {"text": "Alan Turing", "deep": {"list": [1, None, True, "x"]}},
        "priority": 5,
        "deadline": "2126-03-08T12:05:00Z",
        "callbackUrl": "https://example.com/hooks/task-done",
    }
    response = await api.tasks.SubmitTask(ParseDict(request, SubmitTaskRequest()))
    task = MessageToDict(await api.get(response.task_id))
    assert {field: task[field] for field in request} == request


async def test_further_fields_are_shown(api):
    response = await api.submit(project="red", requires=["gpu", "big"], labels={"run": "7"}, traceparent=TRACE)
    task = await api.get(response.task_id)
    assert task.project == "red"
    assert task.requires == ["big", "gpu"]
    assert task.labels == {"run": "7"}
    assert task.traceparent == TRACE


async def test_how_a_task_stands_to_others_is_shown(api):
    response = await api.submit(
        target="shop",
        concurrency_keys=["site:b", "site:a", "site:b"],
        unique_key="night",
        unique_while=Unique.queued,
        on_conflict=Unique.reject,
        on_target_failure="continue",
        selector="#btn",
    )
    task = await api.get(response.task_id)
    assert task.selector == "#btn"
    assert task.concurrency_keys == ["site:a", "site:b"]
    assert (task.unique_key, task.unique_while, task.on_target_failure) == ("night", Unique.queued, "continue")
    assert not response.HasField("existing")


async def test_fields_that_are_not_set_are_absent_from_the_task(api):
    response = await api.submit()
    assert set(MessageToDict(await api.get(response.task_id))) == {
        "taskId",
        "agentId",
        "action",
        "priority",
        "state",
        "deadline",
        "createdAt",
        "position",
    }


async def test_empty_params_differ_from_missing_params(api):
    response = await api.submit(params=Struct())
    task = await api.get(response.task_id)
    assert task.HasField("params")
    assert not task.params.fields


async def test_priority_is_zero_by_default_and_can_be_negative(api):
    assert (await api.get((await api.submit()).task_id)).priority == 0
    assert (await api.get((await api.submit(priority=-(2**31))).task_id)).priority == -(2**31)
    assert (await api.get((await api.submit(priority=2**31 - 1)).task_id)).priority == 2**31 - 1


async def test_the_deadline_defaults_to_sixty_seconds_from_now(api):
    response = await api.submit()
    task = await api.get(response.task_id)
    assert task.deadline.ToNanoseconds() - task.created_at.ToNanoseconds() == pytest.approx(60e9, abs=1000)


async def test_the_deadline_has_microsecond_precision(api):
    response = await api.submit(deadline=Timestamp(seconds=4_000_000_000, nanos=123_456_000))
    assert (await api.get(response.task_id)).deadline == Timestamp(seconds=4_000_000_000, nanos=123_456_000)


async def test_the_last_second_before_the_year_10000_is_a_valid_deadline(api):
    response = await api.submit(deadline=Timestamp(seconds=253_402_300_799))
    assert (await api.get(response.task_id)).deadline.ToJsonString() == "9999-12-31T23:59:59Z"


async def test_the_latest_valid_deadline_can_be_listed(api):
    response = await api.submit(deadline=Timestamp(seconds=253_402_300_799, nanos=999_984_000))
    (listed,) = (await api.list_tasks()).tasks
    assert listed.task_id == response.task_id
    assert listed.deadline.ToJsonString() < "9999-12-31T23:59:59.999985Z"


async def test_a_task_without_a_tab_is_accepted(api):
    """It fails later, during execution (docs/rules.md, Executor answers)."""
    response = await api.submit()
    assert not (await api.get(response.task_id)).HasField("tab_id")


async def test_position_counts_the_queued_tasks_of_all_agents(api):
    positions = [(await api.submit(agent_id=agent)).position for agent in ("ann", "bob", "ann")]
    assert positions == [1, 2, 3]


async def test_position_counts_only_tasks_that_are_still_queued(api):
    first = await api.submit()
    await api.submit()
    await api.cancel(first.task_id)
    assert (await api.submit()).position == 2


async def test_equal_submissions_are_different_tasks(api):
    assert (await api.submit()).task_id != (await api.submit()).task_id


async def test_the_trace_context_of_the_call_is_kept_unless_the_task_has_one(api):
    other = TRACE.replace("0af7", "ffff")
    from_call = await api.submit(metadata=(("traceparent", TRACE),))
    from_task = await api.submit(metadata=(("traceparent", TRACE),), traceparent=other)
    assert (await api.get(from_call.task_id)).traceparent == TRACE
    assert (await api.get(from_task.task_id)).traceparent == other


async def test_a_malformed_trace_context_of_the_call_is_ignored(api):
    response = await api.submit(metadata=(("traceparent", "nonsense"),))
    assert not (await api.get(response.task_id)).HasField("traceparent")


async def test_names_can_be_in_any_language_and_1024_characters_long(api):
    name = "Größ-工-🙂" * 128
    assert len(name) == 1024
    response = await api.submit(agent_id=name, action=name, tab_id=name, ref=name, project=name)
    task = await api.get(response.task_id)
    assert {task.agent_id, task.action, task.tab_id, task.ref, task.project} == {name}


async def test_params_can_be_as_large_as_the_limit(start_api):
    params = Struct()
    params["text"] = "x" * 1000
    api = await start_api(max_payload_bytes=params.ByteSize())
    response = await api.submit(params=params)
    assert (await api.get(response.task_id)).params == params


@pytest.mark.parametrize("url", ["http://a", "https://example.com:8443/x?y=z#f", "http://127.0.0.1/", "http://[::1]/x"])
async def test_a_callback_can_be_any_http_or_https_url(api, url):
    """True if it may be called is checked at delivery (docs/rules.md, Webhooks)."""
    response = await api.submit(callback_url=url)
    assert (await api.get(response.task_id)).callback_url == url
