"""Viewers without payloads: tasks come without what users put into them (docs/operate/security.md, Payloads)."""

from hashlib import sha256
from typing import Any

import grpc
import pytest
from google.api.httpbody_pb2 import HttpBody
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1 import (
    artifact_pb2,
    artifact_pb2_grpc,
    batch_pb2,
    lease_pb2,
    output_pb2,
    output_pb2_grpc,
    runtime_host_pb2,
    schedule_pb2,
    schedule_pb2_grpc,
    task_pb2,
)
from tests.access.sight_yard import Stubs, stubs
from tests.access.yards import AGENT, HOST, OTHER_AGENT, Yard

SECRET = "rosebud"
SECRET_URL = f"https://example.org/{SECRET}"


def params() -> Struct:
    made = Struct()
    made.update({"word": SECRET})
    return made


def payload() -> task_pb2.Payload:
    return task_pb2.Payload(data=SECRET.encode(), encoding="plain")


def submit(operator: Stubs, agent: str = AGENT, action: str = "click") -> str:
    request = task_pb2.SubmitTaskRequest(
        agent_id=agent, action=action, params=params(), callback_url=SECRET_URL, labels={"colour": "red"}
    )
    request.input.CopyFrom(payload())
    request.retry_policy.max_attempts = 2
    request.retry_policy.first_delay_ms = 0
    return str(operator.call(operator.tasks.SubmitTask, request).task_id)


def run(operator: Stubs, task_id: str, ends: tuple[str, ...] = ("fail", "complete")) -> None:
    """Let a task fail once, with a secret in its error, then make progress and be done, with a secret in each."""
    operator.call(operator.hosts.RegisterHost, runtime_host_pb2.RegisterHostRequest(host_id=HOST))
    for end in ends:
        claim = lease_pb2.ClaimTaskRequest(host_id=HOST, wait_ms=20_000)
        claimed = operator.call(operator.leases.ClaimTask, claim)
        assert claimed.task_id == task_id
        lease = {"host_id": HOST, "task_id": task_id, "fencing_token": claimed.fencing_token}
        operator.call(operator.leases.StartTask, lease_pb2.StartTaskRequest(**lease))
        progress = lease_pb2.ReportProgressRequest(**lease, progress=task_pb2.Progress(message=SECRET))
        operator.call(operator.leases.ReportProgress, progress)
        put_secret(operator, lease)
        if end == "fail":
            operator.call(operator.leases.FailTask, lease_pb2.FailTaskRequest(**lease, error=SECRET, traceback=SECRET))
        else:
            done = lease_pb2.CompleteTaskRequest(**lease, result=Value(string_value=SECRET), output=payload())
            operator.call(operator.leases.CompleteTask, done)


def put_secret(operator: Stubs, lease: dict[str, Any]) -> None:
    """Give a task an artifact whose name and bytes are the secret."""
    content, hashed = HttpBody(data=SECRET.encode()), sha256(SECRET.encode()).hexdigest()
    request = artifact_pb2.UploadArtifactRequest(name=SECRET, content=content, sha256=hashed, **lease)
    operator.call(artifact_pb2_grpc.ArtifactServiceStub(operator.channel).UploadArtifact, request)


def every_door(caller: Stubs, task_id: str, batch_id: str) -> dict[str, Message]:
    """All that tells of a task and a batch, by the name of its call."""
    get, wait = task_pb2.GetTaskRequest(task_id=task_id), task_pb2.WaitTaskRequest(task_id=task_id, timeout_ms=0)
    watch = task_pb2.WatchTasksRequest(task_ids=[task_id], include_current=True, until_ended=True)
    lists = {
        f"list {history} {first}": caller.call(
            caller.tasks.ListTasks, task_pb2.ListTasksRequest(history=history, newest_first=first)
        )
        for history in (False, True)
        for first in (False, True)
    }
    return {
        "get": caller.call(caller.tasks.GetTask, get),
        "wait": caller.call(caller.tasks.WaitTask, wait).task,
        "watch": next(iter(caller.call(caller.tasks.WatchTasks, watch))).events[0].task,
        "batch": caller.call(caller.batches.GetBatch, batch_pb2.GetBatchRequest(batch_id=batch_id)).tasks[0],
        **lists,
    }


