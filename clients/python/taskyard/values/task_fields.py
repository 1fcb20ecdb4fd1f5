"""Types of the fields of a task, for calls that have them as keywords (docs/rules.md, Submitting)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, get_args

from taskyard.records.submitted import Submitted
from taskyard.records.tasks import Task
from taskyard.retry_policy import RetryPolicy

from .choices import AfterPolicy, OnConflict, OnParentEnd, OnTargetFailure, UniqueWhile
from .payloads import Payload

if TYPE_CHECKING:
    from taskyard.hosting.child_work import Child
    from taskyard.new_tasks import NewTask

Predecessor: TypeAlias = "str | Submitted | Task | Child[Any] | NewTask"
"""A task to come after, or an input: its id, its handle, a child, or a task of the same batch."""

TEXT: Final = (str,)
TIME: Final = (datetime, timedelta)
MAX_RUN_TIMEOUT: Final = timedelta(milliseconds=2**32 - 1)
RANGES: Final = {"priority": (-(2**31), 2**31 - 1), "token_limit": (0, 2**32 - 1)}
"""Values that the API can express, by field."""
COUNT: Final = (0, 2**32 - 1)
"""Values that it can express elsewhere."""
TAKEN: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "action": (TEXT, "a text, or an Action"),
    "params": ((Mapping,), "a dict of JSON; for models, dataclasses and other values make an Action"),
    "tab_id": (TEXT, "a text"),
    "selector": (TEXT, "a text"),
    "ref": (TEXT, "a text"),
    "priority": ((int,), "a whole number"),
    "deadline": (TIME, "a timedelta, or a datetime with a time zone"),
    "callback_url": (TEXT, "a text"),
    "project": (TEXT, "a text"),
    "labels": ((Mapping,), "a dict of texts"),
    "target": (TEXT, "a text"),
    "hold": ((bool,), "True or False"),
    "not_before": (TIME, "a timedelta, or a datetime with a time zone"),
    "token_limit": ((int,), "a whole number"),
    "retry_policy": ((RetryPolicy,), "a RetryPolicy"),
    "idempotency_key": (TEXT, "a text"),
    "traceparent": (TEXT, "a text"),
    "agent_id": (TEXT, "a text"),
    "run_timeout": ((timedelta,), "a timedelta"),
    "parent_id": (TEXT, "a text"),
    "after_policy": (TEXT, "a text"),
    "unique_key": (TEXT, "a text"),
    "unique_while": (TEXT, "a text"),
    "on_conflict": (TEXT, "a text"),
    "on_target_failure": (TEXT, "a text"),
    "on_parent_end": (TEXT, "a text"),
    "inputs": ((Mapping,), "a dict of tasks by name"),
    "input": ((Payload,), "a Payload; a value for it is the second argument of a call with an Action"),
}
"""The types of fields with one value."""
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "after_policy": get_args(AfterPolicy),
    "unique_while": get_args(UniqueWhile),
    "on_conflict": get_args(OnConflict),
    "on_target_failure": get_args(OnTargetFailure),
    "on_parent_end": get_args(OnParentEnd),
}
"""The words that a field takes."""
SEVERAL: Final = ("requires", "concurrency_keys", "after")


class ActionFields(TypedDict, total=False):
    """The fields of a task except its action and its input, for calls that take them as keywords.

    `NewTask` documents them. `retry` is short for `retry_policy`.
    """

    tab_id: str | None
    selector: str | None
    ref: str | None
    priority: int
    deadline: datetime | timedelta | None
    callback_url: str | None
    project: str | None
    requires: Sequence[str]
    labels: Mapping[str, str]
    target: str | None
    hold: bool
    not_before: datetime | timedelta | None
    token_limit: int | None
    retry_policy: RetryPolicy | None
    retry: RetryPolicy | None
    idempotency_key: str | None
    traceparent: str | None
    agent_id: str | None
    run_timeout: timedelta | None
    parent_id: str | None
    on_parent_end: OnParentEnd | None
    concurrency_keys: Sequence[str]
    after: Sequence[Predecessor]
    after_policy: AfterPolicy | None
    inputs: Mapping[str, Predecessor]
    unique_key: str | None
    unique_while: UniqueWhile | None
    on_conflict: OnConflict | None
    on_target_failure: OnTargetFailure | None


class TaskFields(ActionFields, total=False):
    """The fields of a task except its action, for calls that take them as keywords. `NewTask` documents them."""

    params: Mapping[str, Any] | None


FIELDS: Final = frozenset((*TAKEN, *SEVERAL)) - {"action"}


def known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Find fields by their names in `NewTask`.

    Args:
        fields: The fields that are set.

    Returns:
        The same, under the names of `NewTask`.

    Raises:
        TypeError: A field is unknown.
    """
    given = dict(fields)
    if "retry" in given:
        if "retry_policy" in given:
            raise TypeError("retry and retry_policy are the same: give one of them")
        given["retry_policy"] = given.pop("retry")
    for name in given:
        if name not in FIELDS:
            raise TypeError(f"{name}: is no field of a task; there are: {', '.join(sorted(FIELDS))}")
    return given


