"""Requests converted to the types of the core. Invalid input raises a refusal that names the field as in JSON."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from math import inf, isfinite, nextafter
from typing import Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.batch_pb2 import BatchTask
from taskyard.v1.runtime_host_pb2 import Heartbeat, HeartbeatHostRequest, Hello, RegisterHostRequest, RuntimeHost
from taskyard.v1.task_pb2 import SubmitTaskRequest
from taskyard_server.core.errors import BadRequest, Refusal, TooLarge
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.hosts import RESERVED_HOST_PREFIX, HostProfile, HostStatus
from taskyard_server.core.task import NO_EXTRAS, NO_OPTIONS, TERMINAL, Submission, TaskState
from taskyard_server.core.task_options import (
    AfterPolicy,
    IdempotencyKey,
    OnConflict,
    OnTargetFailure,
    TaskExtras,
    TaskOptions,
    UniqueWhile,
)

from .fingerprints import fingerprint
from .payload import MAX_DEPTH, check_json, is_json, is_too_deep
from .timestamps import earliest_shown
from .trace_context import TRACEPARENT

MAX_NAME_CHARS: Final = 1_024
MAX_ENTRIES_PER_FIELD: Final = 64
MAX_ENCODING_CHARS: Final = 64
MAX_CONCURRENCY_KEYS: Final = 4
MAX_PREDECESSORS: Final = 32
MIN_TIME_SECS: Final = -62_135_596_800
END_OF_TIME_SECS: Final = 253_402_300_800
"""The range of `google.protobuf.Timestamp`: from the year 1 to before the year 10000."""
MAX_CLAIM_ID_CHARS: Final = 128
MAX_OPERATION_ID_CHARS: Final = 128
CONTROL_CHARACTERS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
NO_NAMES: Final[frozenset[str]] = frozenset()
DefaultRetry: TypeAlias = Callable[[str], RetryPolicy | None]
State = TypeVar("State", bound=StrEnum)
Choice = TypeVar("Choice", bound=StrEnum)
Sent = TypeVar("Sent", int, str)
"""How a choice is sent: the number of an enum's value, or its name."""
AFTER_POLICIES: Final[dict[int, AfterPolicy]] = {pb.After.Policy.Value(policy.value): policy for policy in AfterPolicy}
UNIQUE_WHILES: Final[dict[int, UniqueWhile]] = {pb.Unique.While.Value(span.value): span for span in UniqueWhile}
ON_CONFLICTS: Final[dict[int, OnConflict]] = {pb.Unique.Conflict.Value(action.value): action for action in OnConflict}
ON_TARGET_FAILURES: Final[dict[str, OnTargetFailure]] = {action.value: action for action in OnTargetFailure}
REPORTABLE_STATUSES: Final = {
    RuntimeHost.Status.Value(status.value): status for status in HostStatus if status is not HostStatus.DEAD
}


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
        _required(agent_id, "agentId", owner_prefix),
        _required(task.action, "action", prefix),
        name(task.tab_id, "tabId", prefix),
        name(task.ref, "ref", prefix),
        params,
        task.priority,
        seconds(task.deadline, "deadline", prefix) if task.HasField("deadline") else None,
        options,
    )


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


def states(text: str, known: type[State], prefix: str = "") -> frozenset[State] | None:
    """State names separated by commas; None for an empty text. Of tasks `live` means all that have not ended."""
    words: dict[str, list[State]] = {str(state): [state] for state in known}
    if known is TaskState:
        words["live"] = [state for state in known if state not in TERMINAL]
    state_names = [part.strip() for part in text.split(",") if part.strip()]
    for state_name in state_names:
        if state_name not in words:
            raise BadRequest(f'{prefix}state: unknown state "{state_name[:64]}", must be among {", ".join(words)}')
    return frozenset(state for state_name in state_names for state in words[state_name]) or None


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
        project=name(task.project, "project", prefix),
        requires=names(task.requires, "requires", prefix),
        labels=labels(task.labels, "labels", prefix),
        target=name(task.target, "target", prefix),
        traceparent=_traceparent(task.traceparent, "traceparent", prefix) or traceparent,
        key=_key(task, agent_id, callback_url, "idempotencyKey", prefix) if task.idempotency_key else None,
        hold=task.hold,
        not_before=seconds(task.not_before, "notBefore", prefix) if task.HasField("not_before") else None,
        token_limit=task.token_limit if task.HasField("token_limit") else None,
        retry=_retry(task.retry_policy, "retryPolicy", prefix)
        if task.HasField("retry_policy")
        else default_retry(task.action),
        run_timeout_secs=_run_timeout(task.run_timeout_ms, prefix) if task.HasField("run_timeout_ms") else None,
        parent_id=name(task.parent_id, "parentId", prefix),
        extras=_extras(task, prefix),
    )
    return NO_OPTIONS if options == NO_OPTIONS else options


def _required(value: str, field: str, prefix: str = "") -> str:
    if not value or value.isspace():
        raise BadRequest(f"{prefix}{field}: is required")
    return _bounded(value, field, prefix)


