"""By an agent's credential events reach the tasks of its own agents alone (docs/rules.md, Events)."""

from collections.abc import Iterator

import grpc
import pytest

from taskyard.v1 import event_pb2, event_pb2_grpc, lease_pb2, park_pb2, park_pb2_grpc, runtime_host_pb2, task_pb2
from taskyard.v1.wait_pb2 import EventWait, NewWait
from tests.access.sight_yard import Stubs, refusal, stubs
from tests.access.yards import AGENT, HOST, OTHER_AGENT, Yard


@pytest.fixture
def host(yard: Yard) -> Iterator[Stubs]:
    with stubs(yard, "host") as made:
        made.call(made.hosts.RegisterHost, runtime_host_pb2.RegisterHostRequest(host_id=HOST))
        yield made


def parked(operator: Stubs, host: Stubs, agent: str) -> str:
    """A task of this agent that waits for an event."""
    request = task_pb2.SubmitTaskRequest(agent_id=agent, action="pay", priority=-1)
    task_id: str = operator.call(operator.tasks.SubmitTask, request).task_id
    lease = host.call(host.leases.ClaimTask, lease_pb2.ClaimTaskRequest(host_id=HOST))
    assert lease.task_id == task_id
    wait = NewWait(name="paid", event=EventWait(name="paid"))
    park = park_pb2.ParkTaskRequest(host_id=HOST, task_id=task_id, fencing_token=lease.fencing_token, waits=[wait])
    assert host.call(park_pb2_grpc.ParkServiceStub(host.channel).ParkTask, park).state == task_pb2.Task.State.parked
    return task_id


def send(caller: Stubs, payload: str) -> event_pb2.SendEventResponse:
    request = event_pb2.SendEventRequest(name="paid", event_id="order-7")
    request.payload.string_value = payload
    return caller.call(event_pb2_grpc.EventServiceStub(caller.channel).SendEvent, request)


def test_an_event_wakes_tasks_of_its_senders_agents_alone(ann: Stubs, bob: Stubs, operator: Stubs, host: Stubs) -> None:
    mine, other = parked(operator, host, AGENT), parked(operator, host, OTHER_AGENT)
    states = task_pb2.Task.State

    def state(task_id: str) -> int:
        return operator.call(operator.tasks.GetTask, task_pb2.GetTaskRequest(task_id=task_id)).state

    assert send(ann, "of ann").waiting == 1
    assert (state(mine), state(other)) == (states.queued, states.parked)
    # The id is bob's own: with another payload it is another event.
    assert send(bob, "of bob").waiting == 1
    assert state(other) == states.queued
    assert send(ann, "of ann").repeated


def test_a_host_sends_no_events(host: Stubs) -> None:
    assert refusal(lambda: send(host, "x"))[0] is grpc.StatusCode.PERMISSION_DENIED
