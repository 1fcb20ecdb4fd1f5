"""Requests into the core's terms. Whatever is wrong raises a refusal that names the field as JSON spells it."""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from math import isfinite
from typing import Final, TypeAlias, TypeVar
from urllib.parse import urlsplit
from zlib import crc32

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
from taskyard_server.core.task import NO_OPTIONS, IdempotencyKey, Submission, TaskOptions
from taskyard_server.interceptors.calls import TRACEPARENT
from taskyard_server.payload import MAX_DEPTH, is_json, is_too_deep

from .course import policy_message

MAX_NAME_CHARS: Final = 1_024
MAX_ENTRIES: Final = 64
MAX_PAGE: Final = 1_000
START_OF_TIME: Final = -62_135_596_800
END_OF_TIME: Final = 253_402_300_800
CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
NO_NAMES: Final[frozenset[str]] = frozenset()
NOT_A_TOKEN: Final = "pageToken: is not a token of this listing"
DefaultRetry: TypeAlias = Callable[[str], RetryPolicy | None]
State = TypeVar("State", bound=StrEnum)
WORDS: Final = {RuntimeHost.Status.Value(word.value): word for word in HostStatus if word is not HostStatus.DEAD}


def no_default_retry(action: str) -> None:
    """No action has a retry policy of its own."""
    del action


def submission(
    asked: SubmitTaskRequest | BatchTask,
    agent_id: str,
    callback_url: str,
    traceparent: str | None,
    max_payload_bytes: int,
    default_retry: DefaultRetry,
    at: str = "",
    owner_at: str = "",
) -> Submission:
    """One task as its submitter wants it. `at` tells where in the request it stands, for example `tasks[3].`, and
    `owner_at` where its agent and callback do.

    `default_retry` gives the retry policy of an action, for a task that has none of its own.
    """
    return Submission(
        _required(agent_id, "agentId", owner_at),
        _required(asked.action, "action", at),
        name(asked.tab_id, "tabId", at),
        name(asked.ref, "ref", at),
        payload(asked.params, "params", max_payload_bytes, at=at) if asked.HasField("params") else None,
        asked.priority,
        seconds(asked.deadline, "deadline", at) if asked.HasField("deadline") else None,
        _options(asked, agent_id, callback_url, traceparent, default_retry, at, owner_at),
    )


def submissions(
    asked: Sequence[SubmitTaskRequest],
    traceparent: str | None,
    max_payload_bytes: int,
    default_retry: DefaultRetry,
) -> list[Submission | Refusal]:
    """Tasks of one message, in order; in the place of one that is wrong, why it is."""
    taken: list[Submission | Refusal] = []
    for task in asked:
        try:
            taken.append(
                submission(task, task.agent_id, task.callback_url, traceparent, max_payload_bytes, default_retry)
            )
        except Refusal as refusal:
            # Its traceback would hold this frame, and so the list that holds the refusal: a cycle.
            taken.append(refusal.with_traceback(None))
    return taken


