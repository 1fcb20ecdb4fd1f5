"""Acknowledges the reports of a stream, by the result of each, or the count of the accepted and the others' results.

Which of them a host gets its Welcome says. The second way costs nothing for a report that is accepted. Output is
acknowledged lease by lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from taskyard.v1 import output_pb2
from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.conversion.responses import error_message
from taskyard_server.conversion.task_encoding import encode_reported
from taskyard_server.conversion.wire import add_double, add_text, add_varint, nested, tag
from taskyard_server.core.errors import Refusal
from taskyard_server.core.task import TaskState
from taskyard_server.interceptors.errors import message_of

MAX_RESULTS_BYTES: Final = 3_500_000
"""Larger results do not go into one message, since the host might reject it."""

REPORT_RESULTS: Final = tag(pb.ConnectResponse, "report_results")
RESULT: Final = tag(pb.ReportResults, "results")
OUTPUT_ACKS: Final = tag(pb.ConnectResponse, "output_acks")
OUTPUT_ACK: Final = tag(output_pb2.OutputAcks, "acks")
TASK_ID: Final = tag(output_pb2.OutputAck, "task_id")
FENCING_TOKEN: Final = tag(output_pb2.OutputAck, "fencing_token")
TAKEN: Final = tag(output_pb2.OutputAck, "taken")

RUNNING: Final = TaskState.RUNNING


class ReportAck(NamedTuple):
    """The acknowledgement of a message of reports, in order: numbers of accepted reports, and encoded messages.

    It `is_awaited` if it accepts a start: a task with a target begins only then.
    """

    parts: list[int | bytes]
    is_awaited: bool = False


Refused: TypeAlias = Callable[[int, Refusal], pb.ReportResult]
"""Makes the result of a refused report, by its index in its message."""


class ReportAckBuilder(Protocol):
    """Gathers the acknowledgement of one message of reports."""

    def add(self, outcomes: Iterable[TaskState | Refusal]) -> None:
        """Add the outcomes of its next reports."""

    def ack(self) -> ReportAck:
        """The acknowledgement of them all."""


class ResultOfEach:
    """One message with the result of every report."""

    def __init__(self, refused: Refused) -> None:
        self._refused = refused
        self._results: list[bytes] = []
        self._refusals: dict[int, pb.ReportResult] = {}

    def add(self, outcomes: Iterable[TaskState | Refusal]) -> None:
        """Add the outcomes of the next reports."""
        results = self._results
        for outcome in outcomes:
            if isinstance(outcome, Refusal):
                index = len(results)
                result = self._refusals[index] = self._refused(index, outcome)
                results.append(nested(RESULT, result.SerializeToString()))
            else:
                results.append(encode_reported(outcome))

    def ack(self) -> ReportAck:
        """The one message. If it would be too large it has no error texts."""
        if sum(map(len, self._results)) > MAX_RESULTS_BYTES:
            for index, result in self._refusals.items():
                result.error.ClearField("error")
                self._results[index] = nested(RESULT, result.SerializeToString())
        return ReportAck([nested(REPORT_RESULTS, b"".join(self._results))])


class CountOfAccepted:
    """Counts of accepted reports, and messages with the results of those that are refused in between."""

    def __init__(self, refused: Refused) -> None:
        self._refused = refused
        self._index = self._accepted = self._size = 0
        self._results: list[bytes] = []
        self._parts: list[int | bytes] = []
        self._is_awaited = False

    def add(self, outcomes: Iterable[TaskState | Refusal]) -> None:
        """Add the outcomes of the next reports."""
        for outcome in outcomes:
            if isinstance(outcome, Refusal):
                self._add_result(nested(RESULT, self._refused(self._index, outcome).SerializeToString()))
            else:
                if self._results:
                    self._end_results()
                self._accepted += 1
                if outcome == RUNNING:
                    self._is_awaited = True
            self._index += 1

    def ack(self) -> ReportAck:
        """Counts and messages, in the order of the reports."""
        self._end_count()
        self._end_results()
        return ReportAck(self._parts, self._is_awaited)

    def _add_result(self, result: bytes) -> None:
        self._end_count()
        self._size += len(result)
        if self._size > MAX_RESULTS_BYTES:
            self._end_results()
            self._size = len(result)
        self._results.append(result)

    def _end_count(self) -> None:
        if self._accepted:
            self._parts.append(self._accepted)
            self._accepted = 0

    def _end_results(self) -> None:
        if self._results:
            self._parts.append(nested(REPORT_RESULTS, b"".join(self._results)))
            self._results = []
            self._size = 0


def output_ack(leases: Sequence[output_pb2.LeaseOutput], outcomes: Sequence[int | Refusal]) -> ReportAck:
    """The acknowledgement of a message of output: of each lease how many chunks are taken, or why no more are."""
    acks: list[bytes] = []
    for said, outcome in zip(leases, outcomes, strict=True):
        if isinstance(outcome, Refusal):
            ack = output_pb2.OutputAck(task_id=said.task_id, fencing_token=said.fencing_token)
            ack.error.CopyFrom(error_message(outcome))
            ack.error.error = message_of(outcome)
            acks.append(nested(OUTPUT_ACK, ack.SerializeToString()))
        else:
            parts: list[bytes] = []
            add_text(parts, TASK_ID, said.task_id)
            add_double(parts, FENCING_TOKEN, said.fencing_token)
            parts.append(TAKEN)
            add_varint(parts, outcome)
            acks.append(nested(OUTPUT_ACK, b"".join(parts)))
    return ReportAck([nested(OUTPUT_ACKS, b"".join(acks))])
