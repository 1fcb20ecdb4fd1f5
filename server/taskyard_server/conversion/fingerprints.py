"""The fingerprint of a requested task, by which a repeat is told from another task under the same idempotency key."""

from hashlib import sha256

from taskyard.v1.batch_pb2 import BatchTask
from taskyard.v1.task_pb2 import After, Parent, SubmitTaskRequest, Unique
from taskyard_server.core.history import RetryPolicy

from .history import policy_message

DEFAULTS = (
    ("after_policy", After.success),
    ("unique_while", Unique.live),
    ("on_conflict", Unique.existing),
    ("on_parent_end", Parent.keep),
)
"""Fields of enums with the values that leaving them out means."""


def fingerprint(
    task: SubmitTaskRequest | BatchTask, agent_id: str, callback_url: str, retry: RetryPolicy | None
) -> bytes:
    """Equal tasks have equal fingerprints, whether submitted alone, on a stream or in a batch, over REST or gRPC, with
    defaults set or left out. `retry` is the task's own policy, if it has one.
    """
    canonical = SubmitTaskRequest()
    if isinstance(task, SubmitTaskRequest):
        canonical.CopyFrom(task)
    else:
        # The fields of a BatchTask have the same numbers.
        canonical.MergeFromString(task.SerializeToString())
    canonical.DiscardUnknownFields()
    canonical.agent_id, canonical.callback_url = agent_id, callback_url
    # What are sets is given in any order.
    for names in (canonical.requires, canonical.concurrency_keys, canonical.after):
        if names:
            ordered = sorted(set(names))
            del names[:]
            names.extend(ordered)
    for field, default in DEFAULTS:
        if getattr(canonical, field) == default:
            canonical.ClearField(field)  # type: ignore[arg-type]
    # An explicit default equals an absent field, except for `token_limit`, where 0 is a limit.
    for descriptor, value in canonical.ListFields():
        if value == descriptor.default_value and not descriptor.message_type and descriptor.name != "token_limit":
            canonical.ClearField(descriptor.name)  # type: ignore[arg-type]
    if canonical.HasField("input") and canonical.input.encoding:
        # What a codec makes of a value may differ each time.
        canonical.input.data = b""
    elif canonical.HasField("input"):
        canonical.input.ClearField("encoding")
    if retry is not None:
        canonical.retry_policy.CopyFrom(policy_message(retry))
    body = canonical.SerializeToString(deterministic=True)
    if isinstance(task, BatchTask) and task.after_indexes:
        # A task alone has no such field.
        body += repr(sorted(set(task.after_indexes))).encode()
    if isinstance(task, BatchTask) and task.input_indexes:
        body += repr(sorted(task.input_indexes.items())).encode()
    return sha256(body).digest()[:16]
