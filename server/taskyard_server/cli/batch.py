"""`taskyard batch submit | get | wait | cancel`: tasks that are submitted together, from a file with one a line."""

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from taskyard.v1 import batch_pb2 as pb
from taskyard.v1 import task_pb2
from taskyard.v1.batch_pb2_grpc import BatchServiceStub
from taskyard_server.conversion.payload import message_to_json

from .batch_lines import RefusedLine, read_tasks, submit_lines
from .connection import Connection, with_connection
from .console import out
from .failure import FAILED, Failure
from .listing import Head, ListingTable, number, task_id
from .output_form import print_data, with_output
from .progress import progress_bar
from .server import shown, state_cell, took_text, why_text
from .stops import ReasonOption
from .task_ends import TimeoutOption, exit_as, until

app = typer.Typer(help="Submit tasks from a file, and follow them together.", no_args_is_help=True)

POLL_SECS: Final = 0.5
NOT_ENDED: Final = ("pending", "queued", "assigned", "running", "paused", "parked")
MOST_IN_A_BATCH: Final = 500

BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="The batch's id.")]


@app.command()
@with_output
@with_connection
def submit(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="One task a line, JSON as in POST /tasks/batch: action, params, priority and so on. - is the standard "
            "input.",
        ),
    ],
    connection: Connection,
    agent: Annotated[str, typer.Option(help="The submitting agent.")],
    callback: Annotated[str | None, typer.Option(help="Where each task is posted when it ends.")] = None,
    size: Annotated[
        int,
        typer.Option(
            help="The most tasks of one batch, up to the server's scheduler.maxBatchSize; more lines are more batches.",
            min=1,
            max=MOST_IN_A_BATCH,
        ),
    ] = 50,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for their ends: exit code 1 unless all are done.")] = False,
    as_json: bool = False,
) -> None:
    """Submit tasks from a file of JSON lines. Nothing is submitted if a line is malformed."""
    tasks = read_tasks(file)
    with connection.opened() as channel:
        stub = BatchServiceStub(channel)
        request = pb.SubmitBatchRequest(agent_id=agent, callback_url=callback)
        with progress_bar("submitted", len(tasks)) as advance:
            done = submit_lines(stub, connection, request, tasks, size, advance)
        if as_json and not wait:
            print_data(done.as_json())
        elif not as_json:
            for batch_id, count in done.batches.items():
                out.print(f"{batch_id} has {count} {_tasks(count)}")
        for refused in done.refused:
            typer.echo(f"taskyard: {_refusal_text(refused)}", err=True)
        if wait:
            batches = [_followed(stub, connection, batch_id, None) for batch_id in done.batches]
            if as_json:
                print_data({"batches": [message_to_json(each, zeros=True) for each in batches]})
            else:
                for each in batches:
                    out.print(_states_text(each))
            _exit_as(*batches)
    if done.refused:
        raise typer.Exit(FAILED)


@app.command()
@with_output
@with_connection
def get(
    batch_id: BatchArgument,
    connection: Connection,
    limit: Annotated[int, typer.Option(help="The most tasks to show.", min=1, max=1000)] = 100,
    as_json: bool = False,
) -> None:
    """Show a batch: how many of its tasks are in which state, and the tasks."""
    with connection.opened() as channel:
        request = pb.GetBatchRequest(batch_id=batch_id, page_size=limit)
        answer: pb.GetBatchResponse = BatchServiceStub(channel).GetBatch(request, **connection.call())
    if as_json:
        print_data(message_to_json(answer, zeros=True))
        return
    out.print(_states_text(answer), soft_wrap=True)
    table = ListingTable(task_id("task"), "action", "state", number("duration", 2), Head("error", 1))
    for task in answer.tasks:
        table.add(task.task_id, task.action, state_cell(task.state), took_text(task), why_text(task))
    if answer.next_page_token:
        table.note = f"the first {len(answer.tasks)}; there are more"
    table.print()


@app.command()
@with_output
@with_connection
def wait(batch_id: BatchArgument, connection: Connection, timeout: TimeoutOption = None, as_json: bool = False) -> None:
    """Wait until all tasks of a batch have ended: exit code 0 if all are done, 1 if any is not."""
    end = until(timeout)
    with connection.opened() as channel:
        answer = _followed(BatchServiceStub(channel), connection, batch_id, end)
    if as_json:
        print_data(message_to_json(answer, zeros=True))
    else:
        out.print(_states_text(answer), soft_wrap=True)
    _exit_as(answer)


@app.command()
@with_output
@with_connection
def cancel(batch_id: BatchArgument, connection: Connection, reason: ReasonOption = None, as_json: bool = False) -> None:
    """Cancel all tasks of a batch that have not ended."""
    with connection.opened() as channel:
        request = pb.CancelBatchRequest(batch_id=batch_id, reason=reason)
        answer: pb.CancelBatchResponse = BatchServiceStub(channel).CancelBatch(request, **connection.call())
    if as_json:
        print_data(message_to_json(answer, zeros=True))
    else:
        out.print(f"{answer.batch_id}: {answer.cancelled} {_tasks(answer.cancelled)} cancelled", soft_wrap=True)


def _followed(stub: Any, connection: Connection, batch_id: str, end: float | None) -> pb.GetBatchResponse:
    """The batch once all of its tasks have ended, with a bar meanwhile. Raises `Failure` at `end`."""
    request = pb.GetBatchRequest(batch_id=batch_id, page_size=1)
    with progress_bar(batch_id) as advance:
        while True:
            answer: pb.GetBatchResponse = stub.GetBatch(request, **connection.call())
            total = sum(answer.states.values())
            advance(total - sum(answer.states.get(state, 0) for state in NOT_ENDED), total)
            if answer.ended:
                return answer
            if end is not None and time.monotonic() >= end:
                raise Failure(f"{_states_text(answer).plain}")
            time.sleep(POLL_SECS)


def _states_text(answer: pb.GetBatchResponse) -> Any:
    counts = ", ".join(f"{count} {state}" for state, count in sorted(answer.states.items()))
    return shown(f"{answer.batch_id} has {'ended' if answer.ended else 'not ended'}: {counts}")


def _exit_as(*batches: pb.GetBatchResponse) -> None:
    exit_as(*(task_pb2.Task.State.Value(state) for each in batches for state, count in each.states.items() if count))


def _refusal_text(refused: RefusedLine) -> str:
    return shown(f"line {refused.line}: {refused.reason}").plain


def _tasks(count: int) -> str:
    return "task" if count == 1 else "tasks"
