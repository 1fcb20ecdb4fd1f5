"""Requested tasks read from the wire in one pass, if they have the common shape.

Most tasks have a few names, params, labels, a priority and perhaps an idempotency key or concurrency keys. To read
them from a protobuf object and to check each of some thirty fields takes several times as long as what the core does
with a task. A task that has any other field, or anything that is not as protobuf's writers write it, has not this
shape: `scan_task` says None, and its caller goes the general way (`submissions.py`), which alone decides what is
refused. The tests require both ways to give the same submission.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct

from taskyard.v1.task_pb2 import SubmitTaskRequest
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.task import NO_OPTIONS, Submission
from taskyard_server.core.task_options import IdempotencyKey, TaskExtras, TaskOptions

from .payload import is_json, is_too_deep
from .plain_structs import is_plain_struct
from .requests import MAX_ENTRIES_PER_FIELD, MAX_NAME_CHARS
from .submissions import MAX_CONCURRENCY_KEYS, DefaultRetry
from .trace_context import TRACEPARENT
from .wire import TOO_LONG, add_nested, add_text, add_varint, read_length, tag

AGENT_ID: Final = tag(SubmitTaskRequest, "agent_id")
ACTION: Final = tag(SubmitTaskRequest, "action")
TAB_ID: Final = tag(SubmitTaskRequest, "tab_id")
REF: Final = tag(SubmitTaskRequest, "ref")
PARAMS: Final = tag(SubmitTaskRequest, "params")
PRIORITY: Final = tag(SubmitTaskRequest, "priority")
PROJECT: Final = tag(SubmitTaskRequest, "project")
LABELS: Final = tag(SubmitTaskRequest, "labels")
TARGET: Final = tag(SubmitTaskRequest, "target")
KEY: Final = tag(SubmitTaskRequest, "idempotency_key")
TRACE: Final = tag(SubmitTaskRequest, "traceparent")
PARENT_ID: Final = tag(SubmitTaskRequest, "parent_id")
CONCURRENCY_KEY: Final = tag(SubmitTaskRequest, "concurrency_keys")
LABEL_KEY: Final = tag(SubmitTaskRequest.LabelsEntry, "key")
LABEL_VALUE: Final = tag(SubmitTaskRequest.LabelsEntry, "value")

AGENT_ID_TAG: Final = AGENT_ID[0]
ACTION_TAG: Final = ACTION[0]
TAB_ID_TAG: Final = TAB_ID[0]
REF_TAG: Final = REF[0]
PARAMS_TAG: Final = PARAMS[0]
PRIORITY_TAG: Final = PRIORITY[0]
PROJECT_TAG: Final = PROJECT[0]
LABELS_TAG: Final = LABELS[0]
TARGET_TAG: Final = TARGET[0]
LABEL_KEY_TAG: Final = LABEL_KEY[0]
LABEL_VALUE_TAG: Final = LABEL_VALUE[0]
# Fields from number 16 on have tags of two bytes.
KEY_TAG: Final = KEY[0] | KEY[1] << 8
TRACE_TAG: Final = TRACE[0] | TRACE[1] << 8
PARENT_ID_TAG: Final = PARENT_ID[0] | PARENT_ID[1] << 8
CONCURRENCY_KEY_TAG: Final = CONCURRENCY_KEY[0] | CONCURRENCY_KEY[1] << 8

UNSET: Final = -1
MAX_INTERNED_NAMES: Final = 4_096
MAX_INTERNED_BYTES: Final = 64
"""The names that are interned, and the length of each at most."""
_names: Final[dict[bytes, str]] = {}
_new_tuple: Final[Any] = tuple.__new__
"""Makes a named tuple in a third of the time that its own constructor takes, which is Python."""
_unset: Final[list[object]] = [*NO_OPTIONS]
_PROJECT: Final = TaskOptions._fields.index("project")
_LABELS: Final = TaskOptions._fields.index("labels")
_TARGET: Final = TaskOptions._fields.index("target")
_TRACEPARENT: Final = TaskOptions._fields.index("traceparent")
_KEY: Final = TaskOptions._fields.index("key")
_RETRY: Final = TaskOptions._fields.index("retry")
_PARENT_ID: Final = TaskOptions._fields.index("parent_id")
_EXTRAS: Final = TaskOptions._fields.index("extras")


class ScannedTask:
    """One requested task. What is unset is None; `priority` is `UNSET`. All names are valid ones."""

    __slots__ = (
        "action",
        "agent_id",
        "concurrency_keys",
        "key",
        "labels",
        "params",
        "parent_id",
        "priority",
        "project",
        "ref",
        "tab_id",
        "target",
        "traceparent",
    )

    def __init__(self) -> None:
        self.agent_id: str | None = None
        self.action: str | None = None
        self.tab_id: str | None = None
        self.ref: str | None = None
        self.params: bytes | None = None
        self.priority: int = UNSET
        self.project: str | None = None
        self.labels: tuple[tuple[str, str], ...] = ()
        self.target: str | None = None
        self.key: str | None = None
        self.traceparent: str | None = None
        self.parent_id: str | None = None
        self.concurrency_keys: tuple[str, ...] = ()


def scan_task(data: bytes, at: int, end: int) -> ScannedTask | None:
    """The task between two offsets of a message; None if it has not the common shape, or is no valid one."""
    try:
        return _scan(data, at, end)
    except (IndexError, UnicodeDecodeError, DecodeError):
        return None


def scan_tasks(data: bytes, at: int, field: bytes) -> list[ScannedTask] | None:
    """The tasks of a message that from this offset on has none but this field. None as of `scan_task`."""
    tasks: list[ScannedTask] = []
    end, field_tag = len(data), field[0]
    try:
        while at < end:
            if data[at] != field_tag:
                return None
            size, at = read_length(data, at + 1)
            stop = at + size
            task = None if stop > end else _scan(data, at, stop)
            if task is None:
                return None
            tasks.append(task)
            at = stop
    except (IndexError, UnicodeDecodeError, DecodeError):
        return None
    return tasks


def scan_agent(data: bytes, field: bytes) -> tuple[str | None, int]:
    """The name that a message begins with, in this field, and the offset after it. None as of `scan_task`."""
    if not data or data[0] != field[0]:
        return None, 0
    try:
        size, at = read_length(data, 1)
        stop = at + size
        return (None, 0) if stop > len(data) else (_interned_name(data[at:stop]), stop)
    except (IndexError, UnicodeDecodeError):
        return None, 0


def submission_of(task: ScannedTask, agent_id: str, traceparent: str | None, default_retry: DefaultRetry) -> Submission:
    """The submission of an agent's task, as `submissions.submission` makes it."""
    action = task.action
    assert action is not None
    retry = default_retry(action)
    trace = traceparent if task.traceparent is None else task.traceparent
    key = None if task.key is None else IdempotencyKey(task.key, _fingerprint(task, agent_id))
    labels, project, target, parent_id = task.labels, task.project, task.target, task.parent_id
    keys = task.concurrency_keys
    options = NO_OPTIONS
    if (
        labels
        or keys
        or not (
            project is None and target is None and trace is None and key is None and retry is None and parent_id is None
        )
    ):
        options = _options(project, labels, target, trace, key, retry, parent_id, keys)
    priority = 0 if task.priority == UNSET else task.priority
    made: Submission = _new_tuple(
        Submission, (agent_id, action, task.tab_id, task.ref, task.params, priority, None, options)
    )
    return made


