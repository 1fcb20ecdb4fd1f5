"""SubmitTask (scheduler-reference, Submit A Task): the table of request fields, and what is answered."""

import re

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.task_pb2 import SubmitTaskRequest

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def in_secs(api, secs):
    """A time so many seconds ahead of the server's."""
    return Timestamp(seconds=int(api.engine.now()) + secs)


async def test_the_answer_is_the_documented_one(api):
    answer = await api.submit()
    shown = MessageToDict(answer)
    assert shown == {
        "taskId": answer.task_id,
        "state": "queued",
        "position": 1,
        "createdAt": shown["createdAt"],
    }
    assert re.fullmatch(r"tsk_[0-9a-f]{32}", answer.task_id)
    assert answer.created_at.seconds == pytest.approx(api.engine.now(), abs=5)


async def test_the_documented_request_is_taken_and_shown_as_it_was_sent(api):
    asked = {
        "agentId": "agent-crawl-01",
        "action": "click",
        "tabId": "8f9c7d4e1234567890abcdef12345678",
        "ref": "e14",
        "params": {"text": "Alan Turing", "deep": {"list": [1, None, True, "x"]}},
        "priority": 5,
        "deadline": "2126-03-08T12:05:00Z",
        "callbackUrl": "https://example.com/hooks/task-done",
    }
    answer = await api.tasks.SubmitTask(ParseDict(asked, SubmitTaskRequest()))
    task = MessageToDict(await api.get(answer.task_id))
    assert {field: task[field] for field in asked} == asked


async def test_fields_beyond_the_documented_ones_are_kept_and_shown(api):
    answer = await api.submit(project="red", requires=["gpu", "big"], labels={"run": "7"}, traceparent=TRACE)
    task = await api.get(answer.task_id)
    assert task.project == "red"
    assert task.requires == ["big", "gpu"]
    assert task.labels == {"run": "7"}
    assert task.traceparent == TRACE


async def test_what_the_submitter_left_out_is_left_out_of_the_task(api):
    answer = await api.submit()
    assert set(MessageToDict(await api.get(answer.task_id))) == {
        "taskId",
        "agentId",
        "action",
        "priority",
        "state",
        "deadline",
        "createdAt",
        "position",
    }


async def test_empty_params_are_not_the_same_as_none(api):
    answer = await api.submit(params=Struct())
    task = await api.get(answer.task_id)
    assert task.HasField("params")
    assert not task.params.fields


async def test_priority_is_zero_by_default_and_may_be_negative(api):
    assert (await api.get((await api.submit()).task_id)).priority == 0
    assert (await api.get((await api.submit(priority=-(2**31))).task_id)).priority == -(2**31)
    assert (await api.get((await api.submit(priority=2**31 - 1)).task_id)).priority == 2**31 - 1


async def test_the_deadline_defaults_to_sixty_seconds_from_now(api):
    answer = await api.submit()
    task = await api.get(answer.task_id)
    assert task.deadline.ToNanoseconds() - task.created_at.ToNanoseconds() == pytest.approx(60e9, abs=1000)


async def test_the_deadline_is_kept_to_the_microsecond(api):
    answer = await api.submit(deadline=Timestamp(seconds=4_000_000_000, nanos=123_456_000))
    assert (await api.get(answer.task_id)).deadline == Timestamp(seconds=4_000_000_000, nanos=123_456_000)


async def test_the_last_second_before_the_year_10000_is_a_deadline(api):
    answer = await api.submit(deadline=Timestamp(seconds=253_402_300_799))
    assert (await api.get(answer.task_id)).deadline.ToJsonString() == "9999-12-31T23:59:59Z"


async def test_the_latest_deadline_that_is_taken_can_be_listed(api):
    answer = await api.submit(deadline=Timestamp(seconds=253_402_300_799, nanos=999_984_000))
    (listed,) = (await api.list_tasks()).tasks
    assert listed.task_id == answer.task_id
    assert listed.deadline.ToJsonString() < "9999-12-31T23:59:59.999985Z"


async def test_a_missing_tab_is_taken_at_submission(api):
    """It is rejected later, during execution (scheduler-reference, Request fields, Important)."""
    answer = await api.submit()
    assert not (await api.get(answer.task_id)).HasField("tab_id")


async def test_position_counts_the_queued_tasks_of_all_agents(api):
    positions = [(await api.submit(agent_id=agent)).position for agent in ("ann", "bob", "ann")]
    assert positions == [1, 2, 3]


async def test_position_counts_what_is_queued_and_not_what_was(api):
    first = await api.submit()
    await api.submit()
    await api.cancel(first.task_id)
    assert (await api.submit()).position == 2


async def test_equal_submissions_are_two_tasks(api):
    assert (await api.submit()).task_id != (await api.submit()).task_id


async def test_the_trace_of_the_call_is_kept_unless_the_task_brings_its_own(api):
    other = TRACE.replace("0af7", "ffff")
    from_call = await api.submit(metadata=(("traceparent", TRACE),))
    from_task = await api.submit(metadata=(("traceparent", TRACE),), traceparent=other)
    assert (await api.get(from_call.task_id)).traceparent == TRACE
    assert (await api.get(from_task.task_id)).traceparent == other


async def test_a_malformed_trace_of_the_call_is_ignored(api):
    answer = await api.submit(metadata=(("traceparent", "nonsense"),))
    assert not (await api.get(answer.task_id)).HasField("traceparent")


async def test_names_may_be_of_any_language_and_1024_characters_long(api):
    name = "Größ-工-🙂" * 128
    assert len(name) == 1024
    answer = await api.submit(agent_id=name, action=name, tab_id=name, ref=name, project=name)
    task = await api.get(answer.task_id)
    assert {task.agent_id, task.action, task.tab_id, task.ref, task.project} == {name}


async def test_params_may_be_as_large_as_the_limit(start_api):
    params = Struct()
    params["text"] = "x" * 1000
    api = await start_api(max_payload_bytes=params.ByteSize())
    answer = await api.submit(params=params)
    assert (await api.get(answer.task_id)).params == params


@pytest.mark.parametrize("url", ["http://a", "https://example.com:8443/x?y=z#f", "http://127.0.0.1/", "http://[::1]/x"])
async def test_a_callback_may_be_any_http_or_https_url(api, url):
    """Whether it may be called is decided when it is called (DESIGN, Webhooks)."""
    answer = await api.submit(callback_url=url)
    assert (await api.get(answer.task_id)).callback_url == url


async def test_the_answer_says_202_to_rest_callers_only(api, by_rest, headers):
    assert (await headers(api.submit(metadata=by_rest)))["x-http-status"] == "202"
    assert "x-http-status" not in await headers(api.submit())
