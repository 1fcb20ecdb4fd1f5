"""What of calls is in the audit log: every change by an operator or admin, and no content of anything."""

import errno
import json
import os
import re

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct

from taskyard.v1 import lease_pb2, runtime_host_pb2, task_pb2
from taskyard_server.access.grants import Grant, Principal, Role
from taskyard_server.core.names import names
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.logs import audit as audit_module
from taskyard_server.logs.audit import AuditLog
from taskyard_server.settings.security import AuthSettings, LimitSettings
from tests.services.host_streams import serving
from tests.waiting import until

SECRET = "s3cret-that-nobody-may-read"
FREE_TEXT = "text-that-belongs-to-a-task"


class Tokens:
    """Principals by token."""

    def __init__(self) -> None:
        self.principals = {
            f"{SECRET}-{role.word}": Principal(f"the {role.word}", f"tok_{role.word}", (Grant(role=role),))
            for role in Role
        }
        ann = Grant(role=Role.AGENT, agents=names(["ann"]))
        self.principals[f"{SECRET}-ann"] = Principal("ann", "tok_ann", (ann,))

    def find(self, token: str) -> Principal | None:
        return self.principals.get(token)


def by(who: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {SECRET}-{who}"), *more)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.log"


@pytest.fixture
def log(path):
    log = AuditLog(path, 1_000_000, 2)
    yield log
    log.close()


@pytest.fixture
async def server(log):
    settings = AuthSettings(required=True, limits={"viewer": LimitSettings(requests_per_sec=0.001, burst=2, streams=1)})
    admission = CallAdmission(settings, Tokens(), audit=log)
    async with serving(admission=admission) as server:
        server.admission = admission
        yield server


@pytest.fixture
def lines(path):
    """The lines of the log so far, without their times."""

    def read():
        found = [json.loads(line) for line in path.read_text().splitlines()]
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("at")) for line in found)
        return found

    return read


def task(agent: str = "ann", **fields) -> task_pb2.SubmitTaskRequest:
    params = Struct()
    params.update({"text": FREE_TEXT})
    labels = {"label": FREE_TEXT}
    return task_pb2.SubmitTaskRequest(agent_id=agent, action="click", params=params, labels=labels, **fields)


async def code_of(call) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code().name


# Changes


async def test_the_reason_for_a_change_is_in_its_line(server, lines):
    accepted = await server.tasks.SubmitTask(task(), metadata=by("ann"))
    request = task_pb2.CancelTaskRequest(task_id=accepted.task_id, reason="wrong site")
    await server.tasks.CancelTask(request, metadata=by("operator"))
    request.reason = "x" * 5_000
    assert await code_of(server.tasks.CancelTask(request, metadata=by("operator"))) == "INVALID_ARGUMENT"
    assert [(line["reason"], line["outcome"]) for line in lines()] == [
        ("wrong site", "ok"),
        ("x" * 256, "bad_request"),
    ]


async def test_a_change_by_an_operator_is_a_line_with_who_what_and_on_what(server, lines):
    accepted = await server.tasks.SubmitTask(task(), metadata=by("operator"))
    await server.tasks.CancelTask(
        task_pb2.CancelTaskRequest(task_id=accepted.task_id), metadata=by("admin", ("x-taskyard-rest", "1"))
    )
    assert lines() == [
        {
            "event": "change",
            "principal": "the operator",
            "credential": "tok_operator",
            "role": "operator",
            "address": "127.0.0.1",
            "by": "grpc",
            "method": "TaskService/SubmitTask",
            "namespace": "default",
            "on": {"agent_id": "ann", "task_id": accepted.task_id},
            "outcome": "ok",
        },
        {
            "event": "change",
            "principal": "the admin",
            "credential": "tok_admin",
            "role": "admin",
            "address": "127.0.0.1",
            "by": "rest",
            "method": "TaskService/CancelTask",
            "namespace": "default",
            "on": {"task_id": accepted.task_id},
            "outcome": "ok",
        },
    ]


async def test_the_line_is_there_before_the_reply(server, lines):
    for count in range(1, 20):
        await server.tasks.SubmitTask(task(), metadata=by("operator"))
        assert len(lines()) == count


async def test_agents_and_reads_are_not_written_down(server, path):
    accepted = await server.tasks.SubmitTask(task(), metadata=by("agent"))
    for who in ("agent", "viewer", "operator", "admin"):
        await server.tasks.GetTask(task_pb2.GetTaskRequest(task_id=accepted.task_id), metadata=by(who))
    assert path.read_text() == ""


async def test_a_change_that_was_refused_is_written_with_its_code(server, lines):
    assert (
        await code_of(server.tasks.CancelTask(task_pb2.CancelTaskRequest(task_id="tsk_0"), metadata=by("operator")))
        == "NOT_FOUND"
    )
    (line,) = lines()
    assert (line["outcome"], line["on"]) == ("not_found", {"task_id": "tsk_0"})


async def test_a_change_whose_caller_gave_up_is_written_as_cancelled(server, lines):
    await server.hosts.RegisterHost(runtime_host_pb2.RegisterHostRequest(host_id="h1"), metadata=by("host"))
    request = lease_pb2.ClaimTaskRequest(host_id="h1", wait_ms=20_000)
    claim = server.leases.ClaimTask(request, metadata=by("operator"))
    await until(lambda: server.leftovers().get("claims"))
    claim.cancel()
    await until(lines)
    assert [line["outcome"] for line in lines()] == ["cancelled"]


