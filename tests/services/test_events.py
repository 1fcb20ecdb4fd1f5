"""Events over the services: what is sent to a name lets those go on that wait for it (docs/rules.md, Events)."""

import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value

from taskyard.v1 import event_pb2 as pb
from taskyard.v1 import step_pb2
from taskyard.v1.task_pb2 import ExplainTaskRequest
from taskyard.v1.wait_pb2 import EventWait, NewWait, Wait
from tests.services.test_parks import park, refusal, running, value

PAID = NewWait(name="payment", event=EventWait(name="paid"))


async def send(server, name="paid", payload=None, **fields):
    request = pb.SendEventRequest(name=name, payload=value(payload), **fields)
    return await server.events.SendEvent(request)


async def test_what_waits_goes_on_with_the_payload(server):
    _, assignment, task_id = await running(server)
    await park(server, assignment, PAID)
    (wait,) = (await server.get(task_id)).park.waits
    assert (wait.kind, wait.name, wait.event_name, list(wait.task_ids)) == (Wait.event, "payment", "paid", [])
    explained = await server.tasks.ExplainTask(ExplainTaskRequest(task_id=task_id))
    assert "the event paid" in explained.reasons[0].message
    answer = await send(server, payload={"amount": 7}, event_id="order-7")
    assert (answer.event_id, answer.waiting, answer.HasField("repeated")) == ("order-7", 1, False)
    (step,) = (await server.steps.ListSteps(step_pb2.ListStepsRequest(task_id=task_id))).steps
    assert (step.kind, step.name) == (step_pb2.Step.event, "payment")
    assert json_format.MessageToDict(step.result) == {"amount": 7}


async def test_an_event_for_nobody_is_kept_for_a_minute(server):
    answer = await send(server)
    assert answer.event_id.startswith("evt_")
    assert answer.waiting == 0
    _, assignment, task_id = await running(server)
    await park(server, assignment, PAID)
    (step,) = (await server.steps.ListSteps(step_pb2.ListStepsRequest(task_id=task_id))).steps
    assert step.result == Value(null_value=0)


async def test_an_id_that_is_sent_again_is_the_same_event(server):
    first = await send(server, payload=1, event_id="e")
    again = await send(server, payload=1, event_id="e")
    assert (first.repeated, again.repeated) == (False, True)
    code, text = await refusal(send(server, payload=2, event_id="e"))
    assert (code, text) == ("ALREADY_EXISTS", "eventId: is that of another event")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": ""}, "name: must have 1 to 256 letters"),
        ({"name": "a/b"}, "name: must have"),
        ({"name": "x" * 257}, "name: must have"),
        ({"event_id": "x" * 129}, "eventId: must have 1 to 128"),
        ({"life_secs": -1}, "lifeSecs: must be from 0 to 86400"),
        ({"life_secs": float("nan")}, "lifeSecs: must be"),
        ({"payload": "x" * 65_536}, "payload: must be at most 65536 bytes"),
    ],
)
async def test_what_is_malformed_is_refused(server, fields, text):
    code, found = await refusal(send(server, **fields))
    assert code == "INVALID_ARGUMENT"
    assert found.startswith(text)


async def test_a_name_that_is_waited_for_is_checked(server):
    _, assignment, _ = await running(server)
    code, text = await refusal(park(server, assignment, NewWait(name="x", event=EventWait(name="a/b"))))
    assert (code, text.partition(":")[0]) == ("INVALID_ARGUMENT", "waits[0].event.name")
