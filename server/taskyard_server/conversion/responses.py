"""Responses built from the types of the core. Fields that do not apply stay unset."""

from collections.abc import Callable
from typing import Final

from google.protobuf.struct_pb2 import Struct

from taskyard.v1 import lease_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard_server.core.errors import Refusal
from taskyard_server.core.leases import Lease
from taskyard_server.core.task import Task

from .task_encoding import encode_lease, encode_task
from .wire import nested

MAX_PAGE_BYTES: Final = 3_000_000
"""Maximum encoded size of the items on one page. Clients accept messages of up to 4 MiB by default."""

MAX_REST_PAGE_BYTES: Final = 16_000_000
"""Callers that know no page tokens get 1,000 tasks of 16 kB each. The gateway would pass on 64 MiB, but all its callers
wait while it writes a page as JSON: about 0.2 s for one of this size."""


def lease_message(lease: Lease) -> lease_pb2.Lease:
    """A lease as a message (docs/rules.md, Grants)."""
    return lease_pb2.Lease.FromString(encode_lease(lease))


def task_page(
    field: bytes,
    tasks: list[Task],
    limit: int,
    next_after: int | None = None,
    by_rest: bool = False,
    encode: Callable[[Task], bytes] = encode_task,
) -> tuple[list[bytes], int | None]:
    """The first tasks, up to `limit` and the bytes of a page but at least one, and where the next page starts.

    Each task is encoded by `encode`, as the field with the tag `field`.
    """
    max_bytes = MAX_REST_PAGE_BYTES if by_rest else MAX_PAGE_BYTES
    page: list[bytes] = []
    size = 0
    for count, task in enumerate(tasks):
        encoded = nested(field, encode(task))
        size += len(encoded)
        if count == limit or (count and size > max_bytes):
            return page, tasks[count - 1].seq
        page.append(encoded)
    return page, next_after


def error_message(refusal: Refusal) -> pb.Error:
    """The refusal of one item of a message with several."""
    message = pb.Error(code=refusal.code, error=refusal.message)
    if refusal.retryable:
        message.retryable = True
        message.retry_after_ms = refusal.retry_after_ms
    if refusal.details:
        details = Struct()
        details.update(dict(refusal.details))
        message.details.CopyFrom(details)
    return message
