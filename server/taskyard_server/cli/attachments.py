"""The files that `taskyard submit --attach` gives a task while it is held.

What is wrong with them is said before anything is submitted.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import grpc
from google.api.httpbody_pb2 import HttpBody

from taskyard.calls.artifacts import RESTARTS, Part, has_lost_some, media_type_of, parts_of
from taskyard.errors import BadRequest, Unavailable, error_from_rpc
from taskyard.v1 import artifact_pb2
from taskyard.v1.artifact_pb2_grpc import ArtifactServiceStub
from taskyard_server.conversion.requests import path_name
from taskyard_server.core.errors import Refusal

from .artifacts import AGAIN_AFTER_SECS, KIB
from .connection import Connection
from .failure import Misuse
from .progress import progress_bar
from .several_servers import PATIENCE_SECS


def files_of(given: Sequence[str]) -> dict[str, Path]:
    """The files under the names of their artifacts, given as `NAME=FILE`. Raises `Misuse`."""
    files: dict[str, Path] = {}
    for each in given:
        name, is_named, path = each.partition("=")
        if not is_named or not path:
            raise Misuse(f"--attach: must be NAME=FILE, is {each}")
        if name in files:
            raise Misuse(f"--attach: {name} is given twice")
        files[name] = Path(path).expanduser()
        try:
            path_name(name, "name")
            files[name].open("rb").close()
        except Refusal as error:
            raise Misuse(f"--attach: {error}") from None
        except OSError as error:
            raise Misuse(f"--attach: {path}: {(error.strerror or str(error)).lower()}") from None
    return files


def attach(task_id: str, files: Mapping[str, Path], channel: grpc.Channel, connection: Connection) -> None:
    """Give a held task its files."""
    stub = ArtifactServiceStub(channel)
    for name, file in files.items():
        _upload(task_id, name, file, stub, connection)


def _upload(task_id: str, name: str, file: Path, stub: ArtifactServiceStub, connection: Connection) -> None:
    """Upload a file, and begin anew where the server has lost what it had of it."""
    media_type = media_type_of(name, file, None)
    with progress_bar(f"{name}, KiB") as advance:
        for left in reversed(range(RESTARTS)):
            try:
                for part in parts_of(file):
                    advance(part.offset // KIB, -(-part.size // KIB))
                    _send(task_id, name, media_type, part, stub, connection)
                return
            except grpc.RpcError as rpc_error:
                error = error_from_rpc(rpc_error)
                if not left or not isinstance(error, BadRequest) or not has_lost_some(error):
                    raise


def _send(
    task_id: str, name: str, media_type: str, part: Part, stub: ArtifactServiceStub, connection: Connection
) -> None:
    """Upload a part, again while the server is not there."""
    request = artifact_pb2.AttachArtifactRequest(
        task_id=task_id,
        name=name,
        offset=part.offset,
        size_bytes=part.size,
        sha256=part.sha256,
        content=HttpBody(content_type=media_type, data=part.data),
    )
    until = time.monotonic() + PATIENCE_SECS
    while True:
        try:
            stub.AttachArtifact(request, **connection.call())
            return
        except grpc.RpcError as error:
            if not isinstance(error_from_rpc(error), Unavailable) or time.monotonic() > until:
                raise
        time.sleep(AGAIN_AFTER_SECS)
