"""The children of the tasks that a host runs: submitted under their leases, and fetched with what became of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import grpc

from taskyard.errors import Conflict, TooLarge
from taskyard.v1.child_pb2 import FetchChildRequest, FetchChildResponse, SubmitChildRequest, SubmitChildResponse
from taskyard.v1.child_pb2_grpc import ChildServiceStub
from taskyard.v1.input_pb2 import Input
from taskyard.v1.lease_pb2 import Lease
from taskyard.v1.task_pb2 import SubmitTaskRequest
from taskyard.values.params_artifact import held_without_params, no_artifact, refuses_params, size_of_params
from taskyard.values.references import JSON, PARAMS

if TYPE_CHECKING:
    from .artifacts import HostArtifacts


class LeaseChildren:
    """The children of one task, see `TaskChildren`.

    Args:
        artifacts: Makes calls, and has what is too large.
        lease: The lease of the task.
    """

    def __init__(self, artifacts: HostArtifacts, lease: Lease) -> None:
        self._artifacts = artifacts
        self._lease = lease

    def submit(self, name: str, request: SubmitTaskRequest) -> str:
        """Submit a child, or find the one that has its name. Params that are too large become an artifact of it.

        Args:
            name: Its name.
            request: The child.

        Returns:
            Its id.

        Raises:
            TaskyardError: It is refused, or the server was unavailable for too long.
        """
        most = self._artifacts.max_payload_bytes
        if most and size_of_params(request) > most:
            return self._submit_large(name, request)
        try:
            return self._send(name, request).task_id
        except TooLarge as error:
            if not most or not refuses_params(error):
                raise
        return self._submit_large(name, request)

    def _submit_large(self, name: str, request: SubmitTaskRequest) -> str:
        """Submit a child held, attach its params, and let it go. A run that was cut off is repeated by the next one."""
        sent, data = held_without_params(request)
        made = self._send(name, sent)
        if made.held:
            try:
                self._artifacts.put(self._lease, PARAMS, data, JSON, child=name)
            except Conflict as error:
                if self._send(name, sent).held:
                    raise no_artifact(error) from error
                return made.task_id
            if not request.hold:
                sent.hold = False
                self._send(name, sent)
        return made.task_id

    def _send(self, name: str, request: SubmitTaskRequest) -> SubmitChildResponse:
        sent = SubmitChildRequest(name=name, child=request, **self._named)
        return self._artifacts.repeated(partial(_submit, sent))

    def find(self, name: str) -> Input:
        """Find a child by its name.

        Args:
            name: Its name.

        Returns:
            The child as it stands, with its result whole.

        Raises:
            TaskyardError: It cannot be fetched.
        """
        found = self._artifacts.repeated(partial(_fetch, FetchChildRequest(name=name, **self._named))).child
        self._artifacts.fill_result(self._lease, found, name)
        return found

    @property
    def _named(self) -> dict[str, Any]:
        lease = self._lease
        return {"host_id": lease.host_id, "task_id": lease.task_id, "fencing_token": lease.fencing_token}


def _submit(request: SubmitChildRequest, channel: grpc.Channel, sent: dict[str, Any]) -> SubmitChildResponse:
    return ChildServiceStub(channel).SubmitChild(request, **sent)


def _fetch(request: FetchChildRequest, channel: grpc.Channel, sent: dict[str, Any]) -> FetchChildResponse:
    return ChildServiceStub(channel).FetchChild(request, **sent)
