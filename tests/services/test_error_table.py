"""What a refusal becomes for the caller (DESIGN, Errors), over gRPC and for REST callers."""

import json

import grpc
import pytest
from google.rpc import code_pb2

from taskyard_server.core import errors
from taskyard_server.core.agents import Agent
from taskyard_server.core.errors import BadRequest, NotFound, QueueFull, Refusal, Unavailable
from taskyard_server.core.task import Submission, Task, TaskState

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


class Raising:
    """An engine whose every command ends with the given error."""

    def __init__(self, error):
        self._error = error
        self.tasks = self.hosts = self.leases = self.admin = self

    def __getattr__(self, command):
        async def refuse(*_args, **_kwargs):
            raise self._error

        return refuse


@pytest.fixture
def told(start_api, refused):
    """What a caller is told of an error that the engine raises."""

    async def tell(error, metadata=None):
        api = await start_api(Raising(error))
        return await refused(api.get("tsk_1", metadata=metadata))

    return tell


def refusal(code, message="no", details=None):
    """A refusal with any code word, also those that nothing raises yet."""
    kind = type("Made", (Refusal,), {"code": code, "retryable": code in RETRYABLE})
    return kind(message, details)


@pytest.mark.parametrize(("code", "status"), [(code, status) for code, status, _ in ERROR_TABLE])
async def test_each_code_has_its_status_and_its_error_info(told, code, status):
    seen = await told(refusal(code, "what was wrong", {"key": "text", "figure": 7}))
    assert seen.status is status
    assert seen.message == "what was wrong"
    assert seen.info.reason == code.upper()
    assert seen.info.domain == "taskyard"
    assert seen.info.metadata == {"key": "text", "figure": "7"}
    assert seen.details.code == status.value[0]
    assert seen.details.message == "what was wrong"


@pytest.mark.parametrize(("code", "status", "http"), ERROR_TABLE)
async def test_each_code_has_its_http_status_and_its_rest_body(told, by_rest, code, status, http):
    seen = await told(refusal(code, "what was wrong", {"key": "text", "figure": 7}), by_rest)
    assert seen.status is status
    assert seen.trailers["x-http-status"] == str(http)
    expected = {"code": code, "error": "what was wrong", "details": {"key": "text", "figure": 7}}
    assert seen.rest_body == (expected | {"retryable": True} if code in RETRYABLE else expected)


@pytest.mark.parametrize("code", [code for code, _, _ in ERROR_TABLE])
async def test_only_what_can_be_retried_says_when(told, code):
    seen = await told(refusal(code))
    assert seen.retry_after_secs == (1 if code in RETRYABLE else None)
    assert len(seen.details.details) == (2 if code in RETRYABLE else 1)


def all_refusals(of=Refusal):
    for kind in of.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
        yield from all_refusals(kind)


@pytest.mark.parametrize("kind", sorted(set(all_refusals()), key=lambda kind: kind.__name__))
async def test_every_refusal_of_the_core_is_a_status_of_its_own(told, kind):
    raised = kind.__new__(kind)
    Refusal.__init__(raised, "no")
    seen = await told(raised)
    assert seen.code == kind.code
    assert seen.status not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)


async def test_an_error_without_details_has_no_details_in_its_body(told, by_rest):
    seen = await told(NotFound("task not found"), by_rest)
    assert seen.trailers["x-error-json"] == '{"code":"not_found","error":"task not found"}'


async def test_only_rest_callers_get_a_body_and_an_http_status(told):
    assert set((await told(NotFound("no"))).trailers) == {"grpc-status-details-bin"}


# What fits into metadata


async def test_a_message_over_2_kib_is_cut(told, by_rest):
    seen = await told(BadRequest("x" * 5000), by_rest)
    assert len(seen.trailers["x-error-json"]) <= 2048
    assert seen.rest_body["code"] == "bad_request"
    assert seen.rest_body["error"].startswith("xxx")
    assert seen.rest_body["error"].endswith("x ...")


async def test_a_message_of_640_bytes_is_kept(told, by_rest):
    seen = await told(BadRequest("x" * 640), by_rest)
    assert seen.rest_body["error"] == seen.message == "x" * 640


