"""`taskyard steps`: list what the runs of a task have done once and for all."""

import json
from typing import Final

from taskyard.v1 import step_pb2
from taskyard.v1.step_pb2_grpc import StepServiceStub
from taskyard.values.convert import plain_value
from taskyard.values.references import reference_in
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection
from .listing import Head, ListingTable, number
from .output_form import print_data, with_output
from .server import length_text, local_time, size_text
from .task_ids import TaskArgument, whole_id

MAX_CHARS: Final = 300
"""A longer result is told by its size: `--output json` has it."""


@with_output
@with_connection
def steps(task_id: TaskArgument, connection: Connection, as_json: bool = False) -> None:
    """List the steps of a task, which its next run does not do again."""
    with connection.opened() as channel:
        request = step_pb2.ListStepsRequest(task_id=whole_id(channel, connection, task_id))
        answer: step_pb2.ListStepsResponse = StepServiceStub(channel).ListSteps(request, **connection.call())
    if as_json:
        print_data({"steps": [message_to_json(each) for each in answer.steps]})
        return
    table = ListingTable("name", "result", number("took"), Head("recorded", 1), number("run", 2), number("attempt", 3))
    for each in answer.steps:
        took = length_text(each.duration_ms / 1_000) if each.HasField("duration_ms") else ""
        table.add(each.name, _result(each), took, local_time(each.recorded_at), str(each.run), str(each.attempt))
    table.print()


def _result(step: step_pb2.Step) -> str:
    """The result of a step in a line, empty without one."""
    if step.output.encoding:
        return f"{size_text(len(step.output.data))}, encoded by {step.output.encoding}"
    if step.HasField("output"):
        text = step.output.data.decode(errors="replace")
    elif step.HasField("result"):
        plain = plain_value(step.result)
        if (reference := reference_in(plain)) is not None:
            return f"{size_text(reference.size_bytes)}, the artifact {reference.name}"
        text = json.dumps(plain, ensure_ascii=False)
    else:
        return ""
    return text if len(text) <= MAX_CHARS else f"{size_text(len(text.encode()))} of JSON"