def check(fields: Mapping[str, Any]) -> None:
    """Check the fields of a task.

    Args:
        fields: Its action, and those that are set, by their names in `NewTask`.

    Raises:
        TypeError: A field has a type that the API cannot express.
        ValueError: A field has a value that the API cannot express.
    """
    for name, value in fields.items():
        if name in SEVERAL:
            if name != "after":
                _check_names(name, value)
            continue
        kinds, taken = TAKEN[name]
        if (value is not None or name == "action") and not isinstance(value, kinds):
            raise TypeError(f"{name}: is {taken}, not {shown(value)}")
        if name in RANGES:
            check_number(name, fields[name])
        elif value is not None and name in CHOICES and value not in (words := CHOICES[name]):
            raise ValueError(f"{name}: is {' or '.join(map(repr, words))}, not {shown(value)}")
    for label, text in (fields.get("labels") or {}).items():
        if not (isinstance(label, str) and isinstance(text, str)):
            raise TypeError(f"labels: is a dict of texts, {label} is {shown(text)}")
    for name in fields.get("inputs") or ():
        if not isinstance(name, str):
            raise TypeError(f"inputs: is a dict of tasks by name, {shown(name)} is no name")
    if fields.get("params") is not None and fields.get("input") is not None:
        raise TypeError("params, input: a task has one of them")
    run_timeout = fields.get("run_timeout")
    if run_timeout is not None and not timedelta() < run_timeout <= MAX_RUN_TIMEOUT:
        raise ValueError(f"run_timeout: is longer than nothing, at most {MAX_RUN_TIMEOUT}, not {run_timeout}")


def check_number(name: str, number: int | None) -> None:
    """Check a whole number that a message is to hold; None is none.

    Args:
        name: The name of the argument, for the error.
        number: The number.

    Raises:
        TypeError: It is no whole number.
        ValueError: The API cannot express it.
    """
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{name}: is a whole number, not {shown(number)}")
    least, most = RANGES.get(name, COUNT)
    if not least <= number <= most:
        raise ValueError(f"{name}: is from {least} to {most}, not {number}")


def shown(value: Any) -> str:
    """Write a value for an error.

    Args:
        value: The value.

    Returns:
        The value with its type; the type alone if that would be long.
    """
    text = repr(value)
    kind = type(value).__qualname__
    return f"{text} ({kind})" if len(text) <= 60 else f"a {kind}"


def _check_names(name: str, names: Any) -> None:
    if isinstance(names, str) or not isinstance(names, Iterable) or not all(isinstance(each, str) for each in names):
        raise TypeError(f"{name}: is a sequence of names, not {shown(names)}")