def output_by_every_door(caller: Stubs, task_id: str) -> dict[str, str]:
    """What each call that reads output or an artifact answers, or the code of its refusal."""
    artifacts = artifact_pb2_grpc.ArtifactServiceStub(caller.channel)
    output = output_pb2_grpc.OutputServiceStub(caller.channel)
    part = output_pb2.ListOutputRequest(task_id=task_id)
    doors = {
        "list": lambda: caller.call(output.ListOutput, part),
        "read": lambda: list(caller.call(output.ReadOutput, output_pb2.ReadOutputRequest(task_id=task_id))),
        "text": lambda: list(
            caller.call(output.StreamOutput, output_pb2.StreamOutputRequest(task_id=task_id, format="text"))
        ),
    }
    artifact = artifact_pb2.ReadArtifactRequest(task_id=task_id, name=SECRET)
    doors["artifact"] = lambda: list(caller.call(artifacts.ReadArtifact, artifact))
    answers = {}
    for door, ask in doors.items():
        try:
            answers[door] = str(ask())
        except grpc.RpcError as error:
            answers[door] = error.code().name
    return answers


def test_output_and_artifacts_are_for_those_who_are_shown_payloads(yard: Yard, operator: Stubs) -> None:
    task_id = submit(operator)
    operator.call(operator.hosts.RegisterHost, runtime_host_pb2.RegisterHostRequest(host_id=HOST))
    claimed = operator.call(operator.leases.ClaimTask, lease_pb2.ClaimTaskRequest(host_id=HOST, wait_ms=20_000))
    said = output_pb2.AppendOutputRequest(
        host_id=HOST,
        task_id=task_id,
        fencing_token=claimed.fencing_token,
        number=1,
        chunks=[output_pb2.NewChunk(text=SECRET)],
    )
    operator.call(output_pb2_grpc.OutputServiceStub(operator.channel).AppendOutput, said)
    put_secret(operator, {"host_id": HOST, "task_id": task_id, "fencing_token": claimed.fencing_token})
    done = lease_pb2.CompleteTaskRequest(host_id=HOST, task_id=task_id, fencing_token=claimed.fencing_token)
    operator.call(operator.leases.CompleteTask, done)
    for name in ("operator", "viewer of payloads", "agent"):
        with stubs(yard, name) as caller:
            assert [door for door, told in output_by_every_door(caller, task_id).items() if SECRET not in told] == []
    for name in ("viewer", "host"):
        with stubs(yard, name) as caller:
            assert set(output_by_every_door(caller, task_id).values()) == {"PERMISSION_DENIED"}


def test_a_viewer_is_shown_no_payload_by_any_door(yard: Yard, operator: Stubs) -> None:
    task_id = submit(operator)
    run(operator, task_id)
    tasks = [batch_pb2.BatchTask(action="other", params=params())]
    batch = batch_pb2.SubmitBatchRequest(agent_id=AGENT, callback_url=SECRET_URL, tasks=tasks)
    batch_id = operator.call(operator.batches.SubmitBatch, batch).batch_id
    with stubs(yard, "viewer") as viewer, stubs(yard, "viewer of payloads") as seer:
        shown = every_door(viewer, task_id, batch_id)
        assert [door for door, message in shown.items() if SECRET in str(message)] == []
        everything = every_door(operator, task_id, batch_id)
        assert [door for door, message in everything.items() if SECRET not in str(message)] == []
        assert every_door(seer, task_id, batch_id)["get"] == everything["get"]
    bare = everything["get"]
    for field in ("params", "result", "input", "output", "progress", "error", "traceback", "callback_url"):
        assert field == "error" or bare.HasField(field)
        bare.ClearField(field)
    bare.ClearField("artifacts")
    bare.attempts[0].ClearField("error")
    assert shown["get"] == bare
    operator.call(operator.batches.CancelBatch, batch_pb2.CancelBatchRequest(batch_id=batch_id))


