"""By an agent's credential the tasks of others are not there (docs/operate/security.md, Agents)."""

import json
from typing import Any

import grpc
import pytest

from taskyard.v1 import batch_pb2, stats_pb2, task_pb2
from tests.access.sight_yard import Stubs, refusal, rest_answer, stubs
from tests.access.yards import AGENT, OTHER_AGENT, Yard
from tests.cases import every_case

PARAMS = {"secret": "rosebud"}
UNKNOWN = "tsk_" + "0" * 31
UNKNOWN_BATCH = "bat_" + "0" * 32


def submit(caller: Stubs, agent: str = AGENT, **fields: Any) -> str:
    request = task_pb2.SubmitTaskRequest(agent_id=agent, action="click", **fields)
    request.params.update(PARAMS)
    return caller.call(caller.tasks.SubmitTask, request).task_id


def batch_of(caller: Stubs, agent: str = AGENT) -> batch_pb2.SubmitBatchResponse:
    request = batch_pb2.SubmitBatchRequest(agent_id=agent, tasks=[batch_pb2.BatchTask(action="click")] * 3)
    return caller.call(caller.batches.SubmitBatch, request)


def neighbour(name: str) -> str:
    """An id that nothing has, with the order of one that something has."""
    return name[:-1] + ("0" if name[-1] != "0" else "1")


REST = {
    "get": ("GET", "/tasks/{}", None),
    "wait": ("GET", "/tasks/{}:wait?timeoutMs=20000", None),
    "watch": ("GET", "/tasks:watch?taskIds={}&untilEnded=true&includeCurrent=true", None),
    "cancel": ("POST", "/tasks/{}/cancel", {}),
    "pause": ("POST", "/tasks/{}/pause", {}),
    "resume": ("POST", "/tasks/{}/resume", {}),
    "resolve": ("POST", "/tasks/{}/resolve", {"result": 1}),
}