async def test_no_content_and_no_secret_is_in_the_log(server, path):
    await server.tasks.SubmitTask(task(idempotency_key=FREE_TEXT), metadata=by("operator"))
    await code_of(server.tasks.SubmitTask(task(agent="bob"), metadata=by("ann")))
    await code_of(server.tasks.SubmitTask(task(), metadata=by("nobody")))
    call = server.tasks.SubmitTasks(metadata=by("operator"))
    await call.write(task_pb2.SubmitTasksRequest(tasks=[task()]))
    await call.done_writing()
    await call.read()
    assert await call.read() is grpc.aio.EOF
    text = path.read_text()
    assert len(text.splitlines()) == 5
    assert SECRET not in text
    assert FREE_TEXT not in text


# Streams


async def test_a_stream_is_a_line_at_its_begin_and_one_at_its_end_with_counts(server, lines):
    call = server.tasks.SubmitTasks(metadata=by("operator"))
    for count in (2, 3):
        await call.write(task_pb2.SubmitTasksRequest(tasks=[task()] * count))
        await call.read()
    assert [line["event"] for line in lines()] == ["stream_begun"]
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    begun, ended = lines()
    assert begun["method"] == ended["method"] == "TaskService/SubmitTasks"
    assert (ended["event"], ended["messages"], ended["tasks"], ended["outcome"]) == ("stream_ended", 2, 5, "ok")


async def test_the_stream_of_a_host_names_the_host(server, lines):
    stream = await server.connect("h1", metadata=by("operator"))
    await stream.leave()
    assert [line["event"] for line in lines()] == ["stream_begun", "stream_ended"]
    assert lines()[-1]["on"] == {"host_id": "h1"}


async def test_the_stream_of_an_agent_is_not_written_down(server, path):
    call = server.tasks.SubmitTasks(metadata=by("agent"))
    await call.write(task_pb2.SubmitTasksRequest(tasks=[task()]))
    await call.read()
    await call.done_writing()
    await call.read()
    assert path.read_text() == ""


# What cannot be written down


@pytest.fixture
def full_disk(log, monkeypatch):
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(audit_module.os, "posix_fallocate", refuse)
    log._reserve.give_up()


@pytest.mark.usefixtures("full_disk")
async def test_a_change_that_cannot_be_written_down_changes_nothing(server):
    assert await code_of(server.tasks.SubmitTask(task(), metadata=by("operator"))) == "UNAVAILABLE"
    assert server.engine.admin.totals().queued == 0
    assert await code_of(server.stream(metadata=by("operator")).call.read()) == "UNAVAILABLE"


@pytest.mark.usefixtures("full_disk")
async def test_agents_and_reads_go_on_while_nothing_can_be_written_down(server):
    accepted = await server.tasks.SubmitTask(task(), metadata=by("agent"))
    await server.tasks.GetTask(task_pb2.GetTaskRequest(task_id=accepted.task_id), metadata=by("admin"))


# What is not let in


async def test_a_change_that_its_caller_may_not_make_is_counted_by_method(server, lines, log):
    for _ in range(3):
        await code_of(server.tasks.SubmitTask(task(agent="bob"), metadata=by("ann")))
        await code_of(server.tasks.SubmitTask(task(), metadata=by("host")))
    log.close()
    denied = [line for line in lines() if line["event"] == "denied"]
    assert sorted((line["principal"], line["outcome"], line["count"]) for line in denied) == [
        ("ann", "permission_denied", 1),
        ("ann", "permission_denied", 2),
        ("the host", "permission_denied", 1),
        ("the host", "permission_denied", 2),
    ]
    assert server.admission.denied == 6


async def test_wrong_credentials_are_a_line_an_address(server, lines, log):
    for _ in range(2):
        await code_of(server.tasks.SubmitTask(task(), metadata=by("nobody")))
    log.close()
    assert [(line["event"], line["address"], line["count"]) for line in lines()] == [
        ("credentials_refused", "127.0.0.1", 1),
        ("credentials_refused", "127.0.0.1", 1),
    ]


async def test_without_authentication_every_change_is_the_local_admins(log, lines):
    async with serving(admission=CallAdmission(None, audit=log)) as server:
        await server.submit()
        await server.get(await server.submit())
    assert [(line["principal"], line["role"], line["method"]) for line in lines()] == [
        ("local", "admin", "TaskService/SubmitTask")
    ] * 2


# Limits at the door


async def test_calls_over_the_limit_are_refused_with_the_time_of_the_next(server):
    request = task_pb2.GetTaskRequest(task_id="tsk_0")
    for _ in range(2):
        assert await code_of(server.tasks.GetTask(request, metadata=by("viewer"))) == "NOT_FOUND"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await server.tasks.GetTask(request, metadata=by("viewer"))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    trailers = dict(tuple(refused.value.trailing_metadata()))
    assert b"TOO_MANY_REQUESTS" in trailers["grpc-status-details-bin"]
    assert await code_of(server.tasks.GetTask(request, metadata=by("agent"))) == "NOT_FOUND"


async def test_streams_over_the_limit_are_refused_until_one_has_ended(server):
    def watch():
        return server.tasks.WatchTasks(task_pb2.WatchTasksRequest(), metadata=by("viewer"))

    server.admission.limits._rates.clear()
    first = watch()
    await first.read()
    assert await code_of(watch().read()) == "RESOURCE_EXHAUSTED"
    assert server.admission.limits.open_streams == 1
    first.cancel()
    await until(lambda: not server.admission.limits.open_streams)
    await watch().read()


async def test_no_stream_is_counted_for_ever_however_it_ends(server):
    for _ in range(5):
        await code_of(server.hosts.Connect(iter([runtime_host_pb2.ConnectRequest()]), metadata=by("operator")).read())
        await code_of(server.tasks.SubmitTasks(metadata=by("host")).read())
        await code_of(server.tasks.SubmitTasks(metadata=by("nobody")).read())
    assert server.admission.limits.open_streams == 0
