"""OperationService: what is done to many tasks at once (docs/rules.md, Operations)."""

import grpc
import pytest
from google.protobuf.struct_pb2 import Value

from taskyard.v1 import operation_pb2 as pb
from taskyard.v1.task_pb2 import Task, TaskEvent, TaskFilter
from tests.cases import every_case

ENDED = (pb.Operation.Status.done, pb.Operation.Status.cancelled)
REQUESTS = {
    "CancelTasks": pb.CancelTasksRequest,
    "PauseTasks": pb.PauseTasksRequest,
    "ResumeTasks": pb.ResumeTasksRequest,
    "ResolveTasks": pb.ResolveTasksRequest,
    "ReprioritizeTasks": pb.ReprioritizeTasksRequest,
}


def begin(api, method, metadata=None, **fields):
    if method == "ReprioritizeTasks":
        fields = {"priority": 3, **fields}
    request = REQUESTS[method](**{"operation_id": "op", **fields})
    return getattr(api.operations, method)(request, metadata=metadata)


async def ended(api, eventually, operation_id="op"):
    """The operation once it has ended."""

    async def get():
        return (await api.operations.GetOperation(pb.GetOperationRequest(operation_id=operation_id))).operation

    return await eventually(get, lambda operation: operation.status in ENDED)


def counts(operation):
    return operation.matched, operation.done, operation.skipped, operation.failed


async def test_what_matches_is_cancelled(api, eventually):
    ids = [(await api.submit(labels={"site": site})).task_id for site in ("shop", "news", "shop")]
    begun = (await begin(api, "CancelTasks", filter=TaskFilter(labels="site=shop"))).operation
    assert (begun.operation_id, begun.kind, begun.status) == ("op", pb.Operation.cancel, pb.Operation.Status.running)
    operation = await ended(api, eventually)
    assert counts(operation) == (2, 2, 0, 0)
    assert operation.filter == TaskFilter(labels="site=shop")
    assert operation.HasField("ended_at")
    assert operation.ended_at.ToNanoseconds() >= operation.created_at.ToNanoseconds()
    assert [(await api.get(task_id)).state for task_id in ids] == [Task.cancelled, Task.queued, Task.cancelled]


async def test_tasks_are_paused_resumed_and_resolved(api, eventually):
    task_id = (await api.submit()).task_id
    await api.run_one()
    for operation_id, method, fields, state in (
        ("pause", "PauseTasks", {}, Task.paused),
        ("resume", "ResumeTasks", {"token_limit": 9}, Task.queued),
    ):
        await begin(api, method, all=True, operation_id=operation_id, **fields)
        assert counts(await ended(api, eventually, operation_id)) == (1, 1, 0, 0)
        assert (await api.get(task_id)).state == state
    assert (await api.get(task_id)).token_limit == 9
    await api.run_one()
    await api.pause(task_id)
    await begin(api, "ResolveTasks", all=True, result=Value(string_value="by hand"))
    await ended(api, eventually)
    task = await api.get(task_id)
    assert (task.state, task.result.string_value) == (Task.done, "by hand")


async def test_another_priority_is_shown_and_watched(api, eventually):
    task_id = (await api.submit()).task_id
    watch = api.watch(task_ids=[task_id], include_current=True)
    await watch.read()
    await begin(api, "ReprioritizeTasks", all=True, priority=-7)
    await ended(api, eventually)
    assert (await api.get(task_id)).priority == -7
    events = []
    while not events:
        events = [event for event in (await watch.read()).events if event.kind == TaskEvent.reprioritized]
    assert [(event.task.priority, event.task.state) for event in events] == [(-7, Task.queued)]
    assert not events[0].HasField("previous_state")


@pytest.mark.parametrize("method", REQUESTS)
async def test_an_empty_filter_needs_all(api, refused, method):
    for filters in ({}, {"filter": TaskFilter()}, {"filter": TaskFilter(agent_id="", state=" , ")}):
        refusal = await refused(begin(api, method, **filters))
        assert (refusal.code, refusal.message) == ("bad_request", "filter: is empty; set all to mean all tasks")


@every_case(
    ("fields", "message"),
    [
        ({"filter": TaskFilter(labels="a in b")}, "filter.labels: "),
        ({"filter": TaskFilter(state="lost")}, "filter.state: unknown state"),
        ({"filter": TaskFilter(agent_id="a" * 1025)}, "filter.agentId: must be at most 1024 characters"),
        ({"filter": TaskFilter(state="queued" + "," * 1024)}, "filter.state: must be at most 1024 characters"),
        ({"all": True, "operation_id": ""}, "operationId: is required"),
        ({"all": True, "operation_id": " "}, "operationId: is required"),
        ({"all": True, "operation_id": "x" * 129}, "operationId: must be at most 128 characters"),
        ({"all": True, "operation_id": "a\nb"}, "operationId: must not hold control characters"),
    ],
)
async def test_what_is_malformed_is_refused_by_its_name(api, refused, fields, message):
    refusal = await refused(begin(api, "CancelTasks", **fields))
    assert refusal.code == "bad_request"
    assert refusal.message.startswith(message)