def states(text: str, known: type[State]) -> frozenset[State] | None:
    """State names separated by commas; None for an empty text."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known.__members__.values():
            raise BadRequest(f'state: unknown state "{word[:64]}", must be among {", ".join(known)}')
    return frozenset(map(known, words)) or None


def page_size(asked: int) -> int:
    """How many items to answer with; more than the maximum is the maximum."""
    return min(asked, MAX_PAGE) or MAX_PAGE


def page_token(after: int | str, filters: str) -> str:
    """An opaque token to go on after an item, by its number or name; good for the same filters only."""
    return urlsafe_b64encode(f"{after}:{crc32(filters.encode())}".encode()).decode().rstrip("=")


def page_start(token: str, filters: str) -> int:
    """Where a page token goes on; 0 without one."""
    after = page_start_name(token, filters)
    if not after:
        return 0
    try:
        return int(after)
    except ValueError:
        raise BadRequest(NOT_A_TOKEN) from None


def page_start_name(token: str, filters: str) -> str:
    """Where a page token of things that go by name goes on; before all without one."""
    if not token:
        return ""
    try:
        after, _, check = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode().rpartition(":")
        if int(check) == crc32(filters.encode()):
            return after
    except (binascii.Error, ValueError):
        pass
    raise BadRequest(NOT_A_TOKEN)


def _options(
    asked: SubmitTaskRequest | BatchTask,
    agent_id: str,
    callback_url: str,
    traceparent: str | None,
    default_retry: DefaultRetry,
    at: str,
    owner_at: str,
) -> TaskOptions:
    # By position: names would cost more here than anything else.
    options = TaskOptions(
        _http_url(callback_url, "callbackUrl", owner_at) if callback_url else None,
        name(asked.project, "project", at),
        names(asked.requires, "requires", at),
        labels(asked.labels, "labels", at),
        None,
        name(asked.target, "target", at),
        _traceparent(asked.traceparent, "traceparent", at) or traceparent,
        _key(asked, agent_id, callback_url, "idempotencyKey", at) if asked.idempotency_key else None,
        asked.hold,
        seconds(asked.not_before, "notBefore", at) if asked.HasField("not_before") else None,
        asked.token_limit if asked.HasField("token_limit") else None,
        _retry(asked.retry_policy, "retryPolicy", at)
        if asked.HasField("retry_policy")
        else default_retry(asked.action),
    )
    return NO_OPTIONS if options == NO_OPTIONS else options


def _required(value: str, field: str, at: str = "") -> str:
    if not value:
        raise BadRequest(f"{at}{field}: is required")
    return _bounded(value, field, at)


def name(value: str, field: str, at: str = "") -> str | None:
    """A name that may be left out. `at` is where in the request the field stands, as in all that follow."""
    return _bounded(value, field, at) if value else None


def _bounded(value: str, field: str, at: str) -> str:
    if len(value) > MAX_NAME_CHARS:
        raise BadRequest(f"{at}{field}: must be at most {MAX_NAME_CHARS} characters")
    # Most are printable, which is quicker to see.
    if not value.isprintable() and CONTROL.search(value):
        raise BadRequest(f"{at}{field}: must not hold control characters")
    return value


def names(values: Sequence[str], field: str, at: str = "") -> frozenset[str]:
    """A set of names."""
    if not values:
        return NO_NAMES
    if len(values) > MAX_ENTRIES:
        raise BadRequest(f"{at}{field}: must have at most {MAX_ENTRIES} entries")
    return frozenset([_required(value, field, at) for value in values])


def labels(values: Mapping[str, str], field: str, at: str = "") -> tuple[tuple[str, str], ...]:
    """The caller's own marks, in order of their keys."""
    if not values:
        return ()
    if len(values) > MAX_ENTRIES:
        raise BadRequest(f"{at}{field}: must have at most {MAX_ENTRIES} entries")
    # Not by `items`, which protobuf's maps leave to a slow one of Python's.
    return tuple(sorted([(_required(key, field, at), _bounded(values[key], field, at)) for key in values]))


def payload(given: Struct | Value, field: str, most: int, whole: Message | None = None, at: str = "") -> bytes:
    """A JSON payload, or the message that it is part of, as bytes; refused where it is too large or nests too deep."""
    packed = (given if whole is None else whole).SerializeToString()
    if len(packed) > most:
        raise TooLarge(f"{at}{field}: must be at most {most} bytes when encoded, is {len(packed)}")
    if is_too_deep(given, packed):
        raise BadRequest(f"{at}{field}: must not nest deeper than {MAX_DEPTH} levels")
    if not is_json(given, packed):
        raise BadRequest(f"{at}{field}: must not hold a number that JSON has not, such as NaN")
    return packed


def host_id(value: str) -> str:
    """The id of a host that is not part of the server."""
    if value.startswith(RESERVED_HOST_PREFIX):
        raise BadRequest(f"host_id: must not begin with {RESERVED_HOST_PREFIX}")
    return _required(value, "host_id")