def name(value: str, field: str, prefix: str = "") -> str | None:
    """An optional name. `prefix` is the path of the field's message within the request, here and below."""
    if value.isspace():
        raise BadRequest(f"{prefix}{field}: must not be blank")
    return _bounded(value, field, prefix) if value else None


def claim_id(value: str) -> str | None:
    """The name of a claim; an empty one is none (docs/rules.md, Claim ids)."""
    return _bounded(value, "claim_id", "", MAX_CLAIM_ID_CHARS) or None


def operation_id(value: str) -> str:
    """The id of an operation, of its caller's making."""
    return _bounded(_required(value, "operationId"), "operationId", "", MAX_OPERATION_ID_CHARS)


def _bounded(value: str, field: str, prefix: str, max_chars: int = MAX_NAME_CHARS) -> str:
    if len(value) > max_chars:
        raise BadRequest(f"{prefix}{field}: must be at most {max_chars} characters")
    # Most values are printable, which is cheaper to check.
    if not value.isprintable() and CONTROL_CHARACTERS.search(value):
        raise BadRequest(f"{prefix}{field}: must not hold control characters")
    return value


def names(values: Sequence[str], field: str, prefix: str = "") -> frozenset[str]:
    """A set of required names."""
    if not values:
        return NO_NAMES
    if len(values) > MAX_ENTRIES_PER_FIELD:
        raise BadRequest(f"{prefix}{field}: must have at most {MAX_ENTRIES_PER_FIELD} entries")
    return frozenset([_required(value, field, prefix) for value in values])


def labels(values: Mapping[str, str], field: str, prefix: str = "") -> tuple[tuple[str, str], ...]:
    """Labels, sorted by key."""
    if not values:
        return ()
    if len(values) > MAX_ENTRIES_PER_FIELD:
        raise BadRequest(f"{prefix}{field}: must have at most {MAX_ENTRIES_PER_FIELD} entries")
    # Not `values.items()`: protobuf's maps inherit the slow default of `collections.abc`.
    return tuple(sorted([(_required(key, field, prefix), _bounded(values[key], field, prefix)) for key in values]))


def payload(
    value: Struct | Value, field: str, max_bytes: int, container: Message | None = None, prefix: str = ""
) -> bytes:
    """A JSON payload, or the `container` that holds it, encoded. Raises `TooLarge` or `BadRequest`."""
    encoded = (value if container is None else container).SerializeToString()
    if len(encoded) > max_bytes:
        raise TooLarge(f"{prefix}{field}: must be at most {max_bytes} bytes when encoded, is {len(encoded)}")
    if is_too_deep(value, encoded):
        raise BadRequest(f"{prefix}{field}: must not nest deeper than {MAX_DEPTH} levels")
    if not is_json(value, encoded):
        raise BadRequest(f"{prefix}{field}: must not hold a number that JSON has not, such as NaN")
    return encoded


def typed_payload(
    value: pb.Payload, field: str, max_bytes: int, other: str, beside: bytes | None, prefix: str = ""
) -> bytes:
    """A `Payload`, encoded, which has its room together with the `other` field, encoded `beside` it.

    Raises `TooLarge` or `BadRequest`.
    """
    encoding = name(value.encoding, f"{field}.encoding", prefix)
    if encoding is not None and len(encoding) > MAX_ENCODING_CHARS:
        raise BadRequest(f"{prefix}{field}.encoding: must be at most {MAX_ENCODING_CHARS} characters")
    encoded = pb.Payload(data=value.data, encoding=encoding).SerializeToString()
    size = len(encoded) + (0 if beside is None else len(beside))
    if size > max_bytes:
        raise TooLarge(f"{prefix}{field}: must be at most {max_bytes} bytes together with {other}, is {size}")
    if encoding is None:
        try:
            check_json(value.data)
        except ValueError as fault:
            raise BadRequest(f"{prefix}{field}.data: {fault}") from None
    return encoded


def _run_timeout(ms: int, prefix: str) -> float:
    """A run timeout in seconds."""
    if ms < 1:
        raise BadRequest(f"{prefix}runTimeoutMs: must be at least 1")
    return ms / 1000


def host_id(value: str) -> str:
    """The id of a host; ids of built-in hosts are reserved."""
    if value.startswith(RESERVED_HOST_PREFIX):
        raise BadRequest(f"host_id: must not begin with {RESERVED_HOST_PREFIX}")
    return _required(value, "host_id")


def host_profile(request: RegisterHostRequest | Hello) -> HostProfile:
    """The profile of a host, which decides which tasks it may run."""
    return HostProfile(
        capabilities=names(request.capabilities, "capabilities"),
        project=name(request.project, "project"),
        actions=names(request.actions, "actions") or None,
    )


def host_status(status: RuntimeHost.Status.ValueType) -> HostStatus | None:
    """The status that a host reports of itself. Hosts cannot report `DEAD`: the server decides that."""
    if status not in RuntimeHost.Status.values():
        raise BadRequest(f"status: is not a status, got {status}")
    return REPORTABLE_STATUSES.get(status)


