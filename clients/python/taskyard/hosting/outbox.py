"""The reports of a host: which are pending, which are sent and unanswered, and which are sent again.

It packs reports into messages that the server accepts. It does not know leases; `session` decides what is reported.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from taskyard.v1.lease_pb2 import Lease
from taskyard.v1.output_pb2 import OutputAck
from taskyard.v1.runtime_host_pb2 import Cancellation, HeldLease, Report, ReportResult, TaskFailed, TaskReleased
from taskyard.v1.task_pb2 import Error

log = logging.getLogger("taskyard")

LeaseKey: TypeAlias = tuple[str, int]
"""A lease: the id of its task, and its fencing token."""

DEFAULT_MESSAGE_BYTES: Final = 4 * 1024 * 1024
ENVELOPE_BYTES: Final = 32
"""Upper bound of what a message adds to its reports, and what it adds to each report."""
STARTED: Final = "started"
PROGRESS: Final = "progress"
FINAL: Final = "final"
KINDS: Final = (STARTED, PROGRESS, FINAL)
"""A lease has at most one pending report of each kind. They are sent in this order."""
REPLACED: Final = {"completed": "result", "parked": "park"}
"""The final reports that become a failure if the server does not accept them, and what they are called then."""
LOST_CODES: Final = frozenset({"lease_lost", "not_found"})
"""The errors of what is said under a lease that has ended."""


class Outbox:
    """Reports by lease, from when they are added until the server has answered them.

    Attributes:
        must_wait: Says whether the final report of a lease must not be sent yet. Default none must.
        held: The final reports that wait for this, by lease. Others only read it.
    """

    def __init__(self) -> None:
        self.must_wait: Callable[[LeaseKey], bool] = lambda _: False
        self.held: dict[LeaseKey, Report] = {}
        self._max_bytes = DEFAULT_MESSAGE_BYTES
        self._pending: dict[LeaseKey, dict[str, Report]] = {}
        """In the order in which the leases got their first pending report."""
        self._unanswered: deque[Report] = deque()
        """Messages that were sent, oldest first. The server answers in this order."""
        self._deferred: list[Report] = []
        """Reports that were refused for the time being."""

    @property
    def has_pending(self) -> bool:
        """True if there are reports to send."""
        return bool(self._pending)

    def has_room(self, message_bytes: int) -> bool:
        """Say whether a message is as small as the server accepts.

        Args:
            message_bytes: Its size in bytes.

        Returns:
            Whether it is.
        """
        return message_bytes <= self._max_bytes

    def limit_messages(self, max_bytes: int) -> None:
        """Set the largest message that the server accepts.

        Args:
            max_bytes: The limit in bytes, or 0 for the documented default of 4 MiB.
        """
        self._max_bytes = (max_bytes or DEFAULT_MESSAGE_BYTES) - ENVELOPE_BYTES

    def add(self, report: Report) -> None:
        """Add a report. It replaces a pending one of the same kind and lease.

        Args:
            report: The report to send.
        """
        key, kind = key_of(report), kind_of(report)
        if kind == FINAL and self.must_wait(key):
            self.held[key] = report
        else:
            self._pending.setdefault(key, {})[kind] = report

    def pending(self, key: LeaseKey, kind: str) -> Report | None:
        """Look up a pending report.

        Args:
            key: The lease.
            kind: One of `KINDS`.

        Returns:
            The report, or None if there is none.
        """
        found = self._pending.get(key, {}).get(kind)
        return self.held.get(key) if found is None and kind == FINAL else found

    def discard(self, key: LeaseKey) -> None:
        """Drop the pending reports of a lease.

        Args:
            key: The lease.
        """
        self._pending.pop(key, None)
        self.held.pop(key, None)

    def defer(self, report: Report) -> None:
        """Keep a report that was refused for the time being, until `take_deferred`.

        Args:
            report: The report to send later.
        """
        self._deferred.append(report)

    def take_deferred(self) -> list[Report]:
        """Take out the deferred reports.

        Returns:
            The reports, in the order in which they were refused.
        """
        deferred, self._deferred = self._deferred, []
        return deferred

    def next_message(self) -> list[Report]:
        """Take the reports of the next message: as many as fit, those of one lease in the order of `KINDS`.

        Returns:
            The reports, which now wait for their answer. Empty if none are pending.
        """
        for key in [key for key in self.held if not self.must_wait(key)]:
            self.add(self.held.pop(key))
        message: list[Report] = []
        size = 0
        while self._pending:
            key = next(iter(self._pending))
            reports = self._pending[key]
            for kind in KINDS:
                report = self._fitted(reports, kind)
                if report is None:
                    continue
                size += report.ByteSize() + ENVELOPE_BYTES
                if message and size > self._max_bytes:
                    self._unanswered.extend(message)
                    return message
                message.append(reports.pop(kind))
            del self._pending[key]
        self._unanswered.extend(message)
        return message

    def take_accepted(self, count: int) -> list[Report]:
        """Match a count of accepted reports with the oldest unanswered ones.

        Args:
            count: How many more the server has accepted.

        Returns:
            The reports, oldest first. Fewer if fewer wait for an answer.
        """
        return [self._unanswered.popleft() for _ in range(min(count, len(self._unanswered)))]

    def take_answered(self, results: Sequence[ReportResult]) -> list[tuple[Report, ReportResult]]:
        """Match results of the server with the oldest unanswered reports.

        Args:
            results: One result for each report.

        Returns:
            The reports with their results. Fewer if fewer wait for an answer.
        """
        return list(zip(self.take_accepted(len(results)), results, strict=False))

    def take_unanswered(self) -> list[Report]:
        """Take out all unanswered reports, since the stream on which they were sent is gone.

        Returns:
            The reports, oldest first.
        """
        return self.take_accepted(len(self._unanswered))

    def add_again(self, reports: Iterable[Report]) -> None:
        """Make sent reports pending again, before all others. A report that was added since is newer and stays.

        Args:
            reports: The reports, oldest first.
        """
        newer, self._pending = self._pending, {}
        held, self.held = self.held, {}
        for report in (*reports, *(each for kinds in newer.values() for each in kinds.values()), *held.values()):
            self.add(report)

    def _fitted(self, reports: dict[str, Report], kind: str) -> Report | None:
        """The pending report of a kind. One that fits no message is dropped, or becomes a failure if it is final."""
        report = reports.get(kind)
        if report is None or report.ByteSize() + ENVELOPE_BYTES <= self._max_bytes:
            return report
        if kind != FINAL:
            log.warning("task %s: its progress is too large to be reported", report.task_id)
            del reports[kind]
            return None
        reason = f"result of {report.ByteSize():,} bytes does not fit a message to the server"
        reports[kind] = failure_instead_of(report, reason, "too_large")
        return reports[kind]


def key_of(message: Report | Lease | HeldLease | Cancellation | OutputAck) -> LeaseKey:
    """Name the lease of a message.

    Args:
        message: A report, or what the server sends of a lease.

    Returns:
        The lease. Its fencing token, a whole number that travels as a double, is an integer.
    """
    return message.task_id, int(message.fencing_token)


def kind_of(report: Report) -> str:
    """Classify a report.

    Args:
        report: The report.

    Returns:
        One of `KINDS`.
    """
    event = report.WhichOneof("event") or ""
    return event if event in KINDS else FINAL


def released(key: LeaseKey) -> Report:
    """Build the report that nothing runs under a lease.

    Args:
        key: The lease.

    Returns:
        The report.
    """
    return Report(task_id=key[0], fencing_token=key[1], released=TaskReleased())


def instead_of(report: Report, error: Error) -> Report | None:
    """Build what is reported instead of a final report that the server does not accept.

    Args:
        report: The report.
        error: The error.

    Returns:
        The failure of a task that was to be done or parked, the release of one that was to fail; else None.
    """
    event = report.WhichOneof("event") or ""
    if event in REPLACED:
        return failure_instead_of(report, f"{REPLACED[event]} refused: {error.error}", error.code)
    return released(key_of(report)) if event == "failed" else None


def failure_instead_of(report: Report, reason: str, code: str) -> Report:
    """Build the failure that replaces an outcome which the server does not accept.

    It is final, since another attempt would have the same outcome.

    Args:
        report: The outcome.
        reason: The error text of the failure.
        code: The error code of the failure.

    Returns:
        The report of the failure.
    """
    return Report(
        task_id=report.task_id,
        fencing_token=report.fencing_token,
        failed=TaskFailed(error=reason, retryable=False, code=code),
    )
