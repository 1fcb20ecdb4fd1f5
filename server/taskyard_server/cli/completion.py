"""Completions beside words: ids and names that the server knows, if it answers at once.

The options that say where it is are taken from the environment and the profile, since a shell has parsed no others.
Nothing that goes wrong here may be seen: the terminal holds a line that somebody is typing.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import grpc

from taskyard.v1 import runtime_host_pb2, schedule_pb2, task_pb2
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from taskyard.v1.schedule_pb2_grpc import ScheduleServiceStub
from taskyard.v1.task_pb2_grpc import TaskServiceStub

from .connection import connection
from .server import word

TIMEOUT_SECS: Final = 1.0
MOST: Final = 50
LEAST: Final = 4
PREFIX: Final = "tsk_"
NAME: Final = re.compile(r"[\w.:@/][\w.,:@+=/-]*")
"""Names that mean nothing to a shell, which puts them on the line as they are. Anyone who runs a host names it."""
UNSAFE: Final = re.compile(r"[^\w .,:@+=/-]")
"""Signs that descriptions do without: zsh evaluates them, and anyone who submits a task names its action."""
Found = list[tuple[str, str]]


def task_ids(incomplete: str) -> Found:
    """The youngest tasks whose ids begin so, with what they are."""
    request = task_pb2.ListTasksRequest(page_size=MOST, newest_first=True)
    if len(incomplete) >= LEAST:
        request.id_prefix = incomplete

    def ask(channel: grpc.Channel, call: dict[str, Any]) -> Iterable[tuple[str, str]]:
        for task in TaskServiceStub(channel).ListTasks(request, **call).tasks:
            yield task.task_id, f"{task.agent_id} {task.action} {word(task.state)}"

    return _found(ask, incomplete)


def artifact_names(task_id: str, incomplete: str) -> Found:
    """The artifacts of a task, or of the only one whose id begins so, with their media types."""
    request = task_pb2.ListTasksRequest(page_size=2, id_prefix=PREFIX + task_id.removeprefix(PREFIX))

    def ask(channel: grpc.Channel, call: dict[str, Any]) -> Iterable[tuple[str, str]]:
        tasks = TaskServiceStub(channel).ListTasks(request, **call).tasks
        for artifact in tasks[0].artifacts if len(tasks) == 1 else ():
            yield artifact.name, artifact.media_type

    return _found(ask, incomplete)


def question_ids(task_id: str, incomplete: str) -> Found:
    """The questions that a parked task asks, or the only one whose id begins so, with their texts."""
    request = task_pb2.ListTasksRequest(page_size=2, id_prefix=PREFIX + task_id.removeprefix(PREFIX))

    def ask(channel: grpc.Channel, call: dict[str, Any]) -> Iterable[tuple[str, str]]:
        tasks = TaskServiceStub(channel).ListTasks(request, **call).tasks
        for wait in tasks[0].park.waits if len(tasks) == 1 else ():
            if wait.HasField("question"):
                yield wait.name, wait.question.text

    return _found(ask, incomplete)


def host_ids(incomplete: str) -> Found:
    """The hosts whose ids begin so, with their status."""

    def ask(channel: grpc.Channel, call: dict[str, Any]) -> Iterable[tuple[str, str]]:
        request = runtime_host_pb2.ListHostsRequest()
        for host in RuntimeHostServiceStub(channel).ListHosts(request, **call).hosts:
            yield host.id, runtime_host_pb2.RuntimeHost.Status.Name(host.status)

    return _found(ask, incomplete)


def schedule_ids(incomplete: str) -> Found:
    """The schedules whose ids begin so, with their names."""

    def ask(channel: grpc.Channel, call: dict[str, Any]) -> Iterable[tuple[str, str]]:
        request = schedule_pb2.ListSchedulesRequest(page_size=MOST)
        for schedule in ScheduleServiceStub(channel).ListSchedules(request, **call).schedules:
            yield schedule.schedule_id, schedule.display_name or schedule.task.action

    return _found(ask, incomplete)


def _found(ask: Callable[[grpc.Channel, dict[str, Any]], Iterable[tuple[str, str]]], incomplete: str) -> Found:
    try:
        reached = connection()
        with reached.opened() as channel:
            pairs = list(ask(channel, reached.call(TIMEOUT_SECS)))
    except Exception:
        return []
    fitting = [pair for pair in pairs if pair[0].startswith(incomplete) and NAME.fullmatch(pair[0])]
    return [(name, UNSAFE.sub("?", words)) for name, words in fitting]
