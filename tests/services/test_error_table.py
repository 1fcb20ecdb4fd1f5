"""The errors that refusals become (docs/rules.md, Errors), over gRPC and REST."""

import json

import grpc
import pytest
from google.rpc import code_pb2

from taskyard_server.core import errors
from taskyard_server.core.agents import Agent
from taskyard_server.core.errors import BadRequest, NotFound, NotOwner, QueueFull, Refusal, Unavailable
from taskyard_server.core.task import Submission, Task, TaskState
from tests.cases import every_case

ERROR_TABLE = [
    ("bad_request", grpc.StatusCode.INVALID_ARGUMENT, 400),
    ("batch_too_large", grpc.StatusCode.INVALID_ARGUMENT, 400),
    ("too_large", grpc.StatusCode.INVALID_ARGUMENT, 413),
    ("unauthenticated", grpc.StatusCode.UNAUTHENTICATED, 401),
    ("permission_denied", grpc.StatusCode.PERMISSION_DENIED, 403),
    ("not_found", grpc.StatusCode.NOT_FOUND, 404),
    ("conflict", grpc.StatusCode.FAILED_PRECONDITION, 409),
    ("lease_lost", grpc.StatusCode.ABORTED, 409),
    ("already_exists", grpc.StatusCode.ALREADY_EXISTS, 409),
    ("cursor_expired", grpc.StatusCode.OUT_OF_RANGE, 410),
    ("queue_full", grpc.StatusCode.RESOURCE_EXHAUSTED, 429),
    ("unavailable", grpc.StatusCode.UNAVAILABLE, 503),
]
RETRYABLE = ["queue_full", "unavailable"]


class FailingEngine:
    """An engine whose commands raise this error."""

    def __init__(self):
        self.error = None
        self.tasks = self.hosts = self.leases = self.admin = self

    def now(self):
        return 0.0

    def __getattr__(self, command):
        async def fail(*_args, **_kwargs):
            raise self.error

        return fail


@pytest.fixture
async def refusal_of(start_api, refused):
    """The error of a call for which the engine raises an exception."""
    engine = FailingEngine()
    api = await start_api(engine)

    async def of(error, metadata=None, call=lambda api, **by: api.get("tsk_1", **by)):
        engine.error = error
        return await refused(call(api, metadata=metadata) if metadata else call(api))

    return of


def make_refusal(code, message="no", details=None):
    """A refusal with any code, including those that nothing raises yet."""
    kind = type("Made", (Refusal,), {"code": code, "retryable": code in RETRYABLE})
    return kind(message, details)


@every_case(("code", "status"), [(code, status) for code, status, _ in ERROR_TABLE])
async def test_each_code_has_its_status_and_its_error_info(refusal_of, code, status):
    refusal = await refusal_of(make_refusal(code, "what was wrong", {"key": "text", "figure": 7}))
    assert refusal.status is status
    assert refusal.message == "what was wrong"
    assert refusal.info.reason == code.upper()
    assert refusal.info.domain == "taskyard"
    assert refusal.info.metadata == {"key": "text", "figure": "7"}
    assert refusal.details.code == status.value[0]
    assert refusal.details.message == "what was wrong"


@every_case(("code", "status", "http_status"), ERROR_TABLE)
async def test_each_code_has_its_http_status_and_its_rest_body(refusal_of, by_rest, code, status, http_status):
    refusal = await refusal_of(make_refusal(code, "what was wrong", {"key": "text", "figure": 7}), by_rest)
    assert refusal.status is status
    assert refusal.trailers["x-http-status"] == str(http_status)
    expected = {"code": code, "error": "what was wrong", "details": {"key": "text", "figure": 7}}
    assert refusal.rest_body == (expected | {"retryable": True} if code in RETRYABLE else expected)


@every_case("code", [code for code, _, _ in ERROR_TABLE])
async def test_only_retryable_errors_have_a_retry_delay(refusal_of, code):
    refusal = await refusal_of(make_refusal(code))
    assert refusal.retry_after_secs == (1 if code in RETRYABLE else None)
    assert len(refusal.details.details) == (2 if code in RETRYABLE else 1)


def all_refusals(base=Refusal):
    for kind in base.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
        yield from all_refusals(kind)


@every_case("kind", sorted(set(all_refusals()), key=lambda kind: kind.__name__))
async def test_every_refusal_of_the_core_has_a_status(refusal_of, kind):
    raised = kind.__new__(kind)
    Refusal.__init__(raised, "no")
    refusal = await refusal_of(raised)
    assert refusal.code == raised.reason.lower()
    assert refusal.status is not grpc.StatusCode.UNKNOWN
    assert (refusal.status is grpc.StatusCode.INTERNAL) == (kind is errors.Internal)


async def test_a_call_for_another_replica_says_so_by_its_reason_alone(refusal_of, by_rest):
    refusal = await refusal_of(NotOwner("west"), by_rest)
    assert (refusal.status, refusal.code) == (grpc.StatusCode.UNAVAILABLE, "not_owner")
    assert refusal.retry_after_secs == 0.05
    assert refusal.rest_body["code"] == "unavailable"
    assert refusal.rest_body["details"] == {"owner": "west"}


async def test_an_error_without_details_has_none_in_its_rest_body(refusal_of, by_rest):
    refusal = await refusal_of(NotFound("task not found"), by_rest)
    assert refusal.trailers["x-error-json"] == '{"code":"not_found","error":"task not found"}'


