"""The inputs of tasks as their hosts are handed them: along with the task, but for results that are too large."""

from __future__ import annotations

from typing import Final

from taskyard.v1 import input_pb2, lease_pb2, task_pb2
from taskyard_server.core.leases import Lease
from taskyard_server.core.runs.inputs import TaskInput, inputs_of

from .artifacts import artifact_message
from .wire import add_nested, add_text, nested, tag

NAME: Final = tag(lease_pb2.Assignment.InputsEntry, "key")
VALUE: Final = tag(lease_pb2.Assignment.InputsEntry, "value")
RESULT: Final = tag(input_pb2.Input, "result")
OUTPUT: Final = tag(input_pb2.Input, "output")
MAX_INPUTS_BYTES: Final = 262_144
"""Of the results of all inputs of a task that come along with it."""


def encode_input(found: TaskInput, *, omits_result: bool = False) -> bytes:
    """An `Input` (docs/rules.md, Inputs)."""
    message, task = input_pb2.Input(task_id=found.task_id), found.task
    if task is None:
        return message.SerializeToString()
    message.state = task_pb2.Task.State.Value(task.state.value)
    if task.error is not None:
        message.error = task.error
    message.artifacts.extend([artifact_message(each) for each in task.history.artifacts])
    if omits_result:
        message.omitted = True
    parts = [message.SerializeToString()]
    if task.result is not None and not omits_result:
        add_nested(parts, RESULT, task.result)
    if task.history.output is not None and not omits_result:
        add_nested(parts, OUTPUT, task.history.output)
    return b"".join(parts)


def encode_inputs(field: bytes, lease: Lease) -> bytes:
    """This field of a message, a map of an `Input` by name, for the task of a lease."""
    parts: list[bytes] = []
    room = MAX_INPUTS_BYTES
    for found in inputs_of(lease):
        size = _result_size(found)
        fits = size <= room
        if fits:
            room -= size
        entry: list[bytes] = []
        add_text(entry, NAME, found.name)
        add_nested(entry, VALUE, encode_input(found, omits_result=not fits))
        parts.append(nested(field, b"".join(entry)))
    return b"".join(parts)


def _result_size(found: TaskInput) -> int:
    task = found.task
    if task is None:
        return 0
    return len(task.result or b"") + len(task.history.output or b"")
