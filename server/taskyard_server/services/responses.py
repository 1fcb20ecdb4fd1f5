"""The core's terms into answers. A field that does not apply stays unset."""

from typing import Final

from google.protobuf.struct_pb2 import Struct

from taskyard.v1 import lease_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard_server.core.errors import Refusal
from taskyard_server.core.leases import Lease
from taskyard_server.core.task import Task

from .encoding import encode_lease, encode_task

MAX_PAGE_BYTES: Final = 3_000_000
"""Clients take messages of up to 4 MiB by default."""


def task_message(task: Task) -> pb.Task:
    """The whole task (scheduler-reference, Task Object)."""
    return pb.Task.FromString(encode_task(task))


def lease_message(lease: Lease) -> lease_pb2.Lease:
    """A lease (runtime-host-model, TaskLease)."""
    return lease_pb2.Lease.FromString(encode_lease(lease))


def task_page(tasks: list[Task], most: int, next_after: int | None = None) -> tuple[list[pb.Task], int | None]:
    """As many of the tasks as one answer may hold, at least one, and where the next page starts."""
    messages: list[pb.Task] = []
    size = 0
    for count, task in enumerate(tasks):
        message = task_message(task)
        size += message.ByteSize()
        if count == most or (count and size > MAX_PAGE_BYTES):
            return messages, tasks[count - 1].seq
        messages.append(message)
    return messages, next_after


def error_message(refusal: Refusal) -> pb.Error:
    """A refusal of one item among several."""
    message = pb.Error(code=refusal.code, error=refusal.message, retryable=refusal.retryable or None)
    if refusal.details:
        details = Struct()
        details.update(dict(refusal.details))
        message.details.CopyFrom(details)
    return message
