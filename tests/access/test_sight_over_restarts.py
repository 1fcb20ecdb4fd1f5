"""Cursors and page tokens of a yard with authentication outlive its restart (docs/operate/security.md)."""

from pathlib import Path
from typing import Any

from taskyard.v1 import task_pb2
from tests.access.sight_yard import Stubs, refusal, sight_yard, stubs
from tests.access.yards import AGENT, OTHER_AGENT

LISTING = task_pb2.ListTasksRequest(page_size=1)


def submit(caller: Stubs, agent: str) -> str:
    request = task_pb2.SubmitTaskRequest(agent_id=agent, action="click")
    return str(caller.call(caller.tasks.SubmitTask, request).task_id)


def events(caller: Stubs, cursor: str) -> list[Any]:
    stream = caller.call(caller.tasks.WatchTasks, task_pb2.WatchTasksRequest(cursor=cursor))
    told = []
    for message in stream:
        told += [event.task.task_id for event in message.events]
        if message.bookmark:
            break
    stream.cancel()
    return told


def test_a_cursor_and_a_page_token_of_before_a_restart_go_on(tmp_path: Path) -> None:
    with sight_yard(tmp_path) as yard, stubs(yard, "agent") as ann, stubs(yard, "operator") as operator:
        stream = ann.call(ann.tasks.WatchTasks, task_pb2.WatchTasksRequest())
        cursor = next(stream).cursor
        stream.cancel()
        first = submit(ann, AGENT)
        submit(operator, OTHER_AGENT)
        second = submit(ann, AGENT)
        token = ann.call(ann.tasks.ListTasks, LISTING).next_page_token
    with sight_yard(tmp_path) as yard, stubs(yard, "agent") as ann, stubs(yard, "bob") as bob:
        following = task_pb2.ListTasksRequest(page_size=1, page_token=token)
        assert [task.task_id for task in ann.call(ann.tasks.ListTasks, following).tasks] == [second]
        refusal(lambda: bob.call(bob.tasks.ListTasks, following))
        assert events(ann, cursor) == [first, second]
        refusal(lambda: events(bob, cursor))