def host_profile(described: RegisterHostRequest | Hello) -> HostProfile:
    """Which tasks a host may be handed."""
    return HostProfile(
        capabilities=names(described.capabilities, "capabilities"),
        project=name(described.project, "project"),
        actions=names(described.actions, "actions") or None,
    )


def host_status(said: RuntimeHost.Status.ValueType) -> HostStatus | None:
    """What a host says of itself; that one is dead is the server's word."""
    return WORDS.get(said)


def machine(said: RegisterHostRequest | HeartbeatHostRequest | Hello | Heartbeat, most: int) -> bytes | None:
    """The figures of a host's machine; None where it said nothing of it."""
    if not said.HasField("machine"):
        return None
    if not (isfinite(said.machine.cpu_percent) and isfinite(said.machine.memory_mb)):
        raise BadRequest("machine: must hold finite figures")
    return payload(said.machine.context, "machine", most, said.machine)


def seconds(time: Timestamp, field: str, at: str = "") -> float:
    """A time, in seconds since the epoch: one that can be answered as a Timestamp again."""
    if time.seconds < START_OF_TIME:
        raise BadRequest(f"{at}{field}: must be a time after the year 0")
    secs = time.seconds + time.nanos / 1e9
    # The last microseconds of the year 9999 are the year 10000 once they are rounded.
    if not (secs < END_OF_TIME and 0 <= time.nanos < 1_000_000_000):
        raise BadRequest(f"{at}{field}: must be a time before the year 10000")
    return secs


def _http_url(url: str, field: str, at: str) -> str:
    try:
        parts = urlsplit(_bounded(url, field, at))
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and " " not in url
        usable = usable and url.isascii()
        # Reading the port checks it.
        usable = usable and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadRequest(f"{at}{field}: must be an http or https URL")
    return url


def _key(asked: SubmitTaskRequest | BatchTask, agent_id: str, callback_url: str, field: str, at: str) -> IdempotencyKey:
    """The key, with a fingerprint of what is asked for: the same through every door and in every spelling."""
    whole = SubmitTaskRequest.FromString(asked.SerializeToString())
    whole.DiscardUnknownFields()
    whole.agent_id, whole.callback_url = agent_id, callback_url
    required = sorted(set(whole.requires))
    del whole.requires[:]
    whole.requires.extend(required)
    # A default that is written out is a default, but a budget of nothing is none.
    for descriptor, value in whole.ListFields():
        if value == descriptor.default_value and not descriptor.message_type and descriptor.name != "token_limit":
            whole.ClearField(descriptor.name)  # type: ignore[arg-type]
    if whole.HasField("retry_policy"):
        whole.retry_policy.CopyFrom(policy_message(_retry(whole.retry_policy, "retryPolicy", at)))
    body = whole.SerializeToString(deterministic=True)
    return IdempotencyKey(_bounded(asked.idempotency_key, field, at), sha256(body).digest()[:16])


def _retry(asked: pb.RetryPolicy, field: str, at: str) -> RetryPolicy:
    default = RetryPolicy()
    policy = RetryPolicy(
        max_attempts=asked.max_attempts if asked.HasField("max_attempts") else default.max_attempts,
        first_delay_secs=asked.first_delay_ms / 1000 if asked.HasField("first_delay_ms") else default.first_delay_secs,
        multiplier=asked.multiplier if asked.HasField("multiplier") else default.multiplier,
        max_delay_secs=asked.max_delay_ms / 1000 if asked.HasField("max_delay_ms") else default.max_delay_secs,
        non_retryable_codes=names(asked.non_retryable_codes, f"{field}.nonRetryableCodes", at),
    )
    if policy.max_attempts < 1:
        raise BadRequest(f"{at}{field}.maxAttempts: must be at least 1")
    if not (isfinite(policy.multiplier) and policy.multiplier >= 1):
        raise BadRequest(f"{at}{field}.multiplier: must be at least 1")
    return policy


def _traceparent(value: str, field: str, at: str) -> str | None:
    if value and not TRACEPARENT.fullmatch(value):
        raise BadRequest(f"{at}{field}: must be a W3C trace context")
    return value or None
