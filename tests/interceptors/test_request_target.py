"""A request target against the message that came of it, as bytes: what the check takes and what it refuses."""

import pytest
from google.protobuf.descriptor_pool import Default

from taskyard.v1 import lease_pb2, runtime_host_pb2, schedule_pb2, target_pb2, task_pb2
from taskyard_server.core.errors import BadRequest
from taskyard_server.interceptors.request_target import TargetCheck, target_check
from tests.cases import every_case

PACKAGE = runtime_host_pb2.DESCRIPTOR.package


def check_of(method: str) -> TargetCheck:
    check = target_check(Default().FindMethodByName(f"{PACKAGE}.{method}"))
    assert check is not None
    return check


CANCEL = check_of("TaskService.CancelTask")
COMPLETE = check_of("LeaseService.CompleteTask")
LIST = check_of("TaskService.ListTasks")
RESUME = check_of("TargetService.ResumeTargetTask")
WAIT = check_of("TaskService.WaitTask")
WATCH = check_of("TaskService.WatchTasks")


def cancel(task_id: str) -> bytes:
    return task_pb2.CancelTaskRequest(task_id=task_id).SerializeToString()


def complete(host_id: str, task_id: str) -> bytes:
    return lease_pb2.CompleteTaskRequest(host_id=host_id, task_id=task_id, fencing_token=1).SerializeToString()


def refusal(check: TargetCheck, target: str, encoded: bytes = b"") -> str:
    with pytest.raises(BadRequest) as refused:
        check(target, encoded)
    return str(refused.value)


def test_a_method_without_a_path_has_no_check() -> None:
    assert target_check(Default().FindMethodByName(f"{PACKAGE}.RuntimeHostService.Connect")) is None
    assert target_check(Default().FindMethodByName(f"{PACKAGE}.TaskService.SubmitTasks")) is None


@every_case(
    ("target", "task_id"),
    [
        ("/tasks/a/cancel", "a"),
        ("/tasks/a/cancel/", "a"),
        ("/tasks/a/cancel//", "a"),
        ("/tasks/a/cancel?", "a"),
        ("/tasks/a/cancel?&", "a"),
        ("/tasks/a%2Fb/cancel", "a/b"),
        ("/tasks/a%2fb/cancel", "a/b"),
        ("/tasks/a+b/cancel", "a+b"),
        ("/tasks/a%20b/cancel", "a b"),
        ("/tasks/%zz/cancel", "%zz"),
        ("/tasks/100%/cancel", "100%"),
        ("/tasks/%2541/cancel", "%41"),
        ("/tasks/%C3%A9/cancel", "é"),
        ("/tasks/a%3FtaskId=b/cancel", "a?taskId=b"),
        ("/tasks//cancel", ""),
    ],
)
def test_a_message_of_the_object_that_the_path_names_passes(target: str, task_id: str) -> None:
    CANCEL(target, cancel(task_id))


@every_case(
    ("target", "encoded"),
    [
        ("/tasks/a/cancel", cancel("b")),
        ("/tasks/a/cancel", b""),
        ("/tasks/a/cancel", cancel("a") + cancel("b")),
        ("/tasks/a/cancel", cancel("b") + cancel("a")),
        ("/tasks/a/cancel", cancel("a") + cancel("b") + cancel("a")),
        ("/tasks/a/cancel", cancel("A")),
        ("/tasks/a/cancel", cancel("a ")),
        ("/tasks/a%2Fb/cancel", cancel("a%2Fb")),
        ("/tasks//cancel", cancel("a")),
        ("/tasks", cancel("a")),
        ("", cancel("a")),
    ],
)
def test_a_message_of_another_object_is_refused(target: str, encoded: bytes) -> None:
    assert refusal(CANCEL, target, encoded) == "taskId: must be the one that the path names"


def test_a_value_that_is_repeated_as_it_is_passes() -> None:
    CANCEL("/tasks/a/cancel", cancel("a") + cancel("a"))


@pytest.mark.parametrize(
    ("encoded", "field"),
    [
        (complete("h", "b"), "task_id"),
        (complete("i", "a"), "host_id"),
        (complete("h", "a") + complete("", "b"), "task_id"),
    ],
)
def test_each_name_in_a_path_counts(encoded: bytes, field: str) -> None:
    target = "/api/runtime-hosts/h/tasks/a/complete"
    COMPLETE(target, complete("h", "a"))
    assert refusal(COMPLETE, target, encoded) == f"{field}: must be the one that the path names"


def test_the_two_names_of_a_blocked_target_count() -> None:
    request = target_pb2.ResumeTargetTaskRequest(target="t", task_id="a").SerializeToString()
    RESUME("/targets/t/jobs/a/resume", request)
    assert refusal(RESUME, "/targets/u/jobs/a/resume", request) == "target: must be the one that the path names"
    assert refusal(RESUME, "/targets/t/jobs/b/resume", request) == "taskId: must be the one that the path names"


@pytest.mark.parametrize(
    ("target", "task_id"),
    [("/tasks/a:wait", "a"), ("/tasks/a:b:wait?timeoutMs=1", "a:b"), ("/tasks/a%3Await:wait", "a:wait")],
)
def test_a_verb_is_no_part_of_the_name(target: str, task_id: str) -> None:
    WAIT(target, task_pb2.WaitTaskRequest(task_id=task_id).SerializeToString())


@every_case(
    ("query", "error"),
    [
        ("agentId=a&agentId=a", "agentId: is given more than once"),
        ("agentId=a&agent_id=b", "agent_id: is given more than once"),
        ("agentId=a&%61gentId=b", "agentId: is given more than once"),
        ("state=done&agentId=a&&state=", "state: is given more than once"),
        ("colour=red", "unknown query parameter: colour"),
        ("colour", "unknown query parameter: colour"),
        ("=a", "unknown query parameter: "),
        ("agentId.x=1", "unknown query parameter: agentId.x"),
        ("agent%2EId=1", "unknown query parameter: agent.Id"),
        (".=1", "unknown query parameter: ."),
        ("agentId", "agentId: has no value"),
        ("agentId&state=done", "agentId: has no value"),
    ],
)
def test_a_query_names_each_value_once(query: str, error: str) -> None:
    assert refusal(LIST, f"/tasks?{query}") == error


@every_case(
    "query", ["", "&&", "agentId=", "agent_id=a", "agentId=a&state=done", "agentId=a=b", "agentId=a&target=b%26state=c"]
)
def test_a_plain_query_passes(query: str) -> None:
    LIST(f"/tasks?{query}", b"")


def test_a_list_may_be_repeated() -> None:
    WATCH("/tasks:watch?taskIds=a&task_ids=b&taskIds=a", b"")


def test_where_there_is_a_body_there_is_no_query() -> None:
    encoded = complete("h", "a")
    target = "/api/runtime-hosts/h/tasks/a/complete"
    for name in ("tokens_used", "tokensUsed", "host_id", "result.string_value"):
        assert refusal(COMPLETE, f"{target}?{name}=1", encoded) == f"{name}: belongs in the body, not in the query"
    COMPLETE(f"{target}?", encoded)


def test_fields_of_inner_messages_have_both_names() -> None:
    check = check_of("ScheduleService.CreateSchedule")
    request = schedule_pb2.CreateScheduleRequest().SerializeToString()
    for name in ("task.agentId", "task.agent_id", "task.retryPolicy.max_attempts"):
        assert refusal(check, f"/schedules?{name}=1", request) == f"{name}: belongs in the body, not in the query"
    assert refusal(check, "/schedules?task.colour=1", request) == "unknown query parameter: task.colour"