def _options(
    project: str | None,
    labels: tuple[tuple[str, str], ...],
    target: str | None,
    traceparent: str | None,
    key: IdempotencyKey | None,
    retry: RetryPolicy | None,
    parent_id: str | None,
    concurrency_keys: tuple[str, ...],
) -> TaskOptions:
    values = _unset.copy()
    values[_PROJECT] = project
    values[_LABELS] = labels
    values[_TARGET] = target
    values[_TRACEPARENT] = traceparent
    values[_KEY] = key
    values[_RETRY] = retry
    values[_PARENT_ID] = parent_id
    if concurrency_keys:
        values[_EXTRAS] = TaskExtras(concurrency_keys=concurrency_keys)
    made: TaskOptions = _new_tuple(TaskOptions, values)
    return made


def _scan(data: bytes, at: int, end: int) -> ScannedTask | None:
    task = ScannedTask()
    labels: list[tuple[str, str]] = []
    keys: set[str] | None = None
    while at < end:
        field = data[at]
        at += 1
        if field >= 128:
            field |= data[at] << 8
            at += 1
        size, at = read_length(data, at)
        if field == PRIORITY_TAG:
            if task.priority != UNSET or size == TOO_LONG:
                return None
            task.priority = size
            continue
        stop = at + size
        if stop > end:
            return None
        if field == LABELS_TAG:
            label = _label(data, at, stop)
            if label is None:
                return None
            labels.append(label)
        elif field == PARAMS_TAG:
            if task.params is not None:
                return None
            if is_plain_struct(data, at, stop):
                task.params = data[at:stop]
            elif not _read_params(task, data[at:stop]):
                return None
        elif field == CONCURRENCY_KEY_TAG:
            name = _interned_name(data[at:stop])
            if name is None:
                return None
            keys = keys or set()
            keys.add(name)
        elif not _read_name(task, field, data[at:stop]):
            return None
        at = stop
    # The last number may have begun before the end, and gone on behind it.
    if at != end or task.action is None:
        return None
    if labels:
        if len(labels) > 1:
            labels.sort()
            if len(labels) > MAX_ENTRIES_PER_FIELD or _has_twice(labels):
                return None
        task.labels = tuple(labels)
    if keys is not None:
        if len(keys) > MAX_CONCURRENCY_KEYS:
            return None
        task.concurrency_keys = tuple(sorted(keys))
    return task


