"""Filters of messages: one conversion for listings and for operations, and what page tokens of listings hold for."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import task_pb2 as pb
from taskyard_server.conversion.task_filters import listing_criteria, task_filter
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.names import names
from taskyard_server.core.search.label_selectors import parse_selector
from taskyard_server.core.search.task_filter import NO_FILTER, TaskFilter
from taskyard_server.core.task import TaskState
from tests.cases import every_case

FIELDS = {
    "agent_id": "ann",
    "state": "queued,failed",
    "batch_id": "bat_1",
    "target": "till",
    "parent_id": "tsk_1",
    "created_from": Timestamp(seconds=1),
    "created_until": Timestamp(seconds=2),
    "labels": "site=shop",
    "action": "click",
    "host_id": "host-1",
    "concurrency_key": "site:1",
    "ended_from": Timestamp(seconds=3),
    "ended_until": Timestamp(seconds=4),
    "error": "STRASSE",
    "id_prefix": "tsk_01a2",
}
MESSAGES = [pb.ListTasksRequest, pb.TaskFilter]
ADDED_TEXTS = ("labels", "action", "host_id", "concurrency_key", "error", "parent_id", "id_prefix")
ADDED = (*ADDED_TEXTS, "ended_from", "ended_until")


@pytest.mark.parametrize("message", MESSAGES)
def test_every_field_becomes_a_criterion(message):
    agents = names(["a*"])
    half = 0.5e-6
    assert task_filter(message(**FIELDS), agents) == TaskFilter(
        agents=agents,
        agent_id="ann",
        states=frozenset({TaskState.QUEUED, TaskState.FAILED}),
        batch_id="bat_1",
        target="till",
        parent_id="tsk_1",
        created_from=1 - half,
        created_until=2 - half,
        labels=parse_selector("site=shop"),
        action="click",
        host_id="host-1",
        concurrency_key="site:1",
        ended_from=3 - half,
        ended_until=4 - half,
        error="strasse",
        id_prefix="tsk_01a2",
    )


@pytest.mark.parametrize("name", FIELDS)
def test_only_a_filter_that_looks_into_contents_depends_on_whose_are_shown(name):
    found = task_filter(pb.TaskFilter(**{name: FIELDS[name]}), payloads=names(["ann"]))
    assert found.payloads == (names(["ann"]) if name == "error" else None)


@pytest.mark.parametrize("message", MESSAGES)
def test_an_empty_text_is_no_criterion(message):
    texts = {name: "" for name, value in FIELDS.items() if isinstance(value, str)}
    assert task_filter(message(**texts)) == NO_FILTER
    assert task_filter(message()).is_empty


def test_both_messages_have_the_same_filters():
    listing = {field.name for field in pb.ListTasksRequest.DESCRIPTOR.fields}
    assert {field.name for field in pb.TaskFilter.DESCRIPTOR.fields} == set(FIELDS)
    assert listing - set(FIELDS) == {"page_size", "page_token", "history", "newest_first"}


@every_case("name", FIELDS)
def test_a_filter_with_any_criterion_is_not_empty(name):
    assert not task_filter(pb.TaskFilter(**{name: FIELDS[name]})).is_empty


def test_what_only_the_caller_is_limited_to_is_no_criterion():
    assert task_filter(pb.TaskFilter(), names(["ann"])).is_empty


@every_case(
    ("fields", "message"),
    [
        ({"state": "gone"}, "filter.state: unknown state"),
        ({"labels": "="}, "filter.labels: expected a key"),
        ({"error": "x" * 1_025}, "filter.error: must be at most 1024 characters"),
        ({"id_prefix": "tsk"}, "filter.idPrefix: must be 4 to 64 characters"),
        ({"id_prefix": "t" * 65}, "filter.idPrefix: must be 4 to 64 characters"),
        ({"created_from": Timestamp(nanos=-1)}, "filter.createdFrom: must be"),
        ({"ended_until": Timestamp(nanos=-1)}, "filter.endedUntil: must be"),
    ],
)
def test_a_refusal_names_the_field_with_its_path(fields, message):
    with pytest.raises(BadRequest) as refused:
        task_filter(pb.TaskFilter(**fields), prefix="filter.")
    assert refused.value.message.startswith(message)


def test_texts_are_compared_without_regard_to_case():
    wanted = task_filter(pb.ListTasksRequest(error="Stra\u00dfe"))
    assert wanted.error == "strasse"


@every_case("name", ADDED)
def test_a_page_token_holds_for_each_filter(name):
    assert listing_criteria(pb.ListTasksRequest(**{name: FIELDS[name]})) != listing_criteria(pb.ListTasksRequest())


def test_page_tokens_of_filters_that_were_there_before_go_on():
    request = pb.ListTasksRequest(agent_id="a", state="done", newest_first=True, created_from=Timestamp(seconds=1))
    assert listing_criteria(request) == ["a", "done", "", "", False, True, 1 - 0.5e-6, None]
