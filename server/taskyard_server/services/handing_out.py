"""What hosts are told of the tasks that they are handed, where that is not what everybody is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from taskyard_server.conversion.task_encoding import encode_assignment, encode_task
from taskyard_server.core.leases import Lease
from taskyard_server.core.task import Task


def task_encoding(handed: Callable[[Task], Task] | None) -> Callable[[Task], bytes]:
    """What encodes a task for its host."""
    return encode_task if handed is None else partial(_encode_task, handed)


def assignment_encoding(handed: Callable[[Task], Task] | None) -> Callable[[Lease], bytes]:
    """What encodes an `Assignment`."""
    return encode_assignment if handed is None else partial(_encode_assignment, handed)


def _encode_task(handed: Callable[[Task], Task], task: Task) -> bytes:
    return encode_task(handed(task))


def _encode_assignment(handed: Callable[[Task], Task], lease: Lease) -> bytes:
    return encode_assignment(lease, handed(lease.task))
