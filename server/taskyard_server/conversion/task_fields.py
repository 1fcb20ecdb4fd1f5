"""The fields of a task that few submitters set, each declared once: how a request is read, and how a task shows it.

A field has the same name in all messages: `Task`, `SubmitTaskRequest`, `BatchTask` and, unless it is for single tasks,
`TaskTemplate`. Those that only a request has, and those that a task shows by its history, are not shown by this table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.batch_pb2 import BatchTask
from taskyard.v1.task_pb2 import SubmitTaskRequest
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.task_options import (
    AfterPolicy,
    OnConflict,
    OnParentEnd,
    OnTargetFailure,
    TaskExtras,
    TaskOptions,
    UniqueWhile,
)

from .requests import labels, name, names, path_name, required, seconds
from .wire import LAST, add_nested, add_text, add_varint, tag

Requested: TypeAlias = SubmitTaskRequest | BatchTask

LABEL_KEY: Final = tag(pb.Task.LabelsEntry, "key")
LABEL_VALUE: Final = tag(pb.Task.LabelsEntry, "value")


class TaskField:
    """A field by its `name` in the messages, whose texts call it `shown`; in the core it is `core`."""

    def __init__(self, name: str, core: str = "", is_shown: bool = True) -> None:
        first, *others = name.split("_")
        self.name = name
        self.core = core or name
        self.shown = first + "".join([word.capitalize() for word in others])
        self.is_shown = is_shown
        self.tag = tag(pb.Task, name) if is_shown else b""

    def read(self, task: Requested, prefix: str) -> Any:
        """The value in a request, as the core has it; None if it is unset. `prefix` is the path of the task.

        Raises `BadRequest` with the name of the field.
        """
        raise NotImplementedError

    def add(self, parts: list[bytes], value: Any) -> None:
        """Append the field of a `Task` with this value, which is not None."""
        raise NotImplementedError


class NameField(TaskField):
    """A name."""

    def read(self, task: Requested, prefix: str) -> Any:
        """None for an empty one."""
        return name(getattr(task, self.name), self.shown, prefix)

    def add(self, parts: list[bytes], value: Any) -> None:
        """As text."""
        add_text(parts, self.tag, value)


class NamesField(TaskField):
    """A set of names, at most 64."""

    def read(self, task: Requested, prefix: str) -> Any:
        """Each once."""
        return names(getattr(task, self.name), self.shown, prefix)

    def add(self, parts: list[bytes], value: Any) -> None:
        """In order."""
        # Most tasks have none, and to sort nothing takes time too.
        if value:
            for each in sorted(value):
                add_text(parts, self.tag, each)


class KeysField(TaskField):
    """A few names, `sorted` or in the order in which they are given."""

    def __init__(self, name: str, is_sorted: bool = False) -> None:
        super().__init__(name)
        self._is_sorted = is_sorted

    def read(self, task: Requested, prefix: str) -> Any:
        """Each once."""
        found = list(dict.fromkeys([required(each, self.shown, prefix) for each in getattr(task, self.name)]))
        return tuple(sorted(found) if self._is_sorted else found)

    def add(self, parts: list[bytes], value: Any) -> None:
        """In order."""
        for each in value:
            add_text(parts, self.tag, each)


class LabelsField(TaskField):
    """Texts by name, at most 64."""

    def read(self, task: Requested, prefix: str) -> Any:
        """Sorted by name."""
        return labels(getattr(task, self.name), self.shown, prefix)

    def add(self, parts: list[bytes], value: Any) -> None:
        """As entries of a map."""
        for key, text in value:
            label: list[bytes] = []
            add_text(label, LABEL_KEY, key)
            add_text(label, LABEL_VALUE, text)
            add_nested(parts, self.tag, b"".join(label))


class InputsField(LabelsField):
    """Tasks by name, which are shown as labels are. Their number is bounded with that of other predecessors."""

    def read(self, task: Requested, prefix: str) -> Any:
        """Sorted by name."""
        given = getattr(task, self.name)
        return tuple(
            sorted([(path_name(key, self.shown, prefix), required(given[key], self.shown, prefix)) for key in given])
        )


class NumberField(TaskField):
    """A number from 0; 0 is not the same as none."""

    def read(self, task: Requested, prefix: str) -> Any:
        """As it is sent."""
        del prefix
        return getattr(task, self.name) if task.HasField(self.name) else None  # type: ignore[arg-type]

    def add(self, parts: list[bytes], value: Any) -> None:
        """As a varint."""
        parts.append(self.tag)
        add_varint(parts, value)


class SpanField(NumberField):
    """A span, in messages in milliseconds, at least 1, and in the core in seconds."""

    def read(self, task: Requested, prefix: str) -> Any:
        """In seconds."""
        ms = super().read(task, prefix)
        if ms is None:
            return None
        if ms < 1:
            raise BadRequest(f"{prefix}{self.shown}: must be at least 1")
        return ms / 1000

    def add(self, parts: list[bytes], value: Any) -> None:
        """In milliseconds."""
        super().add(parts, round(value * 1000))


class TimeField(TaskField):
    """A time."""

    def read(self, task: Requested, prefix: str) -> Any:
        """In seconds since the epoch."""
        return seconds(getattr(task, self.name), self.shown, prefix) if task.HasField(self.name) else None  # type: ignore[arg-type]


class FlagField(TaskField):
    """A yes or no, by default no."""

    def read(self, task: Requested, prefix: str) -> Any:
        """As it is sent."""
        del prefix
        return bool(getattr(task, self.name))


class ChoiceField(TaskField):
    """One of several words, sent as the number of an enum's value, or as text."""

    def __init__(self, name: str, choices: Mapping[Any, StrEnum], is_shown: bool = True) -> None:
        super().__init__(name, is_shown=is_shown)
        self._choices = choices
        self._encoded = {
            value: self.tag + (LAST[sent] if isinstance(sent, int) else LAST[len(sent)] + sent.encode())
            for sent, value in choices.items()
        }

    def read(self, task: Requested, prefix: str) -> Any:
        """None if it is unset."""
        sent = getattr(task, self.name)
        if sent and sent not in self._choices:
            raise BadRequest(f"{prefix}{self.shown}: must be among {', '.join(self._choices.values())}")
        return self._choices.get(sent)

    def add(self, parts: list[bytes], value: Any) -> None:
        """As it is sent."""
        parts.append(self._encoded[value])


