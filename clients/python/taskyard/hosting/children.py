"""The children of the tasks that a host runs: submitted under their leases, and fetched with what became of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import grpc

from taskyard.v1.child_pb2 import FetchChildRequest, FetchChildResponse, SubmitChildRequest, SubmitChildResponse
from taskyard.v1.child_pb2_grpc import ChildServiceStub
from taskyard.v1.input_pb2 import Input
from taskyard.v1.lease_pb2 import Lease
from taskyard.v1.task_pb2 import SubmitTaskRequest

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
        """Submit a child, or find the one that has its name.

        Args:
            name: Its name.
            request: The child.

        Returns:
            Its id.

        Raises:
            TaskyardError: It is refused, or the server was unavailable for too long.
        """
        sent = SubmitChildRequest(name=name, child=request, **self._named)
        return self._artifacts.repeated(partial(_submit, sent)).task_id

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
