"""`taskyard logs`: show what a task has said, and with `--follow` what it says until it has ended.

Text and bytes are printed as they are, JSON a line each. A reading that breaks off goes on after the last chunk, over
restarts of the server too.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Final

import grpc
import typer
from rich.console import Console

from taskyard.calls.retrying import Backoff
from taskyard.connection.credentials import Renewal
from taskyard.errors import NotOwner, error_from_rpc
from taskyard.v1 import output_pb2, output_pb2_grpc
from taskyard_server.conversion.payload import message_to_json
from taskyard_server.core.task import TERMINAL

from .connection import Connection, with_connection
from .output_form import print_line, with_output
from .server import word
from .several_servers import PATIENCE_SECS
from .task_ids import TaskArgument, whole_id

RECONNECT_SECS: Final = 1.0
ENDED: Final = frozenset(state.value for state in TERMINAL)

trouble = Console(stderr=True, highlight=False)


@with_output
@with_connection
def logs(
    task_id: TaskArgument,
    connection: Connection,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")] = False,
    after: Annotated[
        int, typer.Option(help="Only what comes after the chunk with this sequence number.", min=0, max=2**32 - 1)
    ] = 0,
    channel: Annotated[
        list[str] | None,
        typer.Option(help="Only this channel, such as stdout or log; may be given more than once."),
    ] = None,
    as_json: bool = False,
) -> None:
    """Show what a task has said."""
    asked = output_pb2.ReadOutputRequest(after=after, channels=channel, follow=follow)
    with connection.opened() as opened:
        asked.task_id = whole_id(opened, connection, task_id)
    try:
        for chunk in _chunks(asked, connection):
            if as_json:
                print_line(message_to_json(chunk))
            else:
                _print(chunk)
    except BrokenPipeError:
        # The reader of the pipe has gone. Flushing the rest of the buffer at exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(chunk: output_pb2.OutputChunk) -> None:
    """Print what a chunk says, and nothing else."""
    match chunk.WhichOneof("data"):
        case "binary":
            sys.stdout.flush()
            sys.stdout.buffer.write(chunk.binary)
        case "json":
            print(json.dumps(message_to_json(chunk).get("json"), ensure_ascii=False))
        case _:
            sys.stdout.write(chunk.text)
    sys.stdout.flush()


def _chunks(asked: output_pb2.ReadOutputRequest, connection: Connection) -> Iterator[output_pb2.OutputChunk]:
    """The chunks of one reading, over as many streams as it takes. `asked` says after which to go on."""
    is_connected = has_begun = False
    renewal, backoff = Renewal(connection.credentials), Backoff()
    until = time.monotonic() + PATIENCE_SECS
    state = ""
    while True:
        pause_secs = RECONNECT_SECS
        call = connection.call(None)
        with connection.opened() as channel:
            try:
                for message in output_pb2_grpc.OutputServiceStub(channel).ReadOutput(asked, **call):
                    is_connected = has_begun = True
                    renewal.worked()
                    backoff.reset()
                    _tell_dropped(asked, message)
                    yield from message.chunks
                    asked.after, state = message.next_after, word(message.state)
                if state in ENDED or not asked.follow:
                    return
            except grpc.RpcError as error:
                if not isinstance(error, grpc.Call):
                    raise
                if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                    if not renewal.is_worth_it(call["metadata"]):
                        raise
                elif isinstance(stray := error_from_rpc(error), NotOwner):
                    if not has_begun and time.monotonic() > until:
                        raise
                    pause_secs = backoff.delay(stray)
                elif not has_begun or error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
        if is_connected:
            is_connected = False
            trouble.print("taskyard: the output broke off, and goes on as soon as it can", style="dim")
        time.sleep(pause_secs)


def _tell_dropped(asked: output_pb2.ReadOutputRequest, message: output_pb2.ReadOutputResponse) -> None:
    # The server may still have more than it promises.
    first = min([message.first_sequence, *(chunk.sequence for chunk in message.chunks[:1])])
    if first - 1 > asked.after:
        trouble.print(f"taskyard: {first - 1 - asked.after} chunks were dropped to make room", style="dim")
