"""A host's credential: hosts, projects and actions of its grant alone (docs/operate/security.md, What)."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import grpc
import pytest

from taskyard.v1 import lease_pb2, runtime_host_pb2, task_pb2
from tests.access.sight_yard import ACTION, PROJECT, Stubs, refusal, stubs
from tests.access.yards import AGENT, Yard

MAY = f"may take tasks of the projects {PROJECT} and the actions {ACTION}, t* only; let it name them"
WITHIN = {"project": PROJECT, "actions": [ACTION]}
BEYOND: list[dict[str, Any]] = [
    {},
    {"project": PROJECT},
    {"actions": [ACTION]},
    {"project": "other", "actions": [ACTION]},
    {"project": PROJECT, "actions": [ACTION, "other"]},
]

REPORTS: dict[str, dict[str, Any]] = {
    "StartTask": {},
    "ReportProgress": {},
    "CompleteTask": {},
    "FailTask": {"error": "broken"},
    "ReleaseTask": {},
    "RenewLease": {},
}


@pytest.fixture
def narrow(yard: Yard) -> Iterator[Stubs]:
    with stubs(yard, "narrow host") as made:
        yield made


def hello(host: str, **offered: Any) -> runtime_host_pb2.ConnectRequest:
    return runtime_host_pb2.ConnectRequest(hello=runtime_host_pb2.Hello(host_id=host, instance="i", **offered))


def connect(caller: Stubs, host: str, **offered: Any) -> runtime_host_pb2.ConnectResponse:
    """The first answer on a stream."""
    stream = caller.hosts.Connect(iter([hello(host, **offered)]), metadata=caller.metadata, timeout=20)
    return next(stream)


def register(caller: Stubs, host: str, **offered: Any) -> Any:
    return caller.call(caller.hosts.RegisterHost, runtime_host_pb2.RegisterHostRequest(host_id=host, **offered))


def claim(caller: Stubs, host: str, **fields: Any) -> Any:
    return caller.call(caller.leases.ClaimTask, lease_pb2.ClaimTaskRequest(host_id=host, **fields))


@pytest.mark.parametrize("enter", [connect, register])
@pytest.mark.parametrize("offered", BEYOND)
def test_a_host_offers_what_its_grant_covers_alone(narrow: Stubs, enter: Any, offered: dict[str, Any]) -> None:
    told = refusal(lambda: enter(narrow, "h1", **offered))
    assert told[:2] == (grpc.StatusCode.PERMISSION_DENIED, f"the host 'h1' {MAY}")


@pytest.mark.parametrize("enter", [connect, register])
@pytest.mark.parametrize("offered", [WITHIN, {"project": PROJECT, "actions": ["t", "type", ACTION]}])
def test_a_host_within_its_grant_is_let_in(narrow: Stubs, enter: Any, offered: dict[str, Any]) -> None:
    assert enter(narrow, "h2", **offered)


@pytest.mark.parametrize("enter", [connect, register, claim])
def test_a_host_is_one_of_its_grant_alone(narrow: Stubs, enter: Any) -> None:
    offered = {} if enter is claim else WITHIN
    assert refusal(lambda: enter(narrow, "other", **offered))[:2] == (
        grpc.StatusCode.PERMISSION_DENIED,
        "the role host is needed for the host 'other'",
    )


def test_a_stream_without_a_host_id_is_a_bad_request(narrow: Stubs) -> None:
    assert refusal(lambda: connect(narrow, "", **WITHIN))[:2] == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "host_id: is required",
    )


def test_a_host_that_another_registered_wider_claims_within_the_grant_alone(operator: Stubs, narrow: Stubs) -> None:
    register(operator, "h3")
    submitted = task_pb2.SubmitTaskRequest(agent_id=AGENT, action="other", project=PROJECT)
    task_id = operator.call(operator.tasks.SubmitTask, submitted).task_id
    assert refusal(lambda: claim(narrow, "h3"))[:2] == (grpc.StatusCode.PERMISSION_DENIED, f"the host 'h3' {MAY}")
    refusal(lambda: claim(narrow, "h3", project=PROJECT))
    register(narrow, "h3", **WITHIN)
    assert not claim(narrow, "h3").claimed
    operator.call(operator.tasks.CancelTask, task_pb2.CancelTaskRequest(task_id=task_id))


def reported(caller: Stubs, host: str, task_id: str, token: float) -> list[Any]:
    """What a host is answered to each report on a task: by calls, and on a stream without and with an event.

    The stream registers it, and at the end it is not registered.
    """
    told: list[Any] = []
    for name, fields in REPORTS.items():
        method, make = getattr(caller.leases, name), getattr(lease_pb2, f"{name}Request")
        request = make(host_id=host, task_id=task_id, fencing_token=token, **fields)
        told.append(refusal(partial(caller.call, method, request)))
    report = runtime_host_pb2.Report(task_id=task_id, fencing_token=token)
    reports = [report, runtime_host_pb2.Report(task_id=task_id, fencing_token=token)]
    reports[1].released.SetInParent()
    requests = [hello(host, **WITHIN), runtime_host_pb2.ConnectRequest(reports={"reports": reports})]
    stream = caller.hosts.Connect(iter(requests), metadata=caller.metadata, timeout=20)
    (results,) = [answer.report_results for answer in stream if answer.HasField("report_results")]
    caller.call(caller.hosts.DeregisterHost, runtime_host_pb2.DeregisterHostRequest(host_id=host))
    return [*told, *[result.SerializeToString() for result in results.results]]


@pytest.mark.parametrize("token", [1, 1e9])
@pytest.mark.parametrize("is_registered", [True, False])
def test_a_report_on_a_task_of_another_host_is_answered_as_one_on_no_task(
    operator: Stubs, narrow: Stubs, token: float, is_registered: bool
) -> None:
    def told_of(task_id: str) -> list[Any]:
        if is_registered:
            register(narrow, "h5", **WITHIN)
        return reported(narrow, "h5", task_id, token)

    register(operator, "other")
    submitted = task_pb2.SubmitTaskRequest(agent_id=AGENT, action="other", project=PROJECT)
    leased, queued = (operator.call(operator.tasks.SubmitTask, submitted).task_id for _ in range(2))
    assert claim(operator, "other").task_id == leased
    missing = told_of("tsk_none")
    for task_id in (leased, queued):
        assert told_of(task_id) == missing
        operator.call(operator.tasks.CancelTask, task_pb2.CancelTaskRequest(task_id=task_id))
        assert told_of(task_id) == missing


def test_a_host_is_told_how_its_own_lease_ended(operator: Stubs, narrow: Stubs) -> None:
    register(narrow, "h6", **WITHIN)
    submitted = task_pb2.SubmitTaskRequest(agent_id=AGENT, action=ACTION, project=PROJECT)
    task_id = operator.call(operator.tasks.SubmitTask, submitted).task_id
    lease = claim(narrow, "h6")
    assert lease.task_id == task_id
    operator.call(operator.tasks.CancelTask, task_pb2.CancelTaskRequest(task_id=task_id))
    named = {"host_id": "h6", "task_id": task_id, "fencing_token": lease.fencing_token}
    told = refusal(lambda: narrow.call(narrow.leases.CompleteTask, lease_pb2.CompleteTaskRequest(**named)))
    assert told[0] is grpc.StatusCode.ABORTED
    assert "lease lost: task is cancelled" in told[1]
    assert narrow.call(narrow.leases.ReleaseTask, lease_pb2.ReleaseTaskRequest(**named)).state


def test_nothing_changes_by_reports_on_the_lease_of_another_host(operator: Stubs, narrow: Stubs) -> None:
    register(operator, "other")
    register(narrow, "h4", **WITHIN)
    submitted = task_pb2.SubmitTaskRequest(agent_id=AGENT, action="other", project=PROJECT)
    task_id = operator.call(operator.tasks.SubmitTask, submitted).task_id
    lease = claim(operator, "other")
    assert lease.task_id == task_id
    get = task_pb2.GetTaskRequest(task_id=task_id)
    before = operator.call(operator.tasks.GetTask, get)
    leases_before = operator.call(operator.leases.ListLeases, lease_pb2.ListLeasesRequest(host_id="other"))
    named = {"task_id": task_id, "fencing_token": lease.fencing_token}
    for name, fields in REPORTS.items():
        method, make = getattr(narrow.leases, name), getattr(lease_pb2, f"{name}Request")
        told = [
            refusal(partial(narrow.call, method, make(host_id=host, **named, **fields)))[:2] for host in ("other", "h4")
        ]
        assert told[0][0] is grpc.StatusCode.PERMISSION_DENIED
        assert told[1] == (grpc.StatusCode.NOT_FOUND, "task not found")
    report = runtime_host_pb2.Report(task_id=task_id, fencing_token=lease.fencing_token)
    report.completed.SetInParent()
    heartbeat = runtime_host_pb2.Heartbeat(leases=[runtime_host_pb2.HeldLease(**named)])
    requests = [
        hello("h4", **WITHIN, leases=[runtime_host_pb2.HeldLease(**named)]),
        runtime_host_pb2.ConnectRequest(reports=runtime_host_pb2.Reports(reports=[report])),
        runtime_host_pb2.ConnectRequest(heartbeat=heartbeat),
    ]
    stream = narrow.hosts.Connect(iter(requests), metadata=narrow.metadata, timeout=20)
    answers = {answer.WhichOneof("message"): answer for answer in stream}
    assert [held.task_id for held in answers["welcome"].welcome.lost] == [task_id]
    assert answers["report_results"].report_results.results[0].error.code == "not_found"
    assert [held.task_id for held in answers["heartbeat_ack"].heartbeat_ack.lost] == [task_id]
    assert operator.call(operator.tasks.GetTask, get) == before
    leases = operator.call(operator.leases.ListLeases, lease_pb2.ListLeasesRequest(host_id="other"))
    assert leases == leases_before
    release = lease_pb2.ReleaseTaskRequest(host_id="other", **named)
    operator.call(operator.leases.ReleaseTask, release)
    operator.call(operator.tasks.CancelTask, task_pb2.CancelTaskRequest(task_id=task_id))


def test_a_host_gets_the_tasks_of_its_grant_with_their_payloads(operator: Stubs, narrow: Stubs) -> None:
    register(narrow, "h5", **WITHIN)
    ids = []
    for action, project in (("other", PROJECT), (ACTION, "other"), (ACTION, PROJECT)):
        request = task_pb2.SubmitTaskRequest(agent_id=AGENT, action=action, project=project)
        request.params.update({"word": "rosebud"})
        ids.append(operator.call(operator.tasks.SubmitTask, request).task_id)
    claimed = claim(narrow, "h5")
    assert (claimed.task_id, claimed.task.params["word"]) == (ids[2], "rosebud")
    assert not claim(narrow, "h5").claimed
    for task_id in ids:
        operator.call(operator.tasks.CancelTask, task_pb2.CancelTaskRequest(task_id=task_id))