async def test_a_longer_message_is_cut_for_grpc_too(told):
    seen = await told(BadRequest("x" * 20_000))
    assert seen.status is grpc.StatusCode.INVALID_ARGUMENT
    assert seen.message == "x" * 640 + " ..."


async def test_what_is_cut_keeps_whether_and_when_to_retry(told, by_rest):
    task = Task("tsk_1", 1, Agent("é" * 1024, 1), Submission("é" * 1024, "click"), 0.0, None, TaskState.REJECTED)
    refusal = QueueFull("rejected: global queue full", {"agentId": task.agent_id, "queued": 7}, task)
    body = (await told(refusal, by_rest)).rest_body
    assert (body["code"], body["retryable"], body["details"]["queued"]) == ("queue_full", True, 7)


async def test_what_is_not_ascii_is_escaped(told, by_rest):
    seen = await told(BadRequest("größer als 工 🙂"), by_rest)
    assert seen.trailers["x-error-json"].isascii()
    assert seen.rest_body["error"] == "größer als 工 🙂"


async def test_over_grpc_the_message_keeps_its_letters(told):
    assert (await told(BadRequest("größer als 工 🙂"))).message == "größer als 工 🙂"


async def test_quotes_and_line_ends_cannot_break_the_body(told, by_rest):
    message = 'a "quoted" \\ word\r\nx-http-status: 200'
    seen = await told(BadRequest(message), by_rest)
    assert seen.rest_body["error"] == message
    assert "\n" not in seen.trailers["x-error-json"]
    assert seen.trailers["x-http-status"] == "400"


# What must not leak

SECRET = "password=hunter2"


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, ValueError, TypeError, OSError, TimeoutError])
async def test_an_internal_error_tells_nothing_of_its_cause(told, by_rest, kind):
    seen = await told(kind(SECRET), by_rest)
    assert seen.status is grpc.StatusCode.INTERNAL
    assert seen.message == "internal error"
    assert seen.info.reason == "INTERNAL"
    assert seen.details.code == code_pb2.INTERNAL
    assert not seen.info.metadata
    assert seen.trailers["x-http-status"] == "500"
    assert json.loads(seen.trailers["x-error-json"]) == {"code": "internal", "error": "internal error"}
    assert SECRET not in repr(seen)


async def test_the_log_tells_the_cause_of_an_internal_error(told, log_lines):
    await told(RuntimeError(SECRET))
    (line,) = [line for line in log_lines if line["event"] == "internal_error"]
    assert line["method"] == "/taskyard.v1.TaskService/GetTask"
    assert SECRET in str(line["exc_info"])


@pytest.mark.parametrize(
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
@pytest.mark.parametrize(("kind", "code"), [(RuntimeError, "internal"), (Unavailable, "unavailable")])
async def test_every_rpc_turns_errors_the_same_way(start_api, refused, call, kind, code):
    seen = await refused(call(await start_api(Raising(kind("no")))))
    assert seen.code == code


async def test_a_server_that_drains_takes_nothing_in_and_says_to_come_again(api, refused, by_rest):
    task_id = (await api.submit()).task_id
    api.engine.admin.drain()
    for call in (api.submit(metadata=by_rest), api.submit_batch({"action": "click"}, metadata=by_rest)):
        seen = await refused(call)
        assert (seen.code, seen.status) == ("unavailable", grpc.StatusCode.UNAVAILABLE)
        assert seen.retry_after_secs == 1
        assert seen.trailers["x-http-status"] == "503"
        assert seen.rest_body["retryable"] is True
    assert (await api.get(task_id)).task_id == task_id
    assert (await api.list_tasks()).count == 1


async def test_a_server_that_had_an_internal_error_goes_on_serving(api, refused, monkeypatch):
    async def broken(*_args):
        raise RuntimeError(SECRET)

    with monkeypatch.context() as patch:
        patch.setattr(api.engine.tasks, "submit", broken)
        assert (await refused(api.submit())).status is grpc.StatusCode.INTERNAL
    assert (await api.submit()).position == 1