def test_events_come_without_payloads_to_those_who_may_not_see_them(yard: Yard, operator: Stubs) -> None:
    with (
        stubs(yard, "viewer") as viewer,
        stubs(yard, "viewer who is ann") as half,
        stubs(yard, "viewer of payloads") as seer,
    ):
        streams = {}
        for name, caller in {"viewer": viewer, "half": half, "seer": seer}.items():
            streams[name] = caller.call(caller.tasks.WatchTasks, task_pb2.WatchTasksRequest())
            assert next(streams[name]).bookmark
        ids = {}
        for agent in (AGENT, OTHER_AGENT):
            ids[agent] = submit(operator, agent)
            run(operator, ids[agent])
        told: dict[str, dict[str, bool]] = {}
        for name, stream in streams.items():
            told[name] = dict.fromkeys(ids, False)
            for message in stream:
                for event in message.events:
                    told[name][event.task.agent_id] |= SECRET in str(event)
                if any(
                    each.task.task_id == ids[OTHER_AGENT] and each.task.state == 5 for each in message.events
                ) or any(
                    each.task.task_id == ids[OTHER_AGENT] and each.task.HasField("completed_at")
                    for each in message.events
                ):
                    break
            stream.cancel()
    assert told == {
        "viewer": {AGENT: False, OTHER_AGENT: False},
        "half": {AGENT: True, OTHER_AGENT: False},
        "seer": {AGENT: True, OTHER_AGENT: True},
    }


def test_a_viewer_who_is_an_agent_sees_the_payloads_of_its_own_tasks(yard: Yard, operator: Stubs) -> None:
    ann, bob = submit(operator), submit(operator, OTHER_AGENT)
    with stubs(yard, "viewer who is ann") as half:
        shown = {
            task_id: SECRET in str(half.call(half.tasks.GetTask, task_pb2.GetTaskRequest(task_id=task_id)))
            for task_id in (ann, bob)
        }
        assert shown == {ann: True, bob: False}
        # To see is not to steer.
        with pytest.raises(Exception, match="task not found"):
            half.call(half.tasks.CancelTask, task_pb2.CancelTaskRequest(task_id=bob))
        for task_id in (ann, bob):
            operator.call(operator.tasks.CancelTask, task_pb2.CancelTaskRequest(task_id=task_id))


def test_schedules_and_triggers_come_without_payloads(yard: Yard, operator: Stubs) -> None:
    def schedules(caller: Stubs) -> Any:
        return schedule_pb2_grpc.ScheduleServiceStub(caller.channel)

    template = schedule_pb2.TaskTemplate(
        agent_id=AGENT, action="click", params=params(), callback_url=SECRET_URL, input=payload()
    )
    create = schedule_pb2.CreateScheduleRequest(schedule_id="nightly", cron="0 3 * * *", task=template)
    operator.call(schedules(operator).CreateSchedule, create)
    get = schedule_pb2.GetScheduleRequest(schedule_id="nightly")
    with stubs(yard, "viewer") as viewer, stubs(yard, "viewer of payloads") as seer:
        found = viewer.call(schedules(viewer).GetSchedule, get)
        listed = viewer.call(schedules(viewer).ListSchedules, schedule_pb2.ListSchedulesRequest())
        assert SECRET not in str(found) + str(listed)
        assert found.schedule.task.action == "click"
        assert SECRET in str(seer.call(schedules(seer).GetSchedule, get))
        fired = operator.call(
            schedules(operator).TriggerSchedule, schedule_pb2.TriggerScheduleRequest(schedule_id="nightly")
        )
        operator.call(operator.hosts.RegisterHost, runtime_host_pb2.RegisterHostRequest(host_id=HOST))
        claimed = operator.call(operator.leases.ClaimTask, lease_pb2.ClaimTaskRequest(host_id=HOST, wait_ms=20_000))
        failure = lease_pb2.FailTaskRequest(
            host_id=HOST, task_id=claimed.task_id, fencing_token=claimed.fencing_token, error=SECRET, retryable=False
        )
        operator.call(operator.leases.FailTask, failure)
        trigger = schedule_pb2.GetTriggerRequest(trigger_id=fired.trigger.trigger_id)
        triggers = schedule_pb2.ListTriggersRequest(schedule_id="nightly")
        told = str(viewer.call(schedules(viewer).GetTrigger, trigger)) + str(
            viewer.call(schedules(viewer).ListTriggers, triggers)
        )
        assert "state: failed" in told
        assert SECRET not in told
        assert SECRET in str(seer.call(schedules(seer).GetTrigger, trigger))
