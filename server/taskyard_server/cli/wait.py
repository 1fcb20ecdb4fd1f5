"""`taskyard wait`: wait until tasks have ended."""

from typing import Annotated

import typer

from taskyard_server.conversion.payload import message_to_json

from . import completed
from .connection import Connection, with_connection
from .console import out
from .output_form import print_data, with_output
from .task_ends import TimeoutOption, exit_as, told_end, until, wait_for_end
from .task_ids import whole_id


@with_output
@with_connection
def wait(
    task_ids: Annotated[
        list[str],
        typer.Argument(
            metavar="TASK_ID...", help="Tasks, or the beginnings of their ids.", autocompletion=completed.tasks
        ),
    ],
    connection: Connection,
    timeout: TimeoutOption = None,
    as_json: bool = False,
) -> None:
    """Wait until tasks have ended: exit code 0 if all are done, 1 if one failed, was rejected or cancelled."""
    end, tasks = until(timeout), []
    with connection.opened() as channel:
        ids = [whole_id(channel, connection, each) for each in task_ids]
        for each in ids:
            tasks.append(wait_for_end(channel, connection, each, end))
            if not as_json:
                out.print(told_end(tasks[-1]), soft_wrap=True)
    if as_json:
        shown = [message_to_json(task) for task in tasks]
        print_data(shown[0] if len(shown) == 1 else {"tasks": shown, "count": len(shown)})
    exit_as(*(task.state for task in tasks))
