"""Requested tasks as submissions, each field by `task_fields.py`, then what holds between them.

Invalid input raises a refusal that names the field as in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.batch_pb2 import BatchTask
from taskyard.v1.child_pb2 import SubmitChildRequest
from taskyard.v1.task_pb2 import SubmitTaskRequest
from taskyard_server.core.errors import BadRequest, Refusal
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.task import NO_EXTRAS, NO_OPTIONS, Submission
from taskyard_server.core.task_options import IdempotencyKey, TaskExtras, TaskOptions

from .fingerprints import fingerprint
from .requests import bounded, name, names, path_name, payload, required, seconds, typed_payload
from .task_fields import EXTRA_FIELDS, OPTION_FIELDS
from .trace_context import TRACEPARENT

MAX_CONCURRENCY_KEYS: Final = 4
MAX_PREDECESSORS: Final = 32
DefaultRetry: TypeAlias = Callable[[str], RetryPolicy | None]


def no_default_retry(action: str) -> None:
    """The `DefaultRetry` of a server that configures no retry policy for any action."""
    del action


def submission(
    task: SubmitTaskRequest | BatchTask,
    agent_id: str,
    callback_url: str,
    traceparent: str | None,
    max_payload_bytes: int,
    default_retry: DefaultRetry,
    prefix: str = "",
    owner_prefix: str = "",
) -> Submission:
    """One requested task as a submission.

    `prefix` is the path of the task within the request, for example `tasks[3].`; `owner_prefix` is that of its agent
    and callback. Errors name fields with it. `default_retry` supplies the retry policy of an action for tasks without
    their own.
    """
    params = payload(task.params, "params", max_payload_bytes, prefix=prefix) if task.HasField("params") else None
    options = _options(task, agent_id, callback_url, traceparent, default_retry, prefix, owner_prefix)
    if task.HasField("input"):
        encoded = typed_payload(task.input, "input", max_payload_bytes, "params", params, prefix)
        options = options._replace(input=encoded)
    return Submission(
        required(agent_id, "agentId", owner_prefix),
        required(task.action, "action", prefix),
        name(task.tab_id, "tabId", prefix),
        name(task.ref, "ref", prefix),
        params,
        task.priority,
        seconds(task.deadline, "deadline", prefix) if task.HasField("deadline") else None,
        options,
    )


def child_submission(
    request: SubmitChildRequest, traceparent: str | None, max_payload_bytes: int, default_retry: DefaultRetry
) -> Submission:
    """A child as a submission, whose agent and parent are given to it (core/runs/named_children.py)."""
    task, child_name = request.child, path_name(request.name, "name")
    agent_id, callback_url = task.agent_id, task.callback_url
    if not task.parent_id:
        task.parent_id = request.task_id
    # An agent is required of all other submissions.
    made = submission(
        task, agent_id or "any", callback_url, traceparent, max_payload_bytes, default_retry, "child.", "child."
    )
    options = made.options
    extras = options.extras._replace(child_name=child_name)
    return made._replace(agent_id=agent_id, options=options._replace(extras=extras))


def submissions(
    tasks: Sequence[SubmitTaskRequest],
    traceparent: str | None,
    max_payload_bytes: int,
    default_retry: DefaultRetry,
) -> list[Submission | Refusal]:
    """The tasks of one message as submissions, in order; an invalid task is returned as its refusal."""
    converted: list[Submission | Refusal] = []
    for task in tasks:
        try:
            converted.append(
                submission(task, task.agent_id, task.callback_url, traceparent, max_payload_bytes, default_retry)
            )
        except Refusal as refusal:
            converted.append(refusal.with_traceback(None))
    return converted


def _options(
    task: SubmitTaskRequest | BatchTask,
    agent_id: str,
    callback_url: str,
    traceparent: str | None,
    default_retry: DefaultRetry,
    prefix: str,
    owner_prefix: str,
) -> TaskOptions:
    options = TaskOptions(
        callback_url=_http_url(callback_url, "callbackUrl", owner_prefix) if callback_url else None,
        traceparent=_traceparent(task.traceparent, "traceparent", prefix) or traceparent,
        key=_key(task, agent_id, callback_url, "idempotencyKey", prefix) if task.idempotency_key else None,
        retry=_retry(task.retry_policy, "retryPolicy", prefix)
        if task.HasField("retry_policy")
        else default_retry(task.action),
        extras=_extras(task, prefix),
        **{field.core: field.read(task, prefix) for field in OPTION_FIELDS},
    )
    return NO_OPTIONS if options == NO_OPTIONS else options


def _extras(task: SubmitTaskRequest | BatchTask, prefix: str) -> TaskExtras:
    """How the task stands to others, and its element; `NO_EXTRAS` if nothing is said of that."""
    extras = TaskExtras(
        after_indexes=tuple(dict.fromkeys(task.after_indexes)) if isinstance(task, BatchTask) else (),
        input_indexes=_input_indexes(task, prefix) if isinstance(task, BatchTask) else (),
        **{field.core: field.read(task, prefix) for field in EXTRA_FIELDS},
    )
    if extras == NO_EXTRAS:
        return NO_EXTRAS
    if len(extras.concurrency_keys) > MAX_CONCURRENCY_KEYS:
        raise BadRequest(f"{prefix}concurrencyKeys: must have at most {MAX_CONCURRENCY_KEYS} entries")
    inputs = len(extras.inputs) + len(extras.input_indexes)
    named = len(extras.after) + len(extras.after_indexes) + inputs
    if named > MAX_PREDECESSORS:
        field = "inputs" if inputs else "after"
        others = " together with after" if inputs and inputs < named else ""
        others = " together with afterIndexes" if not inputs and extras.after_indexes else others
        raise BadRequest(f"{prefix}{field}: must have at most {MAX_PREDECESSORS} entries{others}")
    if extras.after_policy is not None and not named:
        raise BadRequest(f"{prefix}afterPolicy: needs after or inputs")
    if extras.unique_key is None and extras.unique_while is not None:
        raise BadRequest(f"{prefix}uniqueWhile: needs uniqueKey")
    if extras.unique_key is None and extras.on_conflict is not None:
        raise BadRequest(f"{prefix}onConflict: needs uniqueKey")
    if extras.on_target_failure is not None and not task.target:
        raise BadRequest(f"{prefix}onTargetFailure: needs target")
    if extras.on_parent_end is not None and not task.parent_id:
        raise BadRequest(f"{prefix}onParentEnd: needs a parentId")
    return extras


def _input_indexes(task: BatchTask, prefix: str) -> tuple[tuple[str, int], ...]:
    """Inputs by their places, sorted by name. Raises `BadRequest`, also for a name that `inputs` has, too."""
    given = task.input_indexes
    for key in given:
        if key in task.inputs:
            raise BadRequest(f"{prefix}inputIndexes: {key} stands among inputs, too")
    return tuple(sorted([(path_name(key, "inputIndexes", prefix), given[key]) for key in given]))


def _http_url(url: str, field: str, prefix: str) -> str:
    try:
        parts = urlsplit(bounded(url, field, prefix))
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and " " not in url
        is_valid = is_valid and url.isascii()
        # `parts.port` raises ValueError for an invalid port.
        is_valid = is_valid and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise BadRequest(f"{prefix}{field}: must be an http or https URL")
    return url


def _key(
    task: SubmitTaskRequest | BatchTask, agent_id: str, callback_url: str, field: str, prefix: str
) -> IdempotencyKey:
    retry = _retry(task.retry_policy, "retryPolicy", prefix) if task.HasField("retry_policy") else None
    return IdempotencyKey(
        bounded(task.idempotency_key, field, prefix), fingerprint(task, agent_id, callback_url, retry)
    )


def _retry(message: pb.RetryPolicy, field: str, prefix: str) -> RetryPolicy:
    default = RetryPolicy()
    policy = RetryPolicy(
        max_attempts=message.max_attempts if message.HasField("max_attempts") else default.max_attempts,
        first_delay_secs=message.first_delay_ms / 1000
        if message.HasField("first_delay_ms")
        else default.first_delay_secs,
        multiplier=message.multiplier if message.HasField("multiplier") else default.multiplier,
        max_delay_secs=message.max_delay_ms / 1000 if message.HasField("max_delay_ms") else default.max_delay_secs,
        non_retryable_codes=names(message.non_retryable_codes, f"{field}.nonRetryableCodes", prefix),
    )
    if policy.max_attempts < 1:
        raise BadRequest(f"{prefix}{field}.maxAttempts: must be at least 1")
    if not (isfinite(policy.multiplier) and policy.multiplier >= 1):
        raise BadRequest(f"{prefix}{field}.multiplier: must be at least 1")
    return policy


def _traceparent(value: str, field: str, prefix: str) -> str | None:
    if value and not TRACEPARENT.fullmatch(value):
        raise BadRequest(f"{prefix}{field}: must be a W3C trace context")
    return value or None
