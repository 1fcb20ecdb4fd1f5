"""The steps of the tasks that a host runs: recorded under their leases, those of earlier runs fetched once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, Final

import grpc

from taskyard.v1.lease_pb2 import Lease
from taskyard.v1.step_pb2 import (
    FetchStepsRequest,
    FetchStepsResponse,
    RecordStepRequest,
    RecordStepResponse,
    Step,
)
from taskyard.v1.step_pb2_grpc import StepServiceStub
from taskyard.v1.task_pb2 import Payload
from taskyard.values.convert import plain_value
from taskyard.values.payloads import Codec
from taskyard.values.references import reference_in

from .artifacts import HostArtifacts
from .children import LeaseChildren
from .step_work import WORK

MAX_STEPS_BYTES: Final = 1 << 20
"""The most bytes that the results of a task's steps may have together at the server."""
MAX_INLINE_BYTES: Final = 1 << 16
"""The most bytes of a result that is no artifact: a few large ones must not take the room of many small ones."""
REFERENCE_BYTES: Final = 512
"""More than a reference to an artifact takes."""
SPARE_BYTES: Final = 100 * REFERENCE_BYTES
"""The room that is left free for references to as many artifacts as a task may have."""


class LeaseSteps:
    """The steps of one task, see `TaskSteps`.

    Attributes:
        codec: The codec of the host, None for none.

    Args:
        artifacts: Makes calls, and keeps what is too large.
        lease: The lease of the task.
        count: How many steps earlier runs have recorded.
        codec: The codec of the host, None for none.
        flush: Blocks until what the task has said is kept. Default it says nothing.
    """

    def __init__(
        self,
        artifacts: HostArtifacts,
        lease: Lease,
        count: int,
        codec: Codec | None,
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        self.codec = codec
        self._flush = flush
        self._artifacts = artifacts
        self._lease = lease
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, str], Step] | None = None if count else {}
        """The steps that are recorded, by kind and name, None until they are known."""
        self._size = 0
        """The bytes of all results, a little more than they have."""

    @property
    def children(self) -> LeaseChildren:
        """The children of the task."""
        return LeaseChildren(self._artifacts, self._lease)

    def may_have(self, name: str, kind: Step.Kind.ValueType = WORK) -> bool:
        """Find out whether it is worth asking for a step.

        Args:
            name: Its name.
            kind: Its kind. Default work.

        Returns:
            False if the task surely has no step of this name.
        """
        kept = self._kept
        return kept is None or (kind, name) in kept

    def find(self, name: str, kind: Step.Kind.ValueType = WORK) -> Step | None:
        """Find a step that was recorded, or came.

        Args:
            name: Its name.
            kind: Its kind. Default work.

        Returns:
            The step, with its result whole; None if there is none.

        Raises:
            TaskyardError: It cannot be fetched.
        """
        with self._lock:
            if self._kept is None:
                self._kept = self._fetched()
            step = self._kept.get((kind, name))
        if step is None or kind != WORK:
            return step
        reference = reference_in(plain_value(step.result))
        # A function may return what looks like a reference.
        if reference is None or reference.name != artifact_of(name):
            return step
        data = self._artifacts.value(self._lease, reference, self._lease.task_id)
        return Step(name=name, output=Payload(data=data, encoding=reference.encoding))

    def record(self, step: Step) -> Step:
        """Record a step, once what was said is kept: no later run says it. A large result becomes an artifact.

        Args:
            step: The step.

        Returns:
            The step.

        Raises:
            TaskyardError: It is refused, or the server was unavailable for too long.
        """
        lease, kept = self._lease, step
        self._flush()
        if not self._takes(step.result.ByteSize() + step.output.ByteSize()):
            kept = Step()
            kept.CopyFrom(step)
            self._artifacts.replace(lease, artifact_of(step.name), kept)
        request = RecordStepRequest(
            host_id=lease.host_id,
            task_id=lease.task_id,
            fencing_token=lease.fencing_token,
            name=step.name,
            result=kept.result if kept.HasField("result") else None,
            output=kept.output if kept.HasField("output") else None,
            duration_ms=step.duration_ms,
        )
        try:
            self._artifacts.repeated(partial(_record, request))
        except BaseException:
            # It may be kept all the same: who takes the step again finds out first.
            with self._lock:
                self._kept = None
            raise
        with self._lock:
            if self._kept is not None:
                self._kept[WORK, step.name] = kept
        return step

    def _takes(self, size: int) -> bool:
        """Note a further result of this size, in bytes. False if it must be an artifact."""
        with self._lock:
            most = min(self._artifacts.max_payload_bytes, MAX_INLINE_BYTES, MAX_STEPS_BYTES - SPARE_BYTES - self._size)
            is_taken = size <= max(most, REFERENCE_BYTES)
            self._size += size if is_taken else REFERENCE_BYTES
            return is_taken

    def _fetched(self) -> dict[tuple[int, str], Step]:
        lease = self._lease
        request = FetchStepsRequest(host_id=lease.host_id, task_id=lease.task_id, fencing_token=lease.fencing_token)
        steps = self._artifacts.repeated(partial(_fetch, request)).steps
        self._size = sum(each.result.ByteSize() + each.output.ByteSize() for each in steps)
        # A server of an older version names no kind.
        return {(each.kind or WORK, each.name): each for each in steps}


def artifact_of(name: str) -> str:
    """Name the artifact that the result of a step becomes if it is too large.

    Args:
        name: The name of the step.

    Returns:
        The name of the artifact, which no other step has.
    """
    return f"step-{sha256(name.encode()).hexdigest()[:16]}.json"


def _record(request: RecordStepRequest, channel: grpc.Channel, sent: dict[str, Any]) -> RecordStepResponse:
    return StepServiceStub(channel).RecordStep(request, **sent)


def _fetch(request: FetchStepsRequest, channel: grpc.Channel, sent: dict[str, Any]) -> FetchStepsResponse:
    return StepServiceStub(channel).FetchSteps(request, **sent)