def _read_name(task: ScannedTask, field: int, raw: bytes) -> bool:
    """Take a field that holds a name. False for another field, one that came before, and a name of another kind."""
    if field == AGENT_ID_TAG:
        if task.agent_id is None:
            task.agent_id = _interned_name(raw)
            return task.agent_id is not None
    elif field == ACTION_TAG:
        if task.action is None:
            task.action = _interned_name(raw)
            return task.action is not None
    elif field == KEY_TAG:
        if task.key is None:
            task.key = _name(raw)
            return task.key is not None
    elif field == TAB_ID_TAG:
        if task.tab_id is None:
            task.tab_id = _name(raw)
            return task.tab_id is not None
    elif field == REF_TAG:
        if task.ref is None:
            task.ref = _name(raw)
            return task.ref is not None
    elif field == TARGET_TAG:
        if task.target is None:
            task.target = _interned_name(raw)
            return task.target is not None
    elif field == PROJECT_TAG:
        if task.project is None:
            task.project = _interned_name(raw)
            return task.project is not None
    elif field == PARENT_ID_TAG:
        if task.parent_id is None:
            task.parent_id = _name(raw)
            return task.parent_id is not None
    elif field == TRACE_TAG and task.traceparent is None:
        task.traceparent = raw.decode()
        return TRACEPARENT.fullmatch(task.traceparent) is not None
    return False


def _label(data: bytes, at: int, end: int) -> tuple[str, str] | None:
    """A label whose key and value are both there, in this order."""
    if data[at] != LABEL_KEY_TAG:
        return None
    size, at = read_length(data, at + 1)
    stop = at + size
    if stop >= end:
        return None
    key = _interned_name(data[at:stop])
    if key is None or data[stop] != LABEL_VALUE_TAG:
        return None
    size, at = read_length(data, stop + 1)
    if at + size != end:
        return None
    value = _interned_name(data[at:end])
    return None if value is None else (key, value)


def _has_twice(labels: list[tuple[str, str]]) -> bool:
    before = ""
    for key, _ in labels:
        if key == before:
            return True
        before = key
    return False


def _read_params(task: ScannedTask, raw: bytes) -> bool:
    """Take params, which protobuf writes anew, since it keeps one of two equal keys. Raises `DecodeError`."""
    struct = Struct.FromString(raw)
    packed = struct.SerializeToString()
    if is_too_deep(struct, packed) or not is_json(struct, packed):
        return False
    task.params = packed
    return True


def _interned_name(raw: bytes) -> str | None:
    """A name that many tasks have: it is decoded once, and is in memory once."""
    name = _names.get(raw)
    if name is None:
        name = _name(raw)
        if name is not None and len(raw) <= MAX_INTERNED_BYTES:
            if len(_names) >= MAX_INTERNED_NAMES:
                _names.clear()
            _names[raw] = name
    return name


def _name(raw: bytes) -> str | None:
    """A name of printable characters, as nearly all are. Raises `UnicodeDecodeError`."""
    name = raw.decode()
    return name if name and len(name) <= MAX_NAME_CHARS and name.isprintable() and not name.isspace() else None


def _fingerprint(task: ScannedTask, agent_id: str) -> bytes:
    """The text that `fingerprints.fingerprint` hashes: all fields in order, none with its default value."""
    parts: list[bytes] = []
    _add_name(parts, AGENT_ID, agent_id)
    _add_name(parts, ACTION, task.action)
    _add_name(parts, TAB_ID, task.tab_id)
    _add_name(parts, REF, task.ref)
    if task.params is not None:
        struct = Struct.FromString(task.params)
        struct.DiscardUnknownFields()
        add_nested(parts, PARAMS, struct.SerializeToString(deterministic=True))
    if task.priority > 0:
        parts.append(PRIORITY)
        add_varint(parts, task.priority)
    _add_name(parts, PROJECT, task.project)
    if _is_ordered_otherwise(task.labels):
        parts.append(SubmitTaskRequest(labels=dict(task.labels)).SerializeToString(deterministic=True))
    else:
        for key, value in task.labels:
            label: list[bytes] = []
            add_text(label, LABEL_KEY, key)
            add_text(label, LABEL_VALUE, value)
            add_nested(parts, LABELS, b"".join(label))
    _add_name(parts, TARGET, task.target)
    _add_name(parts, KEY, task.key)
    _add_name(parts, TRACE, task.traceparent)
    _add_name(parts, PARENT_ID, task.parent_id)
    for name in task.concurrency_keys:
        add_text(parts, CONCURRENCY_KEY, name)
    return sha256(b"".join(parts)).digest()[:16]


def _is_ordered_otherwise(labels: tuple[tuple[str, str], ...]) -> bool:
    """True if protobuf orders them otherwise: of a key and one that it begins with, the longer comes first."""
    before: str | None = None
    for key, _ in labels:
        if before is not None and key.startswith(before):
            return True
        before = key
    return False


def _add_name(parts: list[bytes], field: bytes, name: str | None) -> None:
    if name is not None:
        add_text(parts, field, name)
