"""Requests converted to the types of the core. Invalid input raises a refusal that names the field as in JSON."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import inf, nextafter
from typing import Final, TypeVar

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.runtime_host_pb2 import Heartbeat, HeartbeatHostRequest, Hello, RegisterHostRequest, RuntimeHost
from taskyard_server.core.errors import BadRequest, TooLarge
from taskyard_server.core.history import MAX_REASON_CHARS
from taskyard_server.core.hosts import RESERVED_HOST_PREFIX, HostProfile, HostStatus
from taskyard_server.core.task import TERMINAL, TaskState

from .payload import MAX_DEPTH, check_json, is_json, is_too_deep
from .timestamps import earliest_shown

MAX_NAME_CHARS: Final = 1_024
MAX_STEP_NAME_CHARS: Final = 256
MAX_ENTRIES_PER_FIELD: Final = 64
MAX_ENCODING_CHARS: Final = 64
MIN_TIME_SECS: Final = -62_135_596_800
END_OF_TIME_SECS: Final = 253_402_300_800
"""The range of `google.protobuf.Timestamp`: from the year 1 to before the year 10000."""
MAX_CLAIM_ID_CHARS: Final = 128
MAX_OPERATION_ID_CHARS: Final = 128
CONTROL_CHARACTERS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
PATH_NAME: Final = re.compile(r"[\w-][\w.-]*", re.ASCII)
MAX_PATH_NAME_CHARS: Final = 128
MAX_EVENT_NAME_CHARS: Final = 256
NO_NAMES: Final[frozenset[str]] = frozenset()
State = TypeVar("State", bound=StrEnum)
REPORTABLE_STATUSES: Final = {
    RuntimeHost.Status.Value(status.value): status for status in HostStatus if status is not HostStatus.DEAD
}


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


def required(value: str, field: str, prefix: str = "") -> str:
    if not value or value.isspace():
        raise BadRequest(f"{prefix}{field}: is required")
    return bounded(value, field, prefix)


def name(value: str, field: str, prefix: str = "") -> str | None:
    """An optional name. `prefix` is the path of the field's message within the request, here and below."""
    if value.isspace():
        raise BadRequest(f"{prefix}{field}: must not be blank")
    return bounded(value, field, prefix) if value else None


def claim_id(value: str) -> str | None:
    """The name of a claim; an empty one is none (docs/rules.md, Claim ids)."""
    return bounded(value, "claim_id", "", MAX_CLAIM_ID_CHARS) or None


def operation_id(value: str) -> str:
    """The id of an operation, of its caller's making."""
    return bounded(required(value, "operationId"), "operationId", "", MAX_OPERATION_ID_CHARS)


def reason(value: str) -> str | None:
    """Why somebody cancels, pauses or resolves, for people: any text, an empty one is none (docs/rules.md, Reasons)."""
    if len(value) > MAX_REASON_CHARS:
        raise BadRequest(f"reason: must be at most {MAX_REASON_CHARS} characters")
    return value or None


def step_name(value: str, field: str) -> str:
    """The name of a step, or of what a task waits for."""
    return bounded(required(value, field), field, "", MAX_STEP_NAME_CHARS)


def bounded(value: str, field: str, prefix: str, max_chars: int = MAX_NAME_CHARS) -> str:
    if len(value) > max_chars:
        raise BadRequest(f"{prefix}{field}: must be at most {max_chars} characters")
    # Most values are printable, which is cheaper to check.
    if not value.isprintable() and CONTROL_CHARACTERS.search(value):
        raise BadRequest(f"{prefix}{field}: must not hold control characters")
    return value


def path_name(value: str, field: str, prefix: str = "", max_chars: int = MAX_PATH_NAME_CHARS) -> str:
    """A name that can stand in a path."""
    if len(value) > max_chars or not PATH_NAME.fullmatch(value):
        raise BadRequest(
            f"{prefix}{field}: must have 1 to {max_chars} letters, digits, `.`, `_` or `-`, and not begin with a `.`"
        )
    return value


def event_name(value: str, field: str) -> str:
    """The name of an event."""
    return path_name(value, field, "", MAX_EVENT_NAME_CHARS)


def names(values: Sequence[str], field: str, prefix: str = "") -> frozenset[str]:
    """A set of required names."""
    if not values:
        return NO_NAMES
    if len(values) > MAX_ENTRIES_PER_FIELD:
        raise BadRequest(f"{prefix}{field}: must have at most {MAX_ENTRIES_PER_FIELD} entries")
    return frozenset([required(value, field, prefix) for value in values])


def labels(values: Mapping[str, str], field: str, prefix: str = "") -> tuple[tuple[str, str], ...]:
    """Labels, sorted by key."""
    if not values:
        return ()
    if len(values) > MAX_ENTRIES_PER_FIELD:
        raise BadRequest(f"{prefix}{field}: must have at most {MAX_ENTRIES_PER_FIELD} entries")
    # Not `values.items()`: protobuf's maps inherit the slow default of `collections.abc`.
    return tuple(sorted([(required(key, field, prefix), bounded(values[key], field, prefix)) for key in values]))


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


def host_id(value: str) -> str:
    """The id of a host; ids of built-in hosts are reserved."""
    if value.startswith(RESERVED_HOST_PREFIX):
        raise BadRequest(f"host_id: must not begin with {RESERVED_HOST_PREFIX}")
    return required(value, "host_id")


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
