"""The artifacts of the tasks that a host runs: it puts and reads them under their leases, from any thread or process.

It uses grpc's synchronous API, which works beside any event loop. Values that are too large go this way by themselves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeVar

import grpc
import msgspec
from google.api.httpbody_pb2 import HttpBody
from google.protobuf.json_format import MessageToDict

from taskyard.calls.artifacts import RESTARTS, Content, damaged, has_lost_some, media_type_of, parts_of
from taskyard.calls.retrying import BROKEN, Backoff
from taskyard.connection.channel import channel_options, check_process
from taskyard.connection.credentials import Credentials
from taskyard.errors import BadRequest, NotFound, OutOfRange, TaskyardError, error_from_rpc
from taskyard.records.artifacts import Artifact
from taskyard.v1.artifact_pb2 import FetchArtifactRequest, UploadArtifactRequest, UploadArtifactResponse
from taskyard.v1.artifact_pb2_grpc import ArtifactServiceStub
from taskyard.v1.input_pb2 import FetchInputRequest, Input
from taskyard.v1.input_pb2_grpc import InputServiceStub
from taskyard.v1.lease_pb2 import Assignment, Lease
from taskyard.v1.runtime_host_pb2 import Report, TaskCompleted
from taskyard.v1.step_pb2 import Step
from taskyard.v1.task_pb2 import Payload
from taskyard.v1.task_pb2 import Task as TaskMessage
from taskyard.values.convert import fill_struct, plain_value, value_from
from taskyard.values.payloads import is_exact
from taskyard.values.references import JSON, PARAMS, RESULT, Reference, reference_in

from .artifact_work import place_of

T = TypeVar("T")

PATIENCE_SECS: Final = 60.0
"""How long a part is sent again while the server is unavailable. The lease may be over before."""
CALL_SECS: Final = 60.0


class LeaseArtifacts:
    """The artifacts of one task, see `TaskArtifacts`.

    Args:
        artifacts: Those of the host.
        lease: The lease of the task.
        hashes: The hashes of those that the task and its inputs have, see `hashes_of`. What is put here changes them.
    """

    def __init__(self, artifacts: HostArtifacts, lease: Lease, hashes: dict[str, str]) -> None:
        self._artifacts = artifacts
        self._lease = lease
        self._hashes = hashes

    def put(self, name: str, content: Content, media_type: str | None) -> Artifact:
        """Put an artifact.

        Args:
            name: Its name.
            content: Its bytes, or the file that has them.
            media_type: The media type, None for what the name says.

        Returns:
            The artifact.

        Raises:
            TaskyardError: It is refused.
            OSError: The file cannot be read.
        """
        # Until the answer is here, the task may have either of the two.
        self._hashes.pop(name, None)
        artifact = self._artifacts.put(self._lease, name, content, media_type)
        self._hashes[name] = artifact.sha256
        return artifact

    def read(self, name: str, of: str = "") -> bytes:
        """Read an artifact, anew if another one has taken its place meanwhile.

        Args:
            name: Its name.
            of: The input whose artifact it is. Default it is one of the task itself.

        Returns:
            Its bytes.

        Raises:
            TaskyardError: It cannot be read; `Internal` if its bytes do not have its hash.
        """
        place = place_of(name, of)
        while True:
            stated = self._hashes.get(place)
            try:
                data = self._artifacts.read(self._lease, name, of)
            except (NotFound, OutOfRange):
                if self._hashes.get(place) == stated:
                    raise
                continue
            if stated is None or sha256(data).hexdigest() == stated:
                return data
            if self._hashes.get(place) == stated:
                raise damaged(self._lease.task_id, place)


class HostArtifacts:
    """The artifacts of the tasks of a host. All methods block, and may be called from any thread.

    Attributes:
        max_payload_bytes: The most bytes of a result, or of params, that are no artifact; 0 where the server takes
            none.
        credentials: How to reach the server, and what is sent with each call.

    Args:
        credentials: How to reach the server, and what is sent with each call.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.max_payload_bytes = 0
        self.credentials = credentials
        self._lock = threading.Lock()
        self._channels: dict[str, grpc.Channel] = {}
        self._first = 0
        """The place among the addresses of the one that answered last."""

    def put(
        self, lease: Lease, name: str, content: Content, media_type: str | None = None, *, child: str = ""
    ) -> Artifact:
        """Put an artifact of a task, see `RunningTask.put_artifact`, or of a child of it that is held.

        Args:
            lease: The lease of the task.
            name: Its name.
            content: Its bytes, or the file that has them.
            media_type: The media type. Default what the name says.
            child: The name of the child. Default the artifact is one of the task itself.

        Returns:
            The artifact.

        Raises:
            TaskyardError: It is refused.
            OSError: The file cannot be read.
        """
        found = media_type_of(name, content, media_type)
        for left in reversed(range(RESTARTS)):
            answer = None
            try:
                for part in parts_of(content):
                    request = UploadArtifactRequest(
                        host_id=lease.host_id,
                        task_id=lease.task_id,
                        fencing_token=lease.fencing_token,
                        name=name,
                        offset=part.offset,
                        size_bytes=part.size,
                        sha256=part.sha256,
                        content=HttpBody(content_type=found, data=part.data),
                        child=child,
                    )
                    answer = self.repeated(partial(_upload, request))
            except BadRequest as error:
                if not left or not has_lost_some(error):
                    raise
            else:
                assert answer is not None
                return Artifact.from_message(answer.artifact)
        raise AssertionError

    def read(self, lease: Lease, name: str, of: str = "") -> bytes:
        """Read an artifact of a task, see `RunningTask.read_artifact`.

        Args:
            lease: The lease of the task.
            name: Its name.
            of: The input whose artifact it is. Default it is one of the task itself.

        Returns:
            Its bytes.

        Raises:
            TaskyardError: It cannot be read.
        """
        got = bytearray()

        def fetch(channel: grpc.Channel, sent: dict[str, Any]) -> None:
            request = FetchArtifactRequest(
                host_id=lease.host_id,
                task_id=lease.task_id,
                fencing_token=lease.fencing_token,
                name=name,
                offset=len(got),
                input=of,
            )
            for body in ArtifactServiceStub(channel).FetchArtifact(request, **sent):
                got.extend(body.data)

        self.repeated(fetch, lambda: len(got))
        return bytes(got)

    def close(self) -> None:
        """Close the connections. What goes on fails."""
        for channel in self._channels.values():
            channel.close()

    # Values that are too large

    def needs_params(self, message: TaskMessage) -> bool:
        """Find out whether the params of a task are an artifact.

        Args:
            message: The task as it was assigned.

        Returns:
            True if `fill` fetches them.
        """
        return "$artifact" in message.params.fields and any(each.name == PARAMS for each in message.artifacts)

    def fill(self, assignment: Assignment) -> None:
        """Put the params of a task in their place.

        Args:
            assignment: The task and its lease. It is changed.

        Raises:
            TaskyardError: They cannot be fetched.
        """
        reference = reference_in(MessageToDict(assignment.task.params))
        if reference is None:
            return
        data = self.value(assignment.lease, reference, assignment.lease.task_id)
        task = assignment.task
        task.ClearField("params")
        try:
            plain = msgspec.json.decode(data) if reference.encoding is None else None
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise BadRequest("params: the artifact is no JSON") from None
        if isinstance(plain, dict) and is_exact(plain):
            fill_struct(task.params, plain)
        else:
            task.input.CopyFrom(Payload(data=data, encoding=reference.encoding))

    def needs_input(self, message: Input) -> bool:
        """Find out whether the value of an input has not come along with its task.

        Args:
            message: The input as it was assigned.

        Returns:
            True if `fill_input` fetches it.
        """
        return message.omitted or "$artifact" in message.result.struct_value.fields

    def fill_input(self, assignment: Assignment, name: str) -> None:
        """Put the value of an input in its place.

        Args:
            assignment: The task and its lease. It is changed.
            name: The input.

        Raises:
            TaskyardError: It cannot be fetched.
        """
        lease, found = assignment.lease, assignment.inputs[name]
        if found.omitted:
            request = FetchInputRequest(
                host_id=lease.host_id, task_id=lease.task_id, fencing_token=lease.fencing_token, name=name
            )
            found.CopyFrom(self.repeated(partial(_fetch_input, request)))
        self.fill_result(lease, found, name)

    def fill_result(self, lease: Lease, found: Input, name: str) -> None:
        """Put the result of another task in its place, if it is an artifact.

        Args:
            lease: The lease.
            found: The other task. It is changed.
            name: The name of the input, or of the child, that it is.

        Raises:
            TaskyardError: It cannot be fetched.
        """
        reference = reference_in(plain_value(found.result))
        # A handler may return what looks like one; it is one if the task has the artifact.
        if reference is not None and reference.is_of(RESULT, found.artifacts):
            data = self.value(lease, reference, found.task_id, of=name)
            found.ClearField("result")
            found.output.CopyFrom(Payload(data=data, encoding=reference.encoding))

    def is_too_large(self, report: Report | None) -> bool:
        """Find out whether the result in a report must become an artifact.

        Args:
            report: The report, None for none.

        Returns:
            True if `shrink` is needed.
        """
        most = self.max_payload_bytes
        if report is None or not most or not report.HasField("completed"):
            return False
        done = report.completed
        return done.result.ByteSize() + done.output.ByteSize() > most

    def shrink(self, lease: Lease, report: Report) -> None:
        """Make an artifact of the result in a report, and refer to it.

        Args:
            lease: The lease.
            report: The report. It is changed.

        Raises:
            TaskyardError: The artifact is refused.
        """
        self.replace(lease, RESULT, report.completed)

    def replace(self, lease: Lease, name: str, holder: TaskCompleted | Step) -> None:
        """Make an artifact of a result, and refer to it in its place.

        Args:
            lease: The lease.
            name: The name of the artifact.
            holder: What has the result. It is changed.

        Raises:
            TaskyardError: The artifact is refused.
        """
        if holder.HasField("output"):
            data, encoding = holder.output.data, holder.output.encoding or None
        else:
            data, encoding = msgspec.json.encode(plain_value(holder.result)), None
        artifact = self.put(lease, name, data, JSON)
        reference = Reference(name, artifact.size_bytes, artifact.sha256, encoding)
        holder.ClearField("output")
        holder.result.CopyFrom(value_from(reference.plain(f"/tasks/{lease.task_id}/artifacts/{name}")))

    def value(self, lease: Lease, reference: Reference, task_id: str, of: str = "") -> bytes:
        """Read a value that is an artifact.

        Args:
            lease: The lease.
            reference: What stands in its place.
            task_id: The task whose artifact it is.
            of: The input that this task is. Default it is the one of the lease.

        Returns:
            Its bytes.

        Raises:
            TaskyardError: It cannot be read; `Internal` if its bytes do not have the hash of the reference.
        """
        data = self.read(lease, reference.name, of)
        if sha256(data).hexdigest() != reference.sha256:
            raise damaged(task_id, reference.name)
        return data

    def repeated(self, call: Callable[[grpc.Channel, dict[str, Any]], T], done: Callable[[], int] = lambda: 0) -> T:
        """Make a call, and make it again while the server is unavailable.

        Args:
            call: Makes the call on a channel, with these keyword arguments.
            done: How far it is. Progress renews the patience. Default it makes none.

        Returns:
            What it returns.

        Raises:
            TaskyardError: It is refused, or the server was unavailable for too long.
        """
        backoff, until = Backoff(), time.monotonic() + PATIENCE_SECS
        while True:
            before = done()
            addresses = self.credentials.addresses
            address = addresses[self._first % len(addresses)]
            metadata = self.credentials.metadata()
            sent = {"metadata": metadata, "timeout": CALL_SECS}
            try:
                return call(self._channel(address), sent)
            except grpc.RpcError as failed:
                error: TaskyardError = error_from_rpc(failed)
                may_repeat = isinstance(error, BROKEN) or (
                    error.code == "unauthenticated" and self.credentials.changed_since(metadata)
                )
                if done() > before:
                    backoff, until = Backoff(), time.monotonic() + PATIENCE_SECS
                if not may_repeat or time.monotonic() > until:
                    raise error from failed
            self._first += 1
            time.sleep(backoff.delay(error))

    def _channel(self, address: str) -> grpc.Channel:
        with self._lock:
            channel = self._channels.get(address)
            if channel is None:
                check_process()
                options, encryption = channel_options(self.credentials, address), self.credentials.for_channel()
                if encryption is None:
                    channel = grpc.insecure_channel(address, options=options)
                else:
                    channel = grpc.secure_channel(address, encryption, options=options)
                self._channels[address] = channel
            return channel


def _upload(request: UploadArtifactRequest, channel: grpc.Channel, sent: dict[str, Any]) -> UploadArtifactResponse:
    return ArtifactServiceStub(channel).UploadArtifact(request, **sent)


def _fetch_input(request: FetchInputRequest, channel: grpc.Channel, sent: dict[str, Any]) -> Input:
    return InputServiceStub(channel).FetchInput(request, **sent)
