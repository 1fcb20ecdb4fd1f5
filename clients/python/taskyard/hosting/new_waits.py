"""Waits as they are sent: questions, times, the ends of tasks and events; and how what came is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from taskyard.v1.step_pb2 import Step
from taskyard.v1.wait_pb2 import EndOfTasks, EventWait, NewWait, Question
from taskyard.values.convert import Span, plain_value, seconds, struct_from, value_from
from taskyard.values.payloads import MISSING, BadValue, decode_value, encode_value
from taskyard.values.shapes import shape_of

from .step_work import MAX_NAME_CHARS, is_name

MAX_SECS: Final = 31_622_400
MAX_JOINED: Final = 10_000
QUESTION_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
EVENT_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,255}")


def new_question(
    name: str,
    text: str,
    *,
    choices: Iterable[Any] | None,
    schema: Mapping[str, Any] | None,
    kind: Any,
    default: Any,
    timeout: Span | None,
    url: str | None,
) -> NewWait:
    """Make a question.

    Args:
        name: Its id.
        text: What is asked.
        choices: The answers that there are, None for any.
        schema: The JSON Schema of the answer, None for that of its type.
        kind: The type of the answer, `Any` for any JSON.
        default: The answer that counts if nobody gives one, `MISSING` for none.
        timeout: How long it can be answered, None for the server's default.
        url: An address to visit, None for none.

    Returns:
        The question, as it is sent.

    Raises:
        ValueError: A part of it is malformed.
        TypeError: The type is none that can be sent, or a part is no JSON.
    """
    if not QUESTION_ID.fullmatch(name):
        raise ValueError(f"ask: an id has 1 to 128 letters, digits, `.`, `_` or `-`, and no `.` first: {name!r}")
    if not text and not url:
        raise ValueError(f"ask {name!r}: it has a text, or an url")
    question = Question(text=text, url=url or "")
    if schema is None and kind is not Any:
        schema = shape_of(kind).schema()
    if schema is not None:
        question.schema.CopyFrom(struct_from(schema, "schema"))
    if choices is not None:
        question.choices.values.extend(value_from(each, "choices") for each in choices)
    if default is not MISSING:
        plain = default if kind is Any else encode_value(default, kind, None, is_object=False).plain
        if plain is MISSING:
            raise ValueError(
                f"ask {name!r}: the default holds what an answer cannot: a number beyond 2^53, or too deep"
            )
        question.default.CopyFrom(value_from(plain, "default"))
    wait = NewWait(name=name, question=question)
    if timeout is not None:
        wait.timeout_secs = _secs(timeout, "timeout")
    return wait


def new_sleep(name: str, span: Span) -> NewWait:
    """Make the wait for a time.

    Args:
        name: Its name.
        span: How long.

    Returns:
        The wait.

    Raises:
        ValueError: The span is negative or longer than 366 days, or the name is no name.
    """
    return NewWait(name=_named("sleep", name), sleep_secs=_secs(span, "sleep"))


def new_join(name: str, task_ids: Iterable[str], timeout: Span | None) -> NewWait:
    """Make the wait for the end of tasks.

    Args:
        name: Its name.
        task_ids: The tasks.
        timeout: How long at most, None for as long as it takes.

    Returns:
        The wait.

    Raises:
        ValueError: The timeout is negative or longer than 366 days, the name is no name, or there are too many tasks.
    """
    wait = NewWait(name=_named("join", name), ends=EndOfTasks(task_ids=dict.fromkeys(task_ids)))
    if len(wait.ends.task_ids) > MAX_JOINED:
        raise ValueError(f"join {name!r}: at most {MAX_JOINED:,} tasks, not {len(wait.ends.task_ids):,}")
    if timeout is not None:
        wait.timeout_secs = _secs(timeout, "timeout")
    return wait


def new_event(event: str, name: str | None, timeout: Span | None) -> NewWait:
    """Make the wait for an event.

    Args:
        event: The name of the event.
        name: The name of the wait, None for that of the event.
        timeout: How long at most, None for as long as it takes.

    Returns:
        The wait.

    Raises:
        ValueError: The timeout is negative or longer than 366 days, or a name is no name.
    """
    if not EVENT_NAME.fullmatch(event):
        raise ValueError(f"event: a name has 1 to 256 letters, digits, `.`, `_` or `-`, and no `.` first: {event!r}")
    wait = NewWait(name=_named("event", event if name is None else name), event=EventWait(name=event))
    if timeout is not None:
        wait.timeout_secs = _secs(timeout, "timeout")
    return wait


def payload_in(step: Step) -> Any:
    """Read the payload of an event.

    Args:
        step: The step that it has become.

    Returns:
        The payload.

    Raises:
        TimeoutError: None has come in time.
    """
    if step.expired:
        raise TimeoutError(f"event {step.name!r}: none has come in time")
    return plain_value(step.result) if step.HasField("result") else None


def answer_in(step: Step, kind: Any) -> Any:
    """Read an answer.

    Args:
        step: The step that it has become.
        kind: Its type, `Any` for any JSON.

    Returns:
        The answer.

    Raises:
        BadValue: It does not fit the type.
    """
    plain = plain_value(step.result) if step.HasField("result") else None
    try:
        return decode_value(kind, plain, None, None)
    except BadValue as error:
        raise BadValue(f"ask {step.name!r}: the answer does not fit: {error}") from error


def _secs(span: Span, name: str) -> float:
    secs = seconds(span)
    if not 0 <= secs <= MAX_SECS:
        raise ValueError(f"{name}: is from 0 to {MAX_SECS:,} s, not {secs:g} s")
    return secs


def _named(call: str, name: str) -> str:
    if not is_name(name):
        raise ValueError(f"{call}: a name has from 1 to {MAX_NAME_CHARS} characters, and is not blank: {name!r}")
    return name
