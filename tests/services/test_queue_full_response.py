"""Admission (docs/rules.md, Admission)."""

import grpc
import pytest
from google.protobuf.json_format import MessageToDict


async def test_a_full_queue_has_the_documented_response(start_api, refused, by_rest):
    api = await start_api(max_queue_size=1)
    await api.submit()
    refusal = await refused(api.submit(metadata=by_rest))
    assert refusal.trailers["x-http-status"] == "429"
    assert refusal.rest_body == {
        "code": "queue_full",
        "error": "rejected: global queue full",
        "retryable": True,
        "details": {"agentId": "ann", "queued": 1, "maxQueue": 1, "maxPerAgent": 100},
    }


async def test_over_grpc_the_figures_are_in_the_error_info(start_api, refused):
    api = await start_api(max_queue_size=1)
    await api.submit()
    refusal = await refused(api.submit())
    assert refusal.status is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal.message == "rejected: global queue full"
    assert refusal.info.metadata == {"agentId": "ann", "queued": "1", "maxQueue": "1", "maxPerAgent": "100"}


async def test_the_caller_gets_a_retry_delay(start_api, refused):
    api = await start_api(max_queue_size=1)
    await api.submit()
    assert (await refused(api.submit())).retry_after_secs == 1


async def test_an_agent_at_its_limit_is_refused_while_others_are_admitted(start_api, refused):
    api = await start_api(max_per_agent=2)
    await api.submit(agent_id="bob")
    await api.submit()
    await api.submit()
    refusal = await refused(api.submit())
    assert refusal.message == "rejected: agent queue full"
    assert refusal.info.metadata["queued"] == "3", "counts the queued tasks of all agents"
    assert (await api.submit(agent_id="bob")).position == 4


async def test_a_refused_task_is_kept_as_rejected_with_its_error(start_api, refused):
    api = await start_api(max_queue_size=1)
    await api.submit()
    await refused(api.submit(tab_id="tab", callback_url="http://example.com/"))
    (task,) = (await api.list_tasks(state="rejected")).tasks
    shown = MessageToDict(task)
    assert shown["state"] == "rejected"
    assert shown["error"] == "rejected: global queue full"
    assert shown["tabId"] == "tab"
    assert shown["callbackUrl"] == "http://example.com/"
    assert "completedAt" in shown
    assert "position" not in shown
    assert "startedAt" not in shown


async def test_a_freed_place_in_the_queue_can_be_used(start_api, refused):
    api = await start_api(max_queue_size=1)
    first = await api.submit()
    await refused(api.submit())
    await api.cancel(first.task_id)
    assert (await api.submit()).position == 1


@pytest.mark.parametrize("end", ["complete", "fail"])
async def test_tasks_in_flight_use_no_place_in_the_queue(start_api, end):
    api = await start_api(max_queue_size=1)
    await api.submit()
    (lease,) = await api.claim()
    assert (await api.submit()).position == 1
    await getattr(api, end)(lease)


async def test_a_rejected_task_counts_as_rejected_and_not_as_submitted(start_api, refused):
    api = await start_api(max_queue_size=1)
    await api.submit()
    await refused(api.submit())
    metrics = (await api.stats()).metrics
    assert (metrics.tasks_submitted, metrics.tasks_rejected) == (1, 1)
    assert (metrics.agents["ann"].submitted, metrics.agents["ann"].rejected) == (1, 1)
