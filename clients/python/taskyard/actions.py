"""The actions of a host: which handler runs which task, and what a handler's end means for its task.

A handler is an async function or a plain one. It answers the task's result, a JSON value. `ActionFailed` fails the task
with its text, any other exception with its name and text, and with its traceback in the log only.
"""

import asyncio
import contextvars
import functools
import inspect
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.runtime_host_pb2 import Report, TaskCompleted, TaskFailed

from .running_task import ActionFailed, RunningTask
from .session import Key, Session
from .tasks import Task
from .values import value_from

log = logging.getLogger("taskyard")

Handler: TypeAlias = Callable[[RunningTask], Any]

MAX_ERROR_CHARS: Final = 10_000
"""The server keeps no more."""
MAX_DEPTH: Final = 30
"""Levels of lists and objects that the server takes. Much deeper, and it could not read the message at all."""


class Actions:
    """The handlers by the actions that they run, and one for all other actions, if there is one."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._any: Handler | None = None

    def add(self, name: str, handler: Handler) -> None:
        """Have a handler run an action. Raises ValueError if another one does already."""
        if name in self._handlers:
            raise ValueError(f"action {name!r} has a handler already")
        self._handlers[name] = handler

    def add_any(self, handler: Handler) -> None:
        """Have a handler run all actions that no other one runs. Raises ValueError if there is one already."""
        if self._any is not None:
            raise ValueError("there is a handler for any action already")
        self._any = handler

    def __bool__(self) -> bool:
        return bool(self._handlers) or self._any is not None

    @property
    def names(self) -> list[str]:
        """The only actions that can be run; none if any can."""
        return [] if self._any is not None else list(self._handlers)

    def handler(self, action: str) -> Handler | None:
        """Who runs an action, None if nobody does."""
        return self._handlers.get(action, self._any)


class Handlers:
    """The handlers that run now, as asyncio tasks; plain functions in a pool of as many threads as there are slots.

    What becomes of them goes to the session, and then `changed` is called.
    """

    def __init__(self, actions: Actions, slots: int, session: Session, changed: Callable[[], None]) -> None:
        self._actions = actions
        self._session = session
        self._changed = changed
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="taskyard-action")
        self._running: dict[Key, tuple[RunningTask, asyncio.Task[Report | None]]] = {}

    def begin(self, assignments: Iterable[Assignment]) -> None:
        """Run these tasks."""
        for assignment in assignments:
            key = (assignment.lease.task_id, assignment.lease.fencing_token)
            try:
                task = RunningTask(Task.from_message(assignment.task), key[1], self._report_progress)
            except Exception as error:
                # Whatever is in a task, it must not end the host, nor the next one that it is handed to.
                log.exception("task %s cannot be read", key[0])
                failure = TaskFailed(error=f"the host cannot read the task: {_described(error)}", code="unreadable")
                self._session.ended(key, Report(task_id=key[0], fencing_token=key[1], failed=failure))
                continue
            work = asyncio.create_task(self._work(task), name=f"taskyard {task.action} {task.id}")
            self._running[key] = (task, work)
            work.add_done_callback(functools.partial(self._ended, key))

    def stop(self, keys: Iterable[Key]) -> None:
        """Cancel the handlers of these leases. One in a thread cannot be stopped, it is only told."""
        for key in keys:
            if key in self._running:
                task, work = self._running[key]
                task.cancelled = True
                handler = self._actions.handler(task.action)
                if handler is not None and _is_async(handler):
                    work.cancel()

    def stop_all(self) -> None:
        """Cancel all handlers that were not cancelled before."""
        self.stop([key for key, (task, _) in self._running.items() if not task.cancelled])

    async def abandon(self) -> None:
        """Cancel all handlers and let them end, but wait for no thread."""
        works = [work for _, work in self._running.values()]
        for task, work in self._running.values():
            task.cancelled = True
            work.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if works:
            await asyncio.wait(works, timeout=1.0)

    def _report_progress(self, report: Report) -> None:
        self._session.progressed(report)
        self._changed()

    def _ended(self, key: Key, work: asyncio.Task[Report | None]) -> None:
        del self._running[key]
        error = None if work.cancelled() else work.exception()
        if error is not None:
            log.error("task %s: its outcome could not be told, it is given back", key[0], exc_info=error)
        self._session.ended(key, None if work.cancelled() or error else work.result())
        self._changed()

    async def _work(self, task: RunningTask) -> Report | None:
        """Run the handler; answers the report on its outcome, None if it was stopped before it had one."""
        handler = self._actions.handler(task.action)
        if handler is None:
            return _failed(task, f"this host has no action {task.action!r}", code="unknown_action")
        try:
            if _is_async(handler):
                result = await handler(task)
            else:
                loop, context = asyncio.get_running_loop(), contextvars.copy_context()
                result = await loop.run_in_executor(self._pool, context.run, _called, handler, task)
        except asyncio.CancelledError:
            if task.cancelled:
                return None
            return _failed(task, "CancelledError: the handler was cancelled, but not by its host")
        except ActionFailed as failure:
            log.info("task %s (%s) failed: %s", task.id, task.action, failure)
            return _failed(task, str(failure), code=failure.code, retryable=failure.retryable)
        except KeyboardInterrupt:
            raise
        # A handler that ends the process by mistake, as argparse does, ends its task only. Nor is a task given back
        # for an exception of a strange kind, such as those of test frameworks: it would come again, without end.
        except BaseException as error:
            log.warning("task %s (%s) failed", task.id, task.action, exc_info=error)
            return _failed(task, _described(error))
        return _completed(task, result)


def _called(handler: Handler, task: RunningTask) -> Any:
    """What a plain function answers."""
    try:
        return handler(task)
    except StopIteration as error:
        # No future takes this one: whoever awaits it would wait for ever. A coroutine turns it into the same.
        raise RuntimeError("the handler raised StopIteration") from error


def _completed(task: RunningTask, result: Any) -> Report:
    if result is None:
        return task.report(completed=TaskCompleted())
    try:
        if _is_deeper(result, MAX_DEPTH):
            raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
        return task.report(completed=TaskCompleted(result=value_from(result)))
    # Not only TypeError and ValueError: what looks like an object may raise anything when it is read.
    except Exception as error:
        text = str(error) if isinstance(error, (TypeError, ValueError)) else _described(error)
        log.warning("task %s (%s): its result is not JSON: %s", task.id, task.action, text)
        # The work is done; another attempt would do it twice, to the same end.
        return _failed(task, f"result is not JSON: {text}", code="bad_result", retryable=False)


def _failed(task: RunningTask, error: str, code: str | None = None, retryable: bool = True) -> Report:
    # An exception's text may hold what is no text for others, such as half of a surrogate pair.
    text = error[:MAX_ERROR_CHARS].encode(errors="replace").decode() or "failed without a word"
    return task.report(failed=TaskFailed(error=text, code=code, retryable=None if retryable else False))


def _described(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _is_deeper(plain: Any, levels: int) -> bool:
    if isinstance(plain, dict):
        return levels == 0 or any(_is_deeper(item, levels - 1) for item in plain.values())
    if isinstance(plain, (list, tuple)):
        return levels == 0 or any(_is_deeper(item, levels - 1) for item in plain)
    return False