async def test_only_rest_callers_get_a_rest_body_and_an_http_status(refusal_of):
    assert set((await refusal_of(NotFound("no"))).trailers) == {"grpc-status-details-bin"}


# Limits of metadata


async def test_a_rest_body_is_truncated_to_2_kib(refusal_of, by_rest):
    refusal = await refusal_of(BadRequest("x" * 5000), by_rest)
    assert len(refusal.trailers["x-error-json"]) <= 2048
    assert refusal.rest_body["code"] == "bad_request"
    assert refusal.rest_body["error"].startswith("xxx")
    assert refusal.rest_body["error"].endswith("x ...")


async def test_a_message_of_640_bytes_is_not_truncated(refusal_of, by_rest):
    refusal = await refusal_of(BadRequest("x" * 640), by_rest)
    assert refusal.rest_body["error"] == refusal.message == "x" * 640


async def test_a_longer_message_is_truncated_over_grpc(refusal_of):
    refusal = await refusal_of(BadRequest("x" * 20_000))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.message == "x" * 640 + " ..."


async def test_a_truncated_body_keeps_the_fields_about_retries(refusal_of, by_rest):
    task = Task("tsk_1", 1, Agent("é" * 1024, 1), Submission("é" * 1024, "click"), 0.0, None, TaskState.REJECTED)
    refusal = QueueFull("rejected: global queue full", {"agentId": task.agent_id, "queued": 7}, task)
    body = (await refusal_of(refusal, by_rest)).rest_body
    assert (body["code"], body["retryable"], body["details"]["queued"]) == ("queue_full", True, 7)


async def test_a_rest_body_is_escaped_to_ascii(refusal_of, by_rest):
    refusal = await refusal_of(BadRequest("größer als 工 🙂"), by_rest)
    assert refusal.trailers["x-error-json"].isascii()
    assert refusal.rest_body["error"] == "größer als 工 🙂"


async def test_a_message_over_grpc_keeps_non_ascii_characters(refusal_of):
    assert (await refusal_of(BadRequest("größer als 工 🙂"))).message == "größer als 工 🙂"


async def test_quotes_and_line_ends_are_escaped_in_the_body(refusal_of, by_rest):
    message = 'a "quoted" \\ word\r\nx-http-status: 200'
    refusal = await refusal_of(BadRequest(message), by_rest)
    assert refusal.rest_body["error"] == message
    assert "\n" not in refusal.trailers["x-error-json"]
    assert refusal.trailers["x-http-status"] == "400"


# Internal errors

SECRET = "password=hunter2"


@every_case("kind", [RuntimeError, KeyError, ValueError, TypeError, OSError, TimeoutError])
async def test_an_internal_error_does_not_show_its_cause(refusal_of, by_rest, kind):
    refusal = await refusal_of(kind(SECRET), by_rest)
    assert refusal.status is grpc.StatusCode.INTERNAL
    assert refusal.message == "internal error"
    assert refusal.info.reason == "INTERNAL"
    assert refusal.details.code == code_pb2.INTERNAL
    assert not refusal.info.metadata
    assert refusal.trailers["x-http-status"] == "500"
    assert json.loads(refusal.trailers["x-error-json"]) == {"code": "internal", "error": "internal error"}
    assert SECRET not in repr(refusal)


async def test_the_cause_of_an_internal_error_is_logged(refusal_of, log_lines):
    await refusal_of(RuntimeError(SECRET))
    (line,) = [line for line in log_lines if line["event"] == "internal_error"]
    assert line["method"] == "/taskyard.v1.TaskService/GetTask"
    assert SECRET in str(line["exc_info"])


@every_case(
    "call",
    [
        lambda api: api.submit(),
        lambda api: api.get("tsk_1"),
        lambda api: api.list_tasks(),
        lambda api: api.cancel("tsk_1"),
        lambda api: api.wait("tsk_1"),
        lambda api: api.submit_batch({"action": "click"}),
        lambda api: api.stats(),
    ],
    ids=["SubmitTask", "GetTask", "ListTasks", "CancelTask", "WaitTask", "SubmitBatch", "GetStats"],
)
@every_case(("kind", "code"), [(RuntimeError, "internal"), (Unavailable, "unavailable")])
async def test_every_rpc_maps_errors_in_the_same_way(refusal_of, call, kind, code):
    assert (await refusal_of(kind("no"), call=call)).code == code


async def test_a_draining_server_refuses_new_tasks_as_unavailable_and_retryable(api, refused, by_rest):
    task_id = (await api.submit()).task_id
    api.engine.admin.drain()
    for call in (api.submit(metadata=by_rest), api.submit_batch({"action": "click"}, metadata=by_rest)):
        refusal = await refused(call)
        assert (refusal.code, refusal.status) == ("unavailable", grpc.StatusCode.UNAVAILABLE)
        assert refusal.retry_after_secs == 1
        assert refusal.trailers["x-http-status"] == "503"
        assert refusal.rest_body["retryable"] is True
    assert (await api.get(task_id)).task_id == task_id
    assert (await api.list_tasks()).count == 1


async def test_a_server_continues_to_serve_after_an_internal_error(api, refused, monkeypatch):
    async def broken(*_args, **_show):
        raise RuntimeError(SECRET)

    with monkeypatch.context() as patch:
        patch.setattr(api.engine.tasks, "submit", broken)
        assert (await refused(api.submit())).status is grpc.StatusCode.INTERNAL
    assert (await api.submit()).position == 1
