"""When the queue is full an agent is told its own figures (docs/operate/security.md, Agents)."""

from collections.abc import Iterator
from typing import Any

import pytest

from taskyard.v1 import batch_pb2, task_pb2
from tests.access.sight_yard import sight_yard, stubs
from tests.access.yards import AGENT, OTHER_AGENT, Yard

FULL = {"agentId": AGENT, "queued": 1, "maxQueue": 3, "maxPerAgent": 100}


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with sight_yard(tmp_path_factory.mktemp("yard"), {"scheduler": {"maxQueueSize": 3}}) as made:
        with stubs(made, "operator") as operator:
            for agent in (AGENT, OTHER_AGENT, OTHER_AGENT):
                operator.call(operator.tasks.SubmitTask, task_pb2.SubmitTaskRequest(agent_id=agent, action="click"))
        yield made


def details(error: task_pb2.Error) -> dict[str, Any]:
    return dict(error.details)


def test_a_submission_is_refused_with_own_figures(yard: Yard) -> None:
    task = {"agentId": AGENT, "action": "click"}
    with yard.rest("agent") as client:
        answer = client.post("/tasks", json=task)
        assert (answer.status_code, answer.json()["details"]) == (429, FULL)
        batch = client.post("/tasks/batch", json={"agentId": AGENT, "tasks": [{"action": "click"}]}).json()
        assert batch["tasks"][0]["error"]["details"] == FULL
    with yard.rest("operator") as client:
        assert client.post("/tasks", json=task).json()["details"] == {**FULL, "queued": 3}


def test_on_a_stream_and_in_a_batch_too(yard: Yard) -> None:
    with stubs(yard, "agent") as ann:
        request = task_pb2.SubmitTasksRequest(tasks=[task_pb2.SubmitTaskRequest(agent_id=AGENT, action="click")])
        (answer,) = ann.tasks.SubmitTasks(iter([request]), metadata=ann.metadata, timeout=20)
        assert details(answer.outcomes[0].error) == FULL
        batch = batch_pb2.SubmitBatchRequest(agent_id=AGENT, tasks=[batch_pb2.BatchTask(action="click")])
        outcome = ann.call(ann.batches.SubmitBatch, batch).tasks[0]
        assert details(outcome.error) == FULL
