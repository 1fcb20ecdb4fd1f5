"""By an agent's credential operations touch and show what is its own alone (docs/rules.md, Operations)."""

from typing import Any

import grpc

from taskyard.v1 import operation_pb2 as pb
from taskyard.v1 import operation_pb2_grpc, task_pb2
from tests.access.sight_yard import Stubs, refusal, stubs
from tests.access.yards import AGENT, OTHER_AGENT, Yard
from tests.waiting import until_in_thread

UNKNOWN = "none has this id"


def submit(operator: Stubs, agent: str, label: str) -> str:
    request = task_pb2.SubmitTaskRequest(agent_id=agent, action="click", labels={"test": label})
    return operator.call(operator.tasks.SubmitTask, request).task_id


def service(caller: Stubs) -> Any:
    return operation_pb2_grpc.OperationServiceStub(caller.channel)


def cancel(caller: Stubs, operation_id: str, label: str, **more: Any) -> pb.Operation:
    task_filter = task_pb2.TaskFilter(labels=f"test={label}")
    request = pb.CancelTasksRequest(filter=task_filter, operation_id=operation_id, **more)
    return caller.call(service(caller).CancelTasks, request).operation


def get(caller: Stubs, operation_id: str) -> pb.Operation:
    return caller.call(service(caller).GetOperation, pb.GetOperationRequest(operation_id=operation_id)).operation


def ended(caller: Stubs, operation_id: str) -> pb.Operation:
    return until_in_thread(lambda: get(caller, operation_id), lambda found: found.status == pb.Operation.Status.done)


def listed(caller: Stubs) -> list[str]:
    answer = caller.call(service(caller).ListOperations, pb.ListOperationsRequest())
    return [operation.operation_id for operation in answer.operations]


def state(operator: Stubs, task_id: str) -> int:
    return operator.call(operator.tasks.GetTask, task_pb2.GetTaskRequest(task_id=task_id)).state


def test_an_operation_touches_the_tasks_of_its_agents_alone(ann: Stubs, operator: Stubs) -> None:
    mine, other = submit(operator, AGENT, "touches"), submit(operator, OTHER_AGENT, "touches")
    assert cancel(ann, "", "touches", dry_run=True).matched == 1
    cancel(ann, "touches", "touches")
    operation = ended(ann, "touches")
    assert (operation.matched, operation.done, operation.skipped) == (1, 1, 0)
    assert state(operator, mine) == task_pb2.Task.cancelled
    assert state(operator, other) == task_pb2.Task.queued


def test_an_operation_of_another_is_answered_as_one_that_never_was(ann: Stubs, bob: Stubs) -> None:
    cancel(ann, "of ann", "none")
    ended(ann, "of ann")
    for method, request in (("GetOperation", pb.GetOperationRequest), ("CancelOperation", pb.CancelOperationRequest)):
        answers = [
            refusal(
                lambda each=each, method=method, request=request: bob.call(
                    getattr(service(bob), method), request(operation_id=each)
                )
            )
            for each in ("of ann", UNKNOWN)
        ]
        assert answers[0] == answers[1]
        assert answers[0][0] is grpc.StatusCode.NOT_FOUND
    assert "of ann" in listed(ann)
    assert "of ann" not in listed(bob)


def test_ids_of_callers_with_other_agents_never_conflict(ann: Stubs, bob: Stubs, operator: Stubs) -> None:
    cancel(ann, "one id", "a")
    cancel(bob, "one id", "b")
    assert get(ann, "one id").filter.labels == "test=a"
    assert get(bob, "one id").filter.labels == "test=b"
    assert get(operator, "one id").filter.labels == "test=b"
    cancel(operator, "one id", "c")
    assert get(operator, "one id").filter.labels == "test=c"
    assert listed(operator).count("one id") == 3
    assert listed(ann).count("one id") == 1


def test_a_viewer_sees_all_and_changes_none(yard: Yard, ann: Stubs) -> None:
    cancel(ann, "seen", "none")
    with stubs(yard, "viewer") as viewer:
        assert "seen" in listed(viewer)
        assert get(viewer, "seen").operation_id == "seen"
        assert refusal(lambda: cancel(viewer, "x", "none"))[0] is grpc.StatusCode.PERMISSION_DENIED
