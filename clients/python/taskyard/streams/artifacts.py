"""The artifacts of tasks as a client has them: it reads, saves and attaches them, and fetches large results."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from contextlib import aclosing
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import grpc
from google.api.httpbody_pb2 import HttpBody

from taskyard.calls.artifacts import Content, Part, damaged, media_type_of, upload
from taskyard.calls.calls import Calls
from taskyard.connection.credentials import Credentials
from taskyard.connection.servers import Servers
from taskyard.errors import NotFound, OutOfRange, TaskyardError
from taskyard.records.artifacts import Artifact
from taskyard.records.tasks import Task
from taskyard.v1 import artifact_pb2 as pb
from taskyard.v1 import task_pb2
from taskyard.v1.artifact_pb2_grpc import ArtifactServiceStub
from taskyard.v1.task_pb2_grpc import TaskServiceStub
from taskyard.values.payloads import Payload
from taskyard.values.references import RESULT, reference_in

from .artifact_reading import ArtifactReading


class Artifacts:
    """The artifacts of the tasks of a namespace.

    Args:
        calls: The calls of the client.
        servers: The servers of the client.
        credentials: What is sent with every stream.
        patience_secs: The longest outage to sit out, in seconds.
        open_calls: Where open streams are listed.
    """

    def __init__(
        self, calls: Calls, servers: Servers, credentials: Credentials, patience_secs: float, open_calls: set[Any]
    ) -> None:
        self._calls = calls
        self._servers = servers
        self._credentials = credentials
        self._patience = patience_secs
        self._open_calls = open_calls
        self._stub = ArtifactServiceStub(servers.unary)
        self._tasks = TaskServiceStub(servers.unary)

    async def read(self, task_id: str, name: str) -> bytes:
        """Read an artifact, see `Client.read_artifact`.

        Args:
            task_id: The task.
            name: The name of the artifact.

        Returns:
            Its bytes.

        Raises:
            TaskyardError: It cannot be read.
        """
        file = BytesIO()
        await self._copy(task_id, name, file)
        return file.getvalue()

    async def save(self, task_id: str, name: str, path: Path) -> Artifact:
        """Save an artifact in a file, see `Client.save_artifact`.

        Args:
            task_id: The task.
            name: The name of the artifact.
            path: The file.

        Returns:
            The artifact.

        Raises:
            TaskyardError: It cannot be read.
            OSError: The file cannot be written.
        """
        beside = path.with_name(f".{path.name}.{token_hex(4)}")
        try:
            with beside.open("wb") as file:
                artifact = await self._copy(task_id, name, file)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        return artifact

    async def attach(self, task_id: str, name: str, content: Content, media_type: str | None = None) -> Artifact:
        """Attach an artifact to a held task, see `Client.attach_artifact`.

        Args:
            task_id: The task.
            name: The name of the artifact.
            content: Its bytes, or the file that has them.
            media_type: The media type. Default what the name says.

        Returns:
            The artifact.

        Raises:
            TaskyardError: It is refused.
            OSError: The file cannot be read.
        """
        found = media_type_of(name, content, media_type)

        async def send(part: Part) -> pb.AttachArtifactResponse:
            request = pb.AttachArtifactRequest(
                task_id=task_id,
                name=name,
                offset=part.offset,
                size_bytes=part.size,
                sha256=part.sha256,
                content=HttpBody(content_type=found, data=part.data),
            )
            return await self._calls.sure(self._stub.AttachArtifact, request)

        return await upload(content, send)

    async def whole(self, task: Task) -> Task:
        """Fetch the result of a task, where it is an artifact.

        Args:
            task: The task as it ended.

        Returns:
            The same task, with the result as its `output` if that was fetched.

        Raises:
            TaskyardError: It cannot be fetched.
        """
        reference = reference_in(task.result) if task.output is None else None
        # A handler may return what looks like one; it is one if the task has the artifact.
        if reference is None or not reference.is_of(RESULT, task.artifacts):
            return task
        data = await self.read(task.id, reference.name)
        return dataclasses.replace(task, output=Payload(data, reference.encoding))

    async def _copy(self, task_id: str, name: str, file: BinaryIO) -> Artifact:
        """Write an artifact to a file, anew if another one has taken its place meanwhile."""
        before: Artifact | None = None
        problem: TaskyardError | None = None
        while (artifact := await self._find(task_id, name)) != before:
            before, hashed = artifact, sha256()
            file.seek(0)
            file.truncate()
            try:
                async with aclosing(self._bytes(task_id, artifact)) as parts:
                    async for part in parts:
                        hashed.update(part)
                        # Writing to the page cache takes less time than a thread for each part.
                        file.write(part)
            except (NotFound, OutOfRange) as error:
                problem = error
                continue
            if hashed.hexdigest() == artifact.sha256:
                return artifact
            problem = damaged(task_id, name)
        assert problem is not None
        raise problem

    async def _find(self, task_id: str, name: str) -> Artifact:
        task = await self._calls.sure(self._tasks.GetTask, task_pb2.GetTaskRequest(task_id=task_id))
        for message in task.artifacts:
            if message.name == name:
                return Artifact.from_message(message)
        raise NotFound("artifact not found")

    def _bytes(self, task_id: str, artifact: Artifact) -> AsyncGenerator[bytes, None]:
        def begin(channel: grpc.aio.Channel, offset: int, metadata: Any) -> Any:
            request = pb.ReadArtifactRequest(task_id=task_id, name=artifact.name, offset=offset)
            return ArtifactServiceStub(channel).ReadArtifact(request, metadata=metadata)

        reading = ArtifactReading(self._servers, self._credentials, self._patience, self._open_calls)
        return reading.read(begin, artifact.size_bytes)
