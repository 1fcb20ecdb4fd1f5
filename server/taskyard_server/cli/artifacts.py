"""`taskyard artifacts`: list the artifacts of a task, and with a name print or save one.

A reading that breaks off goes on where it was. A file is there only once it is whole, and has the hash that it should.
"""

import os
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

import grpc
import typer

from taskyard.errors import NotOwner, Unavailable, error_from_rpc
from taskyard.v1 import artifact_pb2, task_pb2
from taskyard.v1.artifact_pb2_grpc import ArtifactServiceStub
from taskyard.v1.task_pb2_grpc import TaskServiceStub
from taskyard_server.conversion.payload import message_to_json

from . import completed
from .connection import Connection, with_connection
from .console import out
from .failure import Failure, Misuse
from .listing import Head, ListingTable, number
from .output_form import print_data, with_output
from .progress import progress_bar
from .server import local_time, shown, size_text
from .several_servers import PATIENCE_SECS
from .task_ids import TaskArgument, whole_id

STDOUT: Final = "-"
AGAIN_AFTER_SECS: Final = 0.5
KIB: Final = 1024


@with_output
@with_connection
def artifacts(
    task_id: TaskArgument,
    connection: Connection,
    name: Annotated[
        str | None,
        typer.Argument(
            help="The one to print or to save. Default: all are listed.", autocompletion=completed.artifacts
        ),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option("--save", metavar="FILE", help="Where to save it; - prints it. Default: a file of its name."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that is there.")] = False,
    as_json: bool = False,
) -> None:
    """List the artifacts of a task, or save one."""
    if name is None and (save is not None or force):
        raise Misuse("NAME: is needed to save an artifact")
    with connection.opened() as channel:
        request = task_pb2.GetTaskRequest(task_id=whole_id(channel, connection, task_id))
        task: task_pb2.Task = TaskServiceStub(channel).GetTask(request, **connection.call())
    if name is None:
        _list(task, as_json)
        return
    found = next((each for each in task.artifacts if each.name == name), None)
    if found is None:
        raise Failure(f"the task has no artifact {name}")
    if save == STDOUT or (save is None and not sys.stdout.isatty()):
        _print(task.task_id, found, connection)
    else:
        _save(task.task_id, found, connection, Path(save or name), force=force)


def _list(task: task_pb2.Task, as_json: bool) -> None:
    if as_json:
        print_data({"artifacts": [message_to_json(each) for each in task.artifacts]})
        return
    table = ListingTable("name", "type", number("size"), number("attempt", 2), Head("put", 1), Head("sha256", 3))
    for each in task.artifacts:
        attempt, put = str(each.attempt or ""), local_time(each.created_at)
        table.add(each.name, each.media_type, size_text(each.size_bytes), attempt, put, each.sha256)
    table.print()


def _print(task_id: str, artifact: artifact_pb2.Artifact, connection: Connection) -> None:
    try:
        _read(task_id, artifact, connection, sys.stdout.buffer.write)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe has gone. Flushing the rest of the buffer at exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _save(task_id: str, artifact: artifact_pb2.Artifact, connection: Connection, file: Path, *, force: bool) -> None:
    if file.is_dir():
        file /= artifact.name
    if file.exists() and not force:
        raise Failure(f"{file} is there already; --force replaces it")
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        try:
            with beside.open("wb") as written, progress_bar(f"{artifact.name}, KiB") as advance:

                def write(data: bytes) -> None:
                    written.write(data)
                    advance(written.tell() // KIB, -int(-artifact.size_bytes // KIB))

                _read(task_id, artifact, connection, write)
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise Failure(f"{file}: {(error.strerror or str(error)).lower()}") from None
    out.print(shown(f"{file} has {size_text(artifact.size_bytes)} of {artifact.media_type}"))


def _read(
    task_id: str, artifact: artifact_pb2.Artifact, connection: Connection, write: Callable[[bytes], object]
) -> None:
    """Write all bytes of an artifact, over as many streams as it takes."""
    asked = artifact_pb2.ReadArtifactRequest(task_id=task_id, name=artifact.name)
    hashed, until = sha256(), time.monotonic() + PATIENCE_SECS
    while True:
        with connection.opened() as channel:
            try:
                for body in ArtifactServiceStub(channel).ReadArtifact(asked, **connection.call(None)):
                    write(body.data)
                    hashed.update(body.data)
                    asked.offset += len(body.data)
                    until = time.monotonic() + PATIENCE_SECS
                break
            except grpc.RpcError as error:
                # Another of several servers may have the task. One that does not answer at all is not waited for.
                passing = Unavailable if asked.offset else NotOwner
                if not isinstance(error_from_rpc(error), passing) or time.monotonic() > until:
                    raise
        time.sleep(AGAIN_AFTER_SECS)
    if hashed.hexdigest() != artifact.sha256:
        raise Failure(f"{artifact.name} has other bytes than its hash says: it was replaced meanwhile, try again")
