"""Ids of tasks at the terminal: whole, or a beginning that no other task's has (docs/use/cli.md, Ids)."""

import re
from typing import Annotated, Any, Final

import grpc
import typer

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceStub

from . import completed
from .connection import Connection
from .failure import Failure
from .server import shown, word

PREFIX: Final = "tsk_"
BEGINNING: Final = re.compile(r"tsk_(?P<rest>[0-9a-f]{8,31})|(?P<digits>[0-9a-f]{8,32})")
"""Ids begin with their time. With fewer digits the name of a task that is gone may be that of the only one left."""
CANDIDATES: Final = 8
"""This many are named where a beginning is that of several."""


def whole_id(channel: grpc.Channel, connection: Connection, text: str) -> str:
    """The id that begins with this text, with or without `tsk_`; the text itself where there is none.

    Raises `Failure`, which names the candidates, where there are several.
    """
    match = BEGINNING.fullmatch(text)
    if match is None:
        return text
    beginning = PREFIX + (match["rest"] or match["digits"])
    stub = TaskServiceStub(channel)
    request = pb.ListTasksRequest(id_prefix=beginning, page_size=CANDIDATES + 1, newest_first=True)
    found = _listed(stub, connection, request, beginning) or _past(stub, connection, request, beginning)
    if len(found) > 1:
        raise Failure(_ambiguous(text, found))
    return found[0].task_id if len(found) == 1 else text


def _listed(stub: Any, connection: Connection, request: pb.ListTasksRequest, beginning: str) -> list[pb.Task]:
    tasks = stub.ListTasks(request, **connection.call()).tasks
    # A server of before knows no beginnings, and lists everything.
    return [task for task in tasks if task.task_id.startswith(beginning)]


def _past(stub: Any, connection: Connection, request: pb.ListTasksRequest, beginning: str) -> list[pb.Task]:
    """The tasks of the history, if the server has one."""
    request.history = True
    try:
        return _listed(stub, connection, request, beginning)
    except grpc.RpcError as error:
        if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.INVALID_ARGUMENT:
            return []
        raise


def _ambiguous(text: str, found: list[pb.Task]) -> str:
    # On lines of their own: they are to be copied.
    lines = [f"  {task.task_id}  {task.agent_id}  {task.action}  {word(task.state)}" for task in found[:CANDIDATES]]
    if len(found) > CANDIDATES:
        lines.append("  and more")
    return "\n".join([f"{text} is the beginning of several ids:", *(shown(line).plain for line in lines)])


TaskArgument = Annotated[
    str,
    typer.Argument(help="The task's id, or the beginning of it.", autocompletion=completed.tasks),
]