OPTION_FIELDS: Final[Sequence[TaskField]] = (
    NameField("project"),
    NamesField("requires"),
    LabelsField("labels"),
    NameField("target"),
    FlagField("hold", is_shown=False),
    TimeField("not_before", is_shown=False),
    NumberField("token_limit"),
    SpanField("run_timeout_ms", "run_timeout_secs"),
    NameField("parent_id"),
)
"""Those that stand in `TaskOptions`. What a caller's identity, a batch or a policy has a part in is not among them."""
EXTRA_FIELDS: Final[Sequence[TaskField]] = (
    KeysField("concurrency_keys", is_sorted=True),
    KeysField("after"),
    ChoiceField("after_policy", {pb.After.Policy.Value(policy.value): policy for policy in AfterPolicy}),
    NameField("unique_key"),
    ChoiceField("unique_while", {pb.Unique.While.Value(span.value): span for span in UniqueWhile}),
    ChoiceField("on_conflict", {pb.Unique.Conflict.Value(each.value): each for each in OnConflict}, is_shown=False),
    ChoiceField("on_target_failure", {each.value: each for each in OnTargetFailure}),
    NameField("selector"),
    InputsField("inputs"),
    ChoiceField("on_parent_end", {pb.Parent.OnEnd.Value(each.value): each for each in OnParentEnd}),
)
"""Those that stand in `TaskExtras`."""


def _by_index(fields: Sequence[TaskField], names: Sequence[str]) -> list[TaskField | None]:
    """The fields that are shown, in the order in which the core has them."""
    shown = {field.core: field for field in fields if field.is_shown}
    return [shown.get(name) for name in names]


_OPTIONS: Final = _by_index(OPTION_FIELDS, TaskOptions._fields)
_EXTRAS: Final = _by_index((*EXTRA_FIELDS, NameField("child_name")), TaskExtras._fields)


def add_options(parts: list[bytes], options: tuple[object, ...]) -> None:
    """Append the fields of a `Task` that stand in its `TaskOptions`."""
    for index, value in enumerate(options):
        if value is not None and (field := _OPTIONS[index]) is not None:
            field.add(parts, value)


def add_extras(parts: list[bytes], extras: tuple[object, ...]) -> None:
    """Append the fields of a `Task` that stand in its `TaskExtras`."""
    for index, value in enumerate(extras):
        if value is not None and (field := _EXTRAS[index]) is not None:
            field.add(parts, value)
