"""Listings by criteria, and the same criteria for operations on many tasks (docs/rules.md, Listing)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskyard import BadRequest, Client, NewTask
from taskyard.calls.listing import TaskCriteria, TaskFilters, list_request, task_filter
from taskyard.v1 import task_pb2 as pb

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def actions(client: Client, **filters: Any) -> list[str]:
    return [task.action async for task in client.list(**filters)]


async def test_labels_actions_and_keys_select_tasks(client: Client) -> None:
    await client.submit("one", labels={"site": "shop", "env": "dev"}, concurrency_keys=["site:shop"])
    await client.submit("two", labels={"site": "shop", "env": "live"})
    await client.submit("three", labels={"site": "blog"})
    assert await actions(client, labels="site=shop,env!=dev") == ["two"]
    assert await actions(client, labels="site in (shop,blog)", newest_first=True) == ["three", "two", "one"]
    assert await actions(client, action="three") == ["three"]
    assert await actions(client, concurrency_key="site:shop") == ["one"]
    (one,) = [task.id async for task in client.list(action="one")]
    assert await actions(client, id_prefix=one) == ["one"]


async def test_labels_select_as_they_are_submitted(client: Client) -> None:
    odd = {'a "b", c=d': "e\\f", "site": ""}
    await client.submit("odd", labels={**odd, "more": "x"})
    await client.submit("plain", labels={"site": "shop"})
    assert await actions(client, labels=odd) == ["odd"]
    assert await actions(client, labels={"site": "shop"}) == ["plain"]
    assert await actions(client, labels={}) == ["odd", "plain"]


async def test_ends_and_errors_select_tasks(client: Client, server: Any) -> None:
    await client.submit("works")
    await client.submit("breaks")
    await server.complete(await server.run())
    await server.fail(await server.run(), "The site is DOWN")
    assert await actions(client, error="is down") == ["breaks"]
    assert await actions(client, host_id="host") == ["works", "breaks"]
    ended = datetime.now(UTC)
    assert await actions(client, ended_from=ended - timedelta(minutes=1)) == ["works", "breaks"]
    assert await actions(client, ended_until=ended - timedelta(minutes=1)) == []


def test_every_filter_of_the_proto_can_be_given() -> None:
    of_filter = {field.name for field in pb.TaskFilter.DESCRIPTOR.fields} - {"state"} | {"states"}
    assert set(TaskCriteria.__annotations__) == of_filter
    of_list = {field.name for field in pb.ListTasksRequest.DESCRIPTOR.fields} - {"page_token", "state"} | {"states"}
    assert set(TaskFilters.__annotations__) == of_list | {"agent"}


def test_operations_take_the_criteria_of_listings_without_what_is_about_pages() -> None:
    criteria: TaskCriteria = {"agent_id": "ann", "states": ["queued", "paused"], "labels": "a=b", "ended_from": NOW}
    listed, selected = list_request({**criteria}), task_filter(criteria)
    assert (listed.agent_id, listed.state, listed.labels) == ("ann", "queued,paused", "a=b")
    assert (selected.agent_id, selected.state, selected.labels) == ("ann", "queued,paused", "a=b")
    assert listed.ended_from == selected.ended_from
    assert not selected.HasField("target")
    with pytest.raises(TypeError, match="tasks are not selected by history"):
        task_filter({"history": True})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(TypeError, match="tasks are not listed by colour"):
        list_request({"colour": "red"})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(TypeError, match="states: is a sequence of states, not one state"):
        task_filter({"states": "queued"})


async def test_a_selector_that_is_malformed_is_refused(client: Client) -> None:
    await client.submit_batch([NewTask("one")])
    with pytest.raises(BadRequest, match="labels"):
        await actions(client, labels="site in (shop")


@pytest.mark.parametrize(
    ("criteria", "problem"),
    [
        ({"labels": {"site": 3}}, r"labels: is a text or a dict of texts, 3 \(int\) is none"),
        ({"labels": ["site"]}, r"labels: is a text"),
        ({"error": 3}, r"error: is a text, not 3 \(int\)"),
        ({"created_from": 5}, r"created_from: is a datetime with a time zone, not 5 \(int\)"),
    ],
)
def test_a_criterion_of_another_type_is_refused_by_its_name(criteria: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        list_request(criteria)
    with pytest.raises(TypeError, match=problem):
        task_filter(criteria)


def test_no_states_are_not_all_states_for_an_operation() -> None:
    given = task_filter({"action": "one", "states": []})
    assert given.HasField("state"), "so that the server refuses it"
    assert not list_request({"action": "one", "states": []}).HasField("state")
    assert not task_filter({"action": "one"}).HasField("state")
