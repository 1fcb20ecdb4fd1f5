"""One run of a handler, the same in the event loop, in threads and in worker processes.

The input is read, then middleware and handler are called, then the output is written. What goes wrong on the way
becomes a report.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from types import SimpleNamespace
from typing import Any, TypeAlias

from taskyard.current import current_task
from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.runtime_host_pb2 import Report
from taskyard.v1.task_pb2 import Task as TaskMessage
from taskyard.values.convert import plain_object
from taskyard.values.payloads import BadValue, Codec, decode_value

from .actions import CallNext, Lifespan, Middleware, Registered
from .failing import ActionFailed, Retry
from .inputs import TaskInputs
from .outcomes import Misfit, completed, describe, failed, failed_by
from .park_work import is_unwinding
from .running_task import RunningTask

log = logging.getLogger("taskyard")

Call: TypeAlias = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments, where it is to run."""


async def invoke(
    assignment: Assignment,
    task: RunningTask,
    handler: Registered | None,
    middleware: Sequence[Middleware],
    codec: Codec | None,
    call: Call,
) -> Report | None:
    """Run the handler of a task.

    Args:
        assignment: The task as it was assigned, with its inputs.
        task: The same for the handler.
        handler: The handler, None if the host has none for the action.
        middleware: What is called around it, the outermost first.
        codec: The codec of the host, None for none.
        call: Calls the function of the handler.

    Returns:
        The report of its outcome, None if it was stopped before it had one.
    """
    if handler is None:
        return failed(task, f"this host has no action {task.action!r}", code="unknown_action")
    message, function = assignment.task, handler.function
    context = current_task.set(task)
    try:
        if handler.is_typed or message.HasField("input"):
            task.take_input(_input_of(message, handler, codec))
        else:
            params = plain_object(message.params)
            task.take_input(params, params)
        if handler.inputs or assignment.inputs:
            task.inputs = inputs = TaskInputs(assignment.inputs, codec)
            function = functools.partial(function, **inputs.arguments(handler.inputs))
        output = await _around(middleware, functools.partial(_run, handler, function, call))(task)
    except KeyboardInterrupt:
        raise
    # A handler that exits the process by mistake, as argparse does, ends its task only. A task is not given back for
    # exceptions of other kinds either, such as those of test frameworks: it would be assigned again, endlessly.
    except BaseException as error:
        if task.cancelled and isinstance(error, asyncio.CancelledError):
            return None
        if task.is_parked:
            if not is_unwinding(error):
                task.complain(
                    f"the handler raised {describe(error)} after its task was parked: it is not reported", error
                )
            return await _parked(task)
        if isinstance(error, asyncio.CancelledError):
            return failed(task, "CancelledError: the handler was cancelled, but not by its host")
        if isinstance(error, (ActionFailed, Retry, Misfit)):
            log.info("task %s (%s) failed: %s", task.id, task.action, error)
        else:
            log.warning("task %s (%s) failed", task.id, task.action, exc_info=error)
        return failed_by(task, error, __file__)
    finally:
        current_task.reset(context)
        task.leave()
    if task.is_parked:
        task.complain("the handler went on after its task was parked: what it returned is not reported")
        return await _parked(task)
    report = completed(task, output, handler.output_type if handler.is_typed else None, codec)
    if report.HasField("failed"):
        log.warning("task %s (%s): %s", task.id, task.action, report.failed.error)
    return report


async def _parked(task: RunningTask) -> Report | None:
    """The report that the task waits, None if it was stopped before its steps were recorded."""
    try:
        return task.report(parked=await task.parked())
    except asyncio.CancelledError:
        if task.cancelled:
            return None
        raise


def call_plainly(function: Callable[..., Any], *args: Any) -> Any:
    """Call a plain function in a thread.

    Args:
        function: The function.
        *args: Its arguments.

    Returns:
        What it returns.

    Raises:
        RuntimeError: It has raised StopIteration, which a future cannot carry: its awaiter would wait forever. A
            coroutine turns it into the same error.
    """
    try:
        return function(*args)
    except StopIteration as error:
        raise RuntimeError("the handler raised StopIteration") from error


async def enter_lifespan(lifespan: Lifespan | None, stack: AsyncExitStack) -> Any:
    """Enter a lifespan.

    Args:
        lifespan: Makes the context, None for none.
        stack: What leaves it.

    Returns:
        What the context has yielded. A mapping becomes an object whose attributes are its items, as `task.state.db`.

    Raises:
        TypeError: It makes no context manager.
    """
    if lifespan is None:
        return None
    context = lifespan()
    if isinstance(context, AbstractAsyncContextManager):
        state = await stack.enter_async_context(context)
    elif isinstance(context, AbstractContextManager):
        state = stack.enter_context(context)
    else:
        raise TypeError(f"lifespan: makes no context manager but {context!r}: decorate it with @asynccontextmanager")
    return SimpleNamespace(**state) if isinstance(state, dict) else state


def _input_of(message: TaskMessage, handler: Registered, codec: Codec | None) -> Any:
    """Read the input. Raises `Misfit` if it cannot be read as the handler takes it."""
    payload = message.input if message.HasField("input") else None
    plain = plain_object(message.params) if message.HasField("params") else {}
    try:
        return decode_value(handler.input_type if handler.is_typed else Any, plain, payload, codec)
    except BadValue as error:
        raise Misfit(f"the input does not fit: {error}") from None


def _around(middleware: Sequence[Middleware], innermost: CallNext) -> CallNext:
    called = innermost
    for each in reversed(middleware):
        called = functools.partial(_pass_on, each, called)
    return called


async def _pass_on(middleware: Middleware, call_next: CallNext, task: RunningTask) -> Any:
    return await middleware(task, call_next)


async def _run(handler: Registered, function: Callable[..., Any], call: Call, task: RunningTask) -> Any:
    if not handler.is_typed:
        return await call(function, task)
    return await call(function, task.input, *([task] if handler.takes_task else ()))