@pytest.mark.parametrize("door", [door for door in REST if door != "watch"])
def test_over_rest_a_task_of_another_is_answered_as_one_that_never_was(yard: Yard, ann: Stubs, door: str) -> None:
    task_id = submit(ann, hold=door == "resume")
    verb, path, body = REST[door]
    with yard.rest("bob") as client:
        answers = [
            rest_answer(client.request(verb, path.format(each), json=body))
            for each in (task_id, neighbour(task_id), UNKNOWN)
        ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 404
    assert json.loads(answers[0][2]) == {"code": "not_found", "error": "task not found"}


@pytest.mark.parametrize("door", ["GetTask", "WaitTask", "CancelTask", "PauseTask", "ResumeTask", "ResolveTask"])
def test_over_grpc_a_task_of_another_is_answered_as_one_that_never_was(ann: Stubs, bob: Stubs, door: str) -> None:
    task_id = submit(ann)
    make = getattr(task_pb2, f"{door}Request")
    told = [
        refusal(lambda each=each: bob.call(getattr(bob.tasks, door), make(task_id=each)))
        for each in (task_id, neighbour(task_id), UNKNOWN)
    ]
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("field", ["after", "inputs"])
def test_a_task_of_another_is_no_predecessor_and_no_input(ann: Stubs, bob: Stubs, field: str) -> None:
    task_id = submit(ann)
    told = []
    for each in (task_id, neighbour(task_id), UNKNOWN):
        fields = {field: {"it": each} if field == "inputs" else [each]}
        code, text, _ = refusal(lambda fields=fields: submit(bob, OTHER_AGENT, **fields))
        told.append((code, text.replace(each, "it")))
    assert told == [(grpc.StatusCode.NOT_FOUND, f"{field}: task it not found")] * 3


def test_a_task_of_another_is_no_parent_to_end_with(ann: Stubs, bob: Stubs) -> None:
    task_id = submit(ann)
    told = []
    for each in (task_id, neighbour(task_id), UNKNOWN):
        fields = {"parent_id": each, "on_parent_end": task_pb2.Parent.cancel}
        code, text, _ = refusal(lambda fields=fields: submit(bob, OTHER_AGENT, **fields))
        told.append((code, text.replace(each, "it")))
        submit(bob, OTHER_AGENT, parent_id=each)
    assert told == [(grpc.StatusCode.NOT_FOUND, "parentId: task it not found")] * 3


def test_nothing_changes_by_a_call_about_a_task_of_another(yard: Yard, ann: Stubs) -> None:
    task_id = submit(ann)
    with yard.rest("bob") as client:
        for verb, path, body in REST.values():
            client.request(verb, path.format(task_id), json=body)
    task = ann.call(ann.tasks.GetTask, task_pb2.GetTaskRequest(task_id=task_id))
    assert task.state == task_pb2.Task.queued


def test_a_batch_of_another_is_answered_as_one_that_never_was(yard: Yard, ann: Stubs) -> None:
    batch_id = batch_of(ann).batch_id
    with yard.rest("bob") as client:
        for verb, path in (("GET", "/batches/{}"), ("POST", "/batches/{}/cancel")):
            body = None if verb == "GET" else {}
            answers = [
                rest_answer(client.request(verb, path.format(each), json=body))
                for each in (batch_id, neighbour(batch_id), UNKNOWN_BATCH)
            ]
            assert answers[0] == answers[1] == answers[2]
            assert answers[0][0] == 404
    found = ann.call(ann.batches.GetBatch, batch_pb2.GetBatchRequest(batch_id=batch_id))
    assert found.states == {"queued": 3}


@pytest.mark.parametrize(
    "criteria", [{}, {"agent_id": AGENT}, {"history": True}, {"target": "t"}, {"newest_first": True}]
)
def test_a_listing_holds_no_task_of_another(ann: Stubs, bob: Stubs, criteria: dict[str, Any]) -> None:
    submit(ann, target="t")
    own = submit(bob, OTHER_AGENT)
    listed = bob.call(bob.tasks.ListTasks, task_pb2.ListTasksRequest(**criteria))
    assert {task.agent_id for task in listed.tasks} <= {OTHER_AGENT}
    assert (own in [task.task_id for task in listed.tasks]) == (
        criteria in ({}, {"history": True}, {"newest_first": True})
    )


def test_a_listing_by_the_batch_of_another_is_empty(ann: Stubs, bob: Stubs) -> None:
    listed = bob.call(bob.tasks.ListTasks, task_pb2.ListTasksRequest(batch_id=batch_of(ann).batch_id))
    assert (listed.count, listed.next_page_token) == (0, "")


def test_a_prefix_covers_all_agents_that_begin_with_it(yard: Yard, ann: Stubs, bob: Stubs) -> None:
    task_id, other = submit(ann), submit(bob, OTHER_AGENT)
    with stubs(yard, "an*") as caller:
        assert caller.call(caller.tasks.GetTask, task_pb2.GetTaskRequest(task_id=task_id)).agent_id == AGENT
        refusal(lambda: caller.call(caller.tasks.GetTask, task_pb2.GetTaskRequest(task_id=other)))
        submit(caller, "anton")


# Page tokens


def test_a_page_token_tells_nothing_and_is_no_use_to_another(yard: Yard, ann: Stubs, bob: Stubs) -> None:
    for _ in range(3):
        submit(ann)
        submit(bob, OTHER_AGENT)
    request = task_pb2.ListTasksRequest(page_size=1)
    token = ann.call(ann.tasks.ListTasks, request).next_page_token
    again = ann.call(ann.tasks.ListTasks, request).next_page_token
    assert token.startswith("s.")
    assert token != again
    assert len(token) == len(again)
    request.page_token = token
    assert ann.call(ann.tasks.ListTasks, request).count == 1
    assert "is not a token of this listing" in refusal(lambda: bob.call(bob.tasks.ListTasks, request))[1]
    with stubs(yard, "operator") as operator:
        refusal(lambda: operator.call(operator.tasks.ListTasks, request))
    for wrong in (token[:-1], token[:-2] + "AA", "s.", "s.*", "MTo1", token[2:]):
        refusal(
            lambda wrong=wrong: ann.call(ann.tasks.ListTasks, task_pb2.ListTasksRequest(page_size=1, page_token=wrong))
        )


# Submitting


def test_an_agent_submits_in_its_own_name_alone(ann: Stubs) -> None:
    told = refusal(lambda: submit(ann, OTHER_AGENT))
    assert told[:2] == (
        refusal(lambda: batch_of(ann, OTHER_AGENT))[0],
        "the role agent is needed for the agent 'bob'",
    )


@every_case("path", ["/tasks", "/tasks/batch"])
@every_case("agent", [{}, {"agentId": ""}, {"agentId": None}])
def test_a_missing_agent_is_a_bad_request(yard: Yard, path: str, agent: dict[str, Any]) -> None:
    with yard.rest("agent") as client:
        answer = client.post(path, json={**agent, "action": "click"} if path == "/tasks" else {**agent, "tasks": [{}]})
    assert (answer.status_code, answer.json()) == (400, {"code": "bad_request", "error": "agentId: is required"})


def test_on_a_stream_each_task_is_judged_by_itself(ann: Stubs) -> None:
    request = task_pb2.SubmitTasksRequest()
    for agent in (AGENT, OTHER_AGENT, "", AGENT):
        request.tasks.add(agent_id=agent, action="click")
    (answer,) = ann.tasks.SubmitTasks(iter([request]), metadata=ann.metadata, timeout=20)
    assert [each.error.code for each in answer.outcomes] == ["", "permission_denied", "bad_request", ""]
    assert answer.outcomes[1].error.error == "the role agent is needed for the agent 'bob'"
    assert answer.outcomes[0].accepted.task_id != answer.outcomes[3].accepted.task_id


def test_a_key_that_another_agent_used_tells_nothing(ann: Stubs, bob: Stubs) -> None:
    first = submit(ann, idempotency_key="order 5")
    assert submit(bob, OTHER_AGENT, idempotency_key="order 5", priority=3) != first
    assert submit(ann, idempotency_key="order 5") == first


def test_ids_of_neighbours_cannot_be_computed(ann: Stubs) -> None:
    tasks = batch_of(ann).tasks
    assert len({each.task_id[-10:] for each in tasks}) == 3


def test_no_task_has_a_position(ann: Stubs) -> None:
    request = task_pb2.SubmitTaskRequest(agent_id=AGENT, action="click")
    accepted = ann.call(ann.tasks.SubmitTask, request)
    assert not accepted.HasField("position")
    task = ann.call(ann.tasks.GetTask, task_pb2.GetTaskRequest(task_id=accepted.task_id))
    assert not task.HasField("position")
    assert not any(each.HasField("position") for each in batch_of(ann).tasks)


# Figures


def test_an_agent_is_told_its_own_figures_alone(ann: Stubs, bob: Stubs, operator: Stubs) -> None:
    submit(ann)
    submit(bob, OTHER_AGENT)
    everything = operator.call(operator.stats.GetStats, stats_pb2.GetStatsRequest())
    own = bob.call(bob.stats.GetStats, stats_pb2.GetStatsRequest())
    assert set(own.queue.agent_counts) == set(own.metrics.agents) == {OTHER_AGENT}
    assert own.metrics.agents[OTHER_AGENT] == everything.metrics.agents[OTHER_AGENT]
    assert own.queue.total_queued == everything.queue.agent_counts[OTHER_AGENT] < everything.queue.total_queued
    assert own.metrics.tasks_submitted == everything.metrics.agents[OTHER_AGENT].submitted
    assert own.config == everything.config
    assert everything.HasField("store")
    assert [own.HasField("store"), own.HasField("hosts"), own.queue.HasField("targets")] == [False] * 3
    assert AGENT not in str(own)


def test_who_is_every_agent_is_told_their_figures_and_nothing_of_the_yard(
    yard: Yard, ann: Stubs, operator: Stubs
) -> None:
    submit(ann)
    everything = operator.call(operator.stats.GetStats, stats_pb2.GetStatsRequest())
    with stubs(yard, "every agent") as caller:
        own = caller.call(caller.stats.GetStats, stats_pb2.GetStatsRequest())
    assert own.metrics.agents == everything.metrics.agents
    assert [own.queue.total_queued, own.queue.total_inflight] == [
        everything.queue.total_queued,
        everything.queue.total_inflight,
    ]
    assert [own.HasField("store"), own.HasField("hosts"), own.queue.HasField("targets")] == [False] * 3
