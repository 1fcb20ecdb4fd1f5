"""The descendants of a task, read level by level: those in the memory of the server, and those in its history."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceStub

from .connection import Connection

MOST_CHILDREN: Final = 1_000
"""Of one task this many are read, and no more."""


@dataclass(slots=True)
class TreeNode:
    """A task of a tree with its children, of which some may be `left_out`. Unless `is_read` nobody looked for any."""

    task: pb.Task
    children: list["TreeNode"] = field(default_factory=list)
    left_out: int = 0
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A task of a tree, or how many children of the one above are left out; for each level whether it is the last."""

    lasts: tuple[bool, ...]
    node: TreeNode | None
    left_out: int = 0


def depth_first(top: TreeNode) -> Iterator[TreeLine]:
    """The tasks of a tree, each before its children."""
    stack = [TreeLine((), top)]
    while stack:
        line = stack.pop()
        yield line
        if line.node is None:
            continue
        below = [TreeLine((*line.lasts, False), child) for child in line.node.children]
        if line.node.left_out:
            below.append(TreeLine((*line.lasts, True), None, line.node.left_out))
        elif below:
            below[-1] = TreeLine((*line.lasts, True), below[-1].node)
        stack += reversed(below)


class Descendants:
    """Reads trees over a channel. A server without a history is not asked for it a second time."""

    def __init__(self, channel: grpc.Channel, connection: Connection) -> None:
        self._stub: Any = TaskServiceStub(channel)
        self._connection = connection
        self._has_history = True

    def task(self, task_id: str) -> pb.Task:
        """A task by its whole id."""
        task: pb.Task = self._stub.GetTask(pb.GetTaskRequest(task_id=task_id), **self._connection.call())
        return task

    def root(self, task: pb.Task) -> pb.Task:
        """The highest ancestor that the server knows."""
        seen = {task.task_id}
        while task.parent_id and task.parent_id not in seen:
            seen.add(task.parent_id)
            try:
                task = self.task(task.parent_id)
            except grpc.RpcError as error:
                if not _is(error, grpc.StatusCode.NOT_FOUND):
                    raise
                break
        return task

    def tree(self, top: pb.Task, limit: int) -> TreeNode:
        """A task with what descends from it: up to `limit` tasks, those of a level before those below it."""
        node = TreeNode(top)
        waiting = deque([node])
        # Parents are names, so they may form a circle.
        seen = {top.task_id}
        while waiting and len(seen) < limit:
            parent = waiting.popleft()
            children = [each for each in self._children(parent.task) if each.task_id not in seen]
            taken = children[: limit - len(seen)]
            parent.is_read, parent.left_out = True, len(children) - len(taken)
            parent.children = [TreeNode(each) for each in taken]
            seen.update(each.task_id for each in taken)
            waiting.extend(parent.children)
        return node

    def _children(self, parent: pb.Task) -> list[pb.Task]:
        """The tasks that the work of a task has submitted, in that order."""
        found = self._listed(pb.ListTasksRequest(parent_id=parent.task_id))
        # Before a task has begun its work has submitted nothing.
        if self._has_history and parent.HasField("started_at"):
            request = pb.ListTasksRequest(parent_id=parent.task_id, history=True, created_from=parent.created_at)
            if parent.HasField("completed_at"):
                # What it has submitted it has submitted before: the rest of a long history is not looked at.
                request.created_until.seconds = parent.completed_at.seconds + 1
            try:
                found = self._listed(request) | found
            except grpc.RpcError as error:
                if not _is(error, grpc.StatusCode.INVALID_ARGUMENT):
                    raise
                self._has_history = False
        return sorted(found.values(), key=lambda task: (task.created_at.seconds, task.created_at.nanos, task.task_id))

    def _listed(self, request: pb.ListTasksRequest) -> dict[str, pb.Task]:
        found: dict[str, pb.Task] = {}
        while True:
            page = self._stub.ListTasks(request, **self._connection.call())
            found.update((task.task_id, task) for task in page.tasks)
            if not page.next_page_token or len(found) >= MOST_CHILDREN:
                return found
            request.page_token = page.next_page_token


def _is(error: grpc.RpcError, code: grpc.StatusCode) -> bool:
    return isinstance(error, grpc.Call) and error.code() is code
