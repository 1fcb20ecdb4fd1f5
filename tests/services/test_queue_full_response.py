"""Admission (scheduler-reference, Queue Full Response; DESIGN, Admission)."""

import grpc
import pytest
from google.protobuf.json_format import MessageToDict


async def test_a_full_queue_answers_as_documented(open_door, refused, by_rest):
    door = await open_door(max_queue_size=1)
    await door.submit()
    refusal = await refused(door.submit(metadata=by_rest))
    assert refusal.trailers["x-http-status"] == "429"
    assert refusal.rest_body == {
        "code": "queue_full",
        "error": "rejected: global queue full",
        "retryable": True,
        "details": {"agentId": "ann", "queued": 1, "maxQueue": 1, "maxPerAgent": 100},
    }


async def test_over_grpc_the_figures_stand_in_the_error_info(open_door, refused):
    door = await open_door(max_queue_size=1)
    await door.submit()
    refusal = await refused(door.submit())
    assert refusal.status is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal.message == "rejected: global queue full"
    assert refusal.info.metadata == {"agentId": "ann", "queued": "1", "maxQueue": "1", "maxPerAgent": "100"}


async def test_the_caller_is_told_to_try_again(open_door, refused):
    door = await open_door(max_queue_size=1)
    await door.submit()
    assert (await refused(door.submit())).retry_after_secs == 1


async def test_an_agent_at_its_own_limit_is_told_so_while_others_are_admitted(open_door, refused):
    door = await open_door(max_per_agent=2)
    await door.submit(agent_id="bob")
    await door.submit()
    await door.submit()
    refusal = await refused(door.submit())
    assert refusal.message == "rejected: agent queue full"
    assert refusal.info.metadata["queued"] == "3", "counts the queued tasks of all agents"
    assert (await door.submit(agent_id="bob")).position == 4


async def test_a_refused_task_is_kept_as_rejected_with_its_error(open_door, refused):
    door = await open_door(max_queue_size=1)
    await door.submit()
    await refused(door.submit(tab_id="tab", callback_url="http://example.com/"))
    (task,) = (await door.list_tasks(state="rejected")).tasks
    shown = MessageToDict(task)
    assert shown["state"] == "rejected"
    assert shown["error"] == "rejected: global queue full"
    assert shown["tabId"] == "tab"
    assert shown["callbackUrl"] == "http://example.com/"
    assert "completedAt" in shown
    assert "position" not in shown
    assert "startedAt" not in shown


async def test_a_place_that_was_freed_can_be_taken(open_door, refused):
    door = await open_door(max_queue_size=1)
    first = await door.submit()
    await refused(door.submit())
    await door.cancel(first.task_id)
    assert (await door.submit()).position == 1


@pytest.mark.parametrize("end", ["complete", "fail"])
async def test_tasks_in_flight_take_no_place_in_the_queue(open_door, end):
    door = await open_door(max_queue_size=1)
    await door.submit()
    (lease,) = await door.claim()
    assert (await door.submit()).position == 1
    await getattr(door, end)(lease)


async def test_a_rejected_task_counts_as_rejected_and_not_as_submitted(open_door, refused):
    door = await open_door(max_queue_size=1)
    await door.submit()
    await refused(door.submit())
    metrics = (await door.stats()).metrics
    assert (metrics.tasks_submitted, metrics.tasks_rejected) == (1, 1)
    assert (metrics.agents["ann"].submitted, metrics.agents["ann"].rejected) == (1, 1)
