"""A session without a stream, and the moves of its server and its handlers in short form."""

from __future__ import annotations

from typing import Any

from taskyard.hosting.session import Session
from taskyard.v1.lease_pb2 import Assignment, Lease
from taskyard.v1.output_pb2 import NewChunk, OutputAck
from taskyard.v1.runtime_host_pb2 import (
    Cancellation,
    ConnectRequest,
    HeartbeatAck,
    HeldLease,
    Machine,
    Report,
    ReportResult,
    ReportResults,
    TaskCompleted,
    Welcome,
)
from taskyard.v1.task_pb2 import Error, Task

Key = tuple[str, int]
A, B, C = ("a", 1), ("b", 1), ("c", 1)


class SessionDriver:
    """Drives a session on a stream that was welcomed at 0 s. Leases are of 60 s, the grace period is 5 s.

    `started` are the ids of the tasks whose handlers the last move started.
    """

    def __init__(self, slots: int = 10, **welcome: Any) -> None:
        self.session = Session(slots)
        self.started: list[str] = []
        self.sequence = 0
        self.freed = 0
        self.session.output.on_freed = self._free
        self.welcome(**welcome)

    # The server

    def welcome(self, *kept: Key, at: float = 0.0, **fields: Any) -> list[Key]:
        """Begin a stream on which these leases are kept. Returns those whose handlers must stop."""
        leases = [Lease(task_id=task, fencing_token=token, lease_secs=60) for task, token in kept]
        message = Welcome(**{"lease_secs": 60, "reconnect_grace_ms": 5_000, "kept": leases, **fields})
        return self.session.handle_welcome(message, at)

    def assign(self, *keys: Key, target: str | None = None) -> None:
        for task, token in keys:
            lease = Lease(task_id=task, fencing_token=token, lease_secs=60)
            self.session.handle_assignment(Assignment(lease=lease, task=Task(task_id=task, target=target)))

    def answer(self, *codes: str | None, retryable: bool = False) -> list[Key]:
        """Answer a message of reports: None for each that is accepted. Returns the leases whose handlers must stop."""
        results = [
            ReportResult(error=None if code is None else Error(code=code, error="for a reason", retryable=retryable))
            for code in codes
        ]
        changes = self.session.handle_report_results(ReportResults(results=results))
        self.started = [assignment.task.task_id for assignment in changes.start]
        return changes.stop

    def accept(self, count: int) -> None:
        """Count accepted reports."""
        self.started = [assignment.task.task_id for assignment in self.session.handle_accepted_reports(count)]

    def acknowledge(self, *lost: Key, sequence: int | None = None) -> list[Key]:
        """Answer the last heartbeat, or another one. Returns the leases whose handlers must stop."""
        leases = [HeldLease(task_id=task, fencing_token=token) for task, token in lost]
        return self.session.handle_heartbeat_ack(HeartbeatAck(sequence=sequence or self.sequence, lost=leases))

    def cancel(self, key: Key) -> list[Key]:
        return self.session.handle_cancellation(Cancellation(task_id=key[0], fencing_token=key[1]))

    def keep(self, key: Key, taken: int = 0, code: str | None = None) -> list[Key]:
        """Answer output of a lease: so much is kept, or why no more is. Returns the leases whose handlers must stop."""
        ack = OutputAck(task_id=key[0], fencing_token=key[1], taken=taken)
        if code is not None:
            ack.error.code = code
        return self.session.lose(self.session.output.handle_acks([ack]))

    # The host

    def say(self, key: Key, *texts: str) -> None:
        """Say chunks, each as large as its text."""
        for text in texts:
            self.session.output.add(key, NewChunk(text=text), len(text))

    def write(self) -> list[str]:
        """Write what is due. Returns it in short form, such as `a started`, `credit 3` and `a says 1: x y`."""
        return [text for message in self.messages() for text in message]

    def messages(self, heartbeat: bool = False, machine: Machine | None = None) -> list[list[str]]:
        """Write what is due, with a heartbeat if one is. Returns each message in short form."""
        self.started = []
        beat = self.session.next_heartbeat(0.0, machine, {}) if heartbeat else None
        return [self._written(message) for message in self.session.next_messages(beat)]

    def _written(self, message: ConnectRequest) -> list[str]:
        self.started += [assignment.task.task_id for assignment in self.session.message_written(message)]
        written = [f"{report.task_id} {report.WhichOneof('event')}" for report in message.reports.reports]
        written += [
            f"{said.task_id} says {said.number}: {' '.join(chunk.text for chunk in said.chunks)}"
            for said in message.output.leases
        ]
        if credit := message.credit.count or message.reports.credit:
            written.append(f"credit {credit}")
        if message.HasField("heartbeat") or message.reports.HasField("heartbeat"):
            heartbeat = message.heartbeat if message.HasField("heartbeat") else message.reports.heartbeat
            self.sequence = heartbeat.sequence
            written.append(f"heartbeat {' '.join(lease.task_id for lease in heartbeat.leases)}".strip())
        return written

    def _free(self, _: Key, size: int) -> None:
        self.freed += size

    def start(self, *keys: Key) -> None:
        """Assign tasks, report them as started, and accept the reports."""
        self.assign(*keys)
        self.write()
        self.answer(*[None] * len(keys))

    def end(self, *keys: Key) -> None:
        """Have handlers return."""
        for key in keys:
            self.session.handler_ended(key, report(key, completed=TaskCompleted()))

    def heartbeat(self, now: float = 0.0, tokens_used: dict[Key, int] | None = None) -> list[Key]:
        """Send a heartbeat. Returns the leases that it lists."""
        heartbeat = self.session.next_heartbeat(now, None, tokens_used or {}).heartbeat
        self.sequence = heartbeat.sequence
        return [(lease.task_id, lease.fencing_token) for lease in heartbeat.leases]

    def held(self) -> list[Key]:
        return self.session.leases.held()


def report(key: Key, **event: Any) -> Report:
    return Report(task_id=key[0], fencing_token=key[1], **event)