def machine(request: RegisterHostRequest | HeartbeatHostRequest | Hello | Heartbeat, max_bytes: int) -> bytes | None:
    """The encoded figures of a host's machine; None if the request has none."""
    if not request.HasField("machine"):
        return None
    if not 0 <= request.machine.cpu_percent <= 100:
        raise BadRequest("machine.cpu_percent: must be from 0 to 100")
    if not 0 <= request.machine.memory_mb < inf:
        raise BadRequest("machine.memory_mb: must be a finite number, 0 or more")
    return payload(request.machine.context, "machine", max_bytes, request.machine)


def seconds(time: Timestamp, field: str, prefix: str = "") -> float:
    """A time in seconds since the epoch, in the range that responses can represent."""
    if time.seconds < MIN_TIME_SECS:
        raise BadRequest(f"{prefix}{field}: must be a time after the year 0")
    secs = time.seconds + time.nanos / 1e9
    # The last microseconds of the year 9999 would be rounded up to the year 10000.
    if not (secs < END_OF_TIME_SECS and 0 <= time.nanos < 1_000_000_000):
        raise BadRequest(f"{prefix}{field}: must be a time before the year 10000")
    return secs


def bound(message: Message, field: str, shown: str) -> float | None:
    """A time that bounds others as they are shown, rounded to the microsecond; None if absent. Errors say `shown`."""
    if not message.HasField(field):
        return None
    time: Timestamp = getattr(message, field)
    seconds(time, shown)
    return earliest_shown(time.seconds * 1_000_000 - time.nanos // -1000)


def last_before(message: Message, field: str, shown: str) -> float | None:
    """The last time before those that are shown as later than this one; None if absent. Errors say `shown`."""
    if not message.HasField(field):
        return None
    time: Timestamp = getattr(message, field)
    seconds(time, shown)
    return nextafter(earliest_shown(time.seconds * 1_000_000 + time.nanos // 1000 + 1), -inf)


def _http_url(url: str, field: str, prefix: str) -> str:
    try:
        parts = urlsplit(_bounded(url, field, prefix))
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
        _bounded(task.idempotency_key, field, prefix), fingerprint(task, agent_id, callback_url, retry)
    )


def _extras(task: SubmitTaskRequest | BatchTask, prefix: str) -> TaskExtras:
    """How the task stands to others, and its element; `NO_EXTRAS` if nothing is said of that."""
    places = task.after_indexes if isinstance(task, BatchTask) else ()
    is_set = task.HasField
    if not (
        task.concurrency_keys
        or task.after
        or places
        or is_set("unique_key")
        or is_set("on_target_failure")
        or is_set("after_policy")
        or is_set("unique_while")
        or is_set("on_conflict")
        or is_set("selector")
    ):
        return NO_EXTRAS
    extras = TaskExtras(
        concurrency_keys=tuple(sorted({_required(key, "concurrencyKeys", prefix) for key in task.concurrency_keys})),
        after=tuple(dict.fromkeys([_required(task_id, "after", prefix) for task_id in task.after])),
        after_indexes=tuple(dict.fromkeys(places)),
        after_policy=_choice(AFTER_POLICIES, task.after_policy, "afterPolicy", prefix),
        unique_key=name(task.unique_key, "uniqueKey", prefix),
        unique_while=_choice(UNIQUE_WHILES, task.unique_while, "uniqueWhile", prefix),
        on_conflict=_choice(ON_CONFLICTS, task.on_conflict, "onConflict", prefix),
        on_target_failure=_choice(ON_TARGET_FAILURES, task.on_target_failure, "onTargetFailure", prefix),
        selector=name(task.selector, "selector", prefix),
    )
    if len(extras.concurrency_keys) > MAX_CONCURRENCY_KEYS:
        raise BadRequest(f"{prefix}concurrencyKeys: must have at most {MAX_CONCURRENCY_KEYS} entries")
    if len(extras.after) + len(extras.after_indexes) > MAX_PREDECESSORS:
        others = " together with afterIndexes" if extras.after_indexes else ""
        raise BadRequest(f"{prefix}after: must have at most {MAX_PREDECESSORS} entries{others}")
    if extras.after_policy is not None and not (extras.after or extras.after_indexes):
        raise BadRequest(f"{prefix}afterPolicy: needs after")
    if extras.unique_key is None and extras.unique_while is not None:
        raise BadRequest(f"{prefix}uniqueWhile: needs uniqueKey")
    if extras.unique_key is None and extras.on_conflict is not None:
        raise BadRequest(f"{prefix}onConflict: needs uniqueKey")
    if extras.on_target_failure is not None and not task.target:
        raise BadRequest(f"{prefix}onTargetFailure: needs target")
    return NO_EXTRAS if extras == NO_EXTRAS else extras


def _choice(choices: Mapping[Sent, Choice], value: Sent, field: str, prefix: str) -> Choice | None:
    """One of the values of an enum; None if unset."""
    if value and value not in choices:
        raise BadRequest(f"{prefix}{field}: must be among {', '.join(choices.values())}")
    return choices.get(value)


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
