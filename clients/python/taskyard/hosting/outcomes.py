"""The meaning of a handler's end for its task: the report of what it returned, or of the exception that it raised."""

import traceback
from datetime import timedelta
from types import TracebackType
from typing import Any, Final

from taskyard.v1.runtime_host_pb2 import Report, TaskCompleted, TaskFailed
from taskyard.values.convert import MAX_DEPTH, MAX_EXACT, check_depth, value_from
from taskyard.values.payloads import MISSING, Codec, encode_value

from .failing import ActionFailed, Retry
from .running_task import RunningTask

MAX_ERROR_CHARS: Final = 10_000
"""The server keeps no more."""
MAX_TRACEBACK_CHARS: Final = 8_000
"""The server keeps no more, and of these the last."""
MAX_FRAMES: Final = 60
"""The frames of each exception, the innermost ones."""
RETRY_AFTER: Final = timedelta(seconds=1)
"""The delay of a `Retry` that names none, where no retry policy does."""


class Misfit(Exception):
    """The input of a task, or what other tasks hand to it, does not fit its type, or cannot be read."""


def completed(task: RunningTask, value: Any, kind: Any, codec: Codec | None) -> Report:
    """Build the report of what a handler has returned.

    Args:
        task: The task.
        value: What was returned.
        kind: The type of the action's output, None where there is no typed action.
        codec: The codec of the host, None for none.

    Returns:
        The report: a failure if the value is no JSON, or not of the type.
    """
    try:
        return task.report(completed=_result(value, kind, codec))
    # Not only TypeError and ValueError: an object that looks like a mapping may raise anything when it is read.
    except Exception as error:
        text = str(error) if isinstance(error, (TypeError, ValueError)) else describe(error)
        if kind is not None:
            text = f"the result does not fit: {text}"
        elif not isinstance(error, _Inexact):
            text = f"result is not JSON: {text}"
        # The work is done; another attempt would do it twice, with the same outcome.
        return failed(task, text, code="bad_result", retryable=False)


class _Inexact(ValueError):
    """A number of a result would change on its way."""


def _result(value: Any, kind: Any, codec: Codec | None) -> TaskCompleted:
    if value is None and kind is None:
        return TaskCompleted()
    if kind is None:
        check_depth(value, MAX_DEPTH)
        result = value_from(value)
        if codec is None:
            _check_exact(value)
            return TaskCompleted(result=result)
    encoded = encode_value(value, Any if kind is None else kind, codec, is_object=False)
    if encoded.payload is not None:
        return TaskCompleted(output=encoded.payload)
    if encoded.plain is None or encoded.plain is MISSING:
        return TaskCompleted()
    check_depth(encoded.plain, MAX_DEPTH)
    return TaskCompleted(result=value_from(encoded.plain))


def failed(
    task: RunningTask,
    error: str,
    code: str | None = None,
    retryable: bool = True,
    after: timedelta | None = None,
    where: str = "",
) -> Report:
    """Build the report of a failure.

    Args:
        task: The task.
        error: Its text.
        code: The kind of failure. Default none.
        retryable: Whether another attempt can help. Default True.
        after: The time until the next attempt. Default what the retry policy says.
        where: Where the work failed, as text. Default none.

    Returns:
        The report.
    """
    report = TaskFailed(error=_clean(error[:MAX_ERROR_CHARS]) or "failed without a word", code=code)
    if not retryable:
        report.retryable = False
    if after is not None:
        report.retry_after_ms = round(after / timedelta(milliseconds=1))
    if where:
        report.traceback = _clean(where[-MAX_TRACEBACK_CHARS:])
    return task.report(failed=report)


def failed_by(task: RunningTask, error: BaseException, boundary: str) -> Report:
    """Build the report of an exception that a handler or its middleware has raised.

    Args:
        task: The task.
        error: The exception.
        boundary: The file whose functions call handlers; what comes before the last of them is left out of the
            traceback.

    Returns:
        The report.
    """
    # A task group wraps what one of its tasks has raised.
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1 and _is_meant(error.exceptions[0]):
        error = error.exceptions[0]
    match error:
        case Misfit():
            return failed(task, str(error), code="bad_input", retryable=False)
        case Retry():
            after = error.after
            if after is None and task.task.retry_policy is None:
                after = RETRY_AFTER
            return failed(task, str(error), after=after, where=traceback_of(error, boundary))
        case ActionFailed():
            where = traceback_of(error, boundary)
            return failed(task, str(error), code=error.code, retryable=error.retryable, where=where)
        case _:
            return failed(task, describe(error), where=traceback_of(error, boundary))


def _is_meant(error: BaseException) -> bool:
    return isinstance(error, (ActionFailed, Retry, BaseExceptionGroup))


def describe(error: BaseException) -> str:
    """Say what an exception is in one text.

    Args:
        error: The exception.

    Returns:
        Its name and text.
    """
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def traceback_of(error: BaseException, boundary: str) -> str:
    """Format the traceback of an exception, without what has called the handler.

    Args:
        error: The exception.
        boundary: The file whose functions call handlers.

    Returns:
        The traceback, at most 8,000 characters of its end. Empty if it cannot be formatted.
    """
    try:
        frames = _below(error.__traceback__, boundary)
        formatted = traceback.TracebackException(type(error), error, frames, limit=-MAX_FRAMES, compact=True)
        return "".join(formatted.format())[-MAX_TRACEBACK_CHARS:]
    # An exception may raise others when it is looked at.
    except Exception:
        return ""


def _below(frames: TracebackType | None, boundary: str) -> TracebackType | None:
    """The frames after the last one of a file; all if it has none."""
    found = each = frames
    while each is not None:
        if each.tb_frame.f_code.co_filename == boundary:
            found = each.tb_next
        each = each.tb_next
    return found


def _clean(text: str) -> str:
    # An exception's text may not be valid Unicode, such as half of a surrogate pair.
    return text.encode(errors="replace").decode()


def _check_exact(value: Any) -> None:
    if isinstance(value, int):
        if not -MAX_EXACT <= value <= MAX_EXACT:
            raise _Inexact("result: an integer beyond 2^53 would change on its way, only a typed action keeps it")
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_exact(item)