@pytest.mark.parametrize(("field", "value"), [("agent_id", ""), ("state", ""), ("state", " , "), ("labels", " ")])
async def test_a_criterion_without_a_value_does_not_let_the_others_alone_decide(api, refused, field, value):
    given = TaskFilter(action="crawl", **{field: value})
    shown = TaskFilter.DESCRIPTOR.fields_by_name[field].json_name
    refusal = await refused(begin(api, "CancelTasks", filter=given))
    assert (refusal.code, refusal.message) == ("bad_request", f"filter.{shown}: must not be empty")


async def test_a_filter_of_a_later_version_is_refused(api, refused):
    unknown = b"\xfa\x7f\x01x"
    later = TaskFilter.FromString(TaskFilter(agent_id="ann").SerializeToString() + unknown)
    refusal = await refused(begin(api, "CancelTasks", filter=later))
    assert (refusal.code, refusal.message) == ("bad_request", "filter: has fields that this server does not know")


async def test_a_priority_must_be_given(api, refused):
    refusal = await refused(api.operations.ReprioritizeTasks(pb.ReprioritizeTasksRequest(all=True, operation_id="op")))
    assert (refusal.code, refusal.message) == ("bad_request", "priority: is required")


async def test_a_result_that_is_too_large_is_refused(start_api, refused):
    api = await start_api(max_payload_bytes=100)
    refusal = await refused(begin(api, "ResolveTasks", all=True, result=Value(string_value="x" * 200)))
    assert refusal.code == "too_large"


async def test_a_repeat_is_one_and_another_request_is_a_conflict(api, refused, by_rest, eventually):
    await api.submit()
    await begin(api, "CancelTasks", filter=TaskFilter(labels="a=b,c=d"))
    first = await ended(api, eventually)
    again = (await begin(api, "CancelTasks", filter=TaskFilter(labels="a = b, c = d"))).operation
    assert again == first
    refusal = await refused(begin(api, "CancelTasks", by_rest, all=True))
    assert refusal.status is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.rest_body == {"code": "conflict", "error": "operationId: is that of another operation"}


async def test_too_many_at_work_are_refused_as_a_full_queue(start_api, refused, by_rest):
    api = await start_api(max_per_agent=1)
    task_id = (await api.submit()).task_id
    await api.run_one()
    await api.pause(task_id)
    await api.submit()
    for number in range(8):
        await begin(api, "ResumeTasks", all=True, operation_id=f"op-{number}")
    refusal = await refused(begin(api, "ResumeTasks", by_rest, all=True))
    assert refusal.trailers["x-http-status"] == "429"
    assert refusal.rest_body == {
        "code": "queue_full",
        "error": "rejected: too many operations are at work",
        "retryable": True,
        "details": {"maxOperations": 8},
    }


async def test_resuming_waits_for_room(start_api, eventually):
    api = await start_api(max_per_agent=1)
    task_id = (await api.submit()).task_id
    await api.run_one()
    await api.pause(task_id)
    other = (await api.submit()).task_id
    await begin(api, "ResumeTasks", all=True)

    async def get():
        return (await api.operations.GetOperation(pb.GetOperationRequest(operation_id="op"))).operation

    await eventually(get, lambda operation: operation.status == pb.Operation.Status.waiting)
    assert (await api.stats()).queue.operations == 1
    await api.cancel(other)
    assert counts(await ended(api, eventually)) == (1, 1, 0, 0)
    assert (await api.get(task_id)).state == Task.queued
    assert not (await api.stats()).queue.HasField("operations")


async def test_a_dry_run_counts_and_keeps_nothing(api, refused):
    ids = [(await api.submit(agent_id=agent)).task_id for agent in ("ann", "ann", "bob")]
    answer = await begin(api, "CancelTasks", operation_id="", dry_run=True, filter=TaskFilter(agent_id="ann"))
    assert (answer.operation.kind, answer.operation.matched) == (pb.Operation.cancel, 2)
    assert [(await api.get(task_id)).state for task_id in ids] == [Task.queued] * 3
    assert not (await api.operations.ListOperations(pb.ListOperationsRequest())).operations
    assert (await begin(api, "PauseTasks", dry_run=True, all=True)).operation.matched == 0
    assert (await refused(api.operations.GetOperation(pb.GetOperationRequest(operation_id="op")))).code == "not_found"


async def test_operations_are_listed_the_newest_first_and_paged(api, eventually):
    for number in range(5):
        await begin(api, "CancelTasks", all=True, operation_id=f"op-{number}")
        await ended(api, eventually, f"op-{number}")
    page = await api.operations.ListOperations(pb.ListOperationsRequest(page_size=3))
    rest = await api.operations.ListOperations(pb.ListOperationsRequest(page_size=3, page_token=page.next_page_token))
    assert [operation.operation_id for operation in (*page.operations, *rest.operations)] == [
        f"op-{number}" for number in (4, 3, 2, 1, 0)
    ]
    assert not rest.HasField("next_page_token")


async def test_an_operation_is_cancelled(start_api, refused):
    api = await start_api(max_per_agent=1)
    task_id = (await api.submit()).task_id
    await api.run_one()
    await api.pause(task_id)
    await api.submit()
    await begin(api, "ResumeTasks", all=True)
    cancel = pb.CancelOperationRequest(operation_id="op")
    operation = (await api.operations.CancelOperation(cancel)).operation
    assert operation.status == pb.Operation.Status.cancelled
    assert (await api.operations.CancelOperation(cancel)).operation == operation
    assert (await refused(api.operations.CancelOperation(pb.CancelOperationRequest(operation_id="x")))).code == (
        "not_found"
    )
