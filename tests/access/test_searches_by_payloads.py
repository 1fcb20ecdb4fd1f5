"""What a principal is not shown it finds nothing by: no filter tells of contents.

See docs/operate/security.md, Payloads.
"""

from typing import Any

import pytest

from taskyard.v1 import operation_pb2, operation_pb2_grpc, task_pb2
from tests.access.sight_yard import Stubs, stubs
from tests.access.test_sight_of_payloads import SECRET, run, submit
from tests.access.yards import AGENT, OTHER_AGENT, Yard
from tests.waiting import until_in_thread

TEXTS = [field.name for field in task_pb2.TaskFilter.DESCRIPTOR.fields if field.type == field.TYPE_STRING]
NOT_FREE = {"state", "labels"}
"""Filters that are no free text: words of an enum, and a grammar over labels, which everybody is shown."""
ORDERS = [(history, newest_first) for history in (False, True) for newest_first in (False, True)]


def failed(operator: Stubs, agent: str) -> str:
    """A task of an agent whose last attempt has failed with the secret in its error."""
    task_id = submit(operator, agent)
    run(operator, task_id, ("fail", "fail"))
    return task_id


def found(caller: Stubs, **filters: Any) -> set[str]:
    """The tasks that a caller is listed, in whatever order, live or of the history."""
    listed = set()
    for history, newest_first in ORDERS:
        request = task_pb2.ListTasksRequest(history=history, newest_first=newest_first, **filters)
        listed |= {task.task_id for task in caller.call(caller.tasks.ListTasks, request).tasks}
    return listed


@pytest.mark.parametrize("field", sorted({*TEXTS} - NOT_FREE))
def test_a_viewer_finds_no_task_by_what_it_is_not_shown(yard: Yard, operator: Stubs, field: str) -> None:
    failed(operator, AGENT)
    with stubs(yard, "viewer") as viewer, stubs(yard, "viewer of payloads") as seer:
        assert found(viewer, **{field: SECRET}) == set()
        assert bool(found(seer, **{field: SECRET})) == bool(found(operator, **{field: SECRET})) == (field == "error")


def test_errors_are_searched_as_far_as_they_are_shown(yard: Yard, operator: Stubs, ann: Stubs) -> None:
    mine, other = failed(operator, AGENT), failed(operator, OTHER_AGENT)
    both = {mine, other}
    with stubs(yard, "viewer") as viewer, stubs(yard, "viewer who is ann") as half:
        told = {
            "operator": found(operator, error=SECRET) & both,
            "ann": found(ann, error=SECRET) & both,
            "viewer": found(viewer, error=SECRET),
            "viewer who is ann": found(half, error=SECRET) & both,
        }
    assert told == {"operator": both, "ann": {mine}, "viewer": set(), "viewer who is ann": {mine}}


@pytest.mark.parametrize("path", ["/tasks?error={}", "/tasks?error={}&history=true", "/tasks?error={}&agentId=ann"])
def test_rest_callers_find_no_more(yard: Yard, operator: Stubs, path: str) -> None:
    failed(operator, AGENT)
    with yard.rest("viewer") as viewer, yard.rest("viewer of payloads") as seer:
        hidden, never = (viewer.get(path.format(text)) for text in (SECRET, "nobody has said this"))
        assert (hidden.status_code, hidden.content) == (never.status_code, never.content)
        assert seer.get(path.format(SECRET)).json()["count"] > 0


def test_an_operation_is_shown_without_the_text_that_it_looks_for_in_errors(yard: Yard, operator: Stubs) -> None:
    service = operation_pb2_grpc.OperationServiceStub(operator.channel)
    task_filter = task_pb2.TaskFilter(error=SECRET, agent_id=AGENT)
    begun = operation_pb2.CancelTasksRequest(filter=task_filter, operation_id="by error")
    operator.call(service.CancelTasks, begun)
    get, without = (operation_pb2.GetOperationRequest(operation_id=name) for name in ("by error", "of all"))
    of_all = operation_pb2.PauseTasksRequest(all=True, operation_id=without.operation_id)
    operator.call(service.PauseTasks, of_all)

    def shown(caller: Stubs) -> list[operation_pb2.Operation]:
        its = operation_pb2_grpc.OperationServiceStub(caller.channel)
        listed = caller.call(its.ListOperations, operation_pb2.ListOperationsRequest()).operations
        (of_list,) = (each for each in listed if each.operation_id == begun.operation_id)
        return [caller.call(its.GetOperation, get).operation, of_list]

    for asked in (get, without):
        until_in_thread(
            lambda asked=asked: operator.call(service.GetOperation, asked).operation,
            lambda one: one.status == operation_pb2.Operation.Status.done,
        )
    with stubs(yard, "viewer") as viewer, stubs(yard, "viewer of payloads") as seer:
        its = operation_pb2_grpc.OperationServiceStub(viewer.channel)
        assert not viewer.call(its.GetOperation, without).operation.HasField("filter")
        assert [each.filter for each in shown(viewer)] == [task_pb2.TaskFilter(agent_id=AGENT)] * 2
        assert [each.filter for each in shown(seer)] == [task_filter] * 2
