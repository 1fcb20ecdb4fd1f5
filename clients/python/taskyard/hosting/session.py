"""The rules of the host stream: which leases a host holds, what runs and what it sends (docs/rules.md, Host stream).

There is no clock, no asyncio and no connection here: times are passed in, in seconds of a monotonic clock, messages
come in and messages go out. `host_run` carries them, and starts and stops the handlers as this module says.

The life of a lease: it is assigned; its handler is started; the handler returns; the final report is answered. The
handler of a task without a target is started once the `started` report is written. That of a task with a target is
started once the report is answered without an error, so that two tasks of a target never run at once, even if the
report is lost with its stream (docs/rules.md, Acknowledged starts). A lease occupies a slot until its handler has
returned, also if the lease is lost meanwhile.
"""

import logging
from collections.abc import Iterable, Mapping

from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.runtime_host_pb2 import (
    Cancellation,
    ConnectRequest,
    Credit,
    Heartbeat,
    HeartbeatAck,
    Machine,
    Report,
    ReportResults,
    Reports,
    RuntimeHost,
    TaskStarted,
    Welcome,
)
from taskyard.v1.task_pb2 import Error

from .held_lease import HandlerChanges, Lease
from .lease_table import LeaseTable, held_message
from .outbox import FINAL, LOST_CODES, STARTED, LeaseKey, Outbox, instead_of, key_of, kind_of, released
from .output_box import OutputBox
from .sent_heartbeats import SentHeartbeats

log = logging.getLogger("taskyard")


class Session:
    """The leases of one run of a host, over all of its streams.

    Attributes:
        draining: Whether the host takes no more tasks.
        is_stuck: Whether the host asks for no more tasks for now, since it could not start them.
        leases: The leases, lost ones too until nothing more is to be reported. Others only read it.
        output: The chunks that tasks say.

    Args:
        slots: How many tasks the host runs at once.
    """

    def __init__(self, slots: int) -> None:
        self.draining = False
        self.is_stuck = False
        self._slots = slots
        self.leases = LeaseTable()
        self._occupied: set[LeaseKey] = set()
        """The leases that occupy a slot."""
        self._outbox = Outbox()
        self.output = OutputBox(self._may_say)
        self._outbox.must_wait = self.output.holds
        self._credit = 0
        """How many more tasks the server may assign."""
        self._counts_accepted = False
        """True if the server counts accepted reports, and reads what comes with reports."""
        self._heartbeats = SentHeartbeats()
        self._renewed_at = 0.0
        """When the last answered heartbeat or Hello was sent. A new lease counts from here, not from its arrival, which
        may be long after the claim."""
        self._grace_secs = 0.0

    @property
    def active(self) -> int:
        """The number of tasks whose handlers run or are about to be started."""
        return len(self._occupied)

    @property
    def is_finished(self) -> bool:
        """True if nothing runs, and no report is pending or unanswered."""
        return not self.leases

    def running(self) -> list[LeaseKey]:
        """List the leases whose handlers were started and were not told to stop.

        Returns:
            The leases.
        """
        leases = (self.leases[key] for key in self._occupied if key in self.leases)
        return [lease.key for lease in leases if lease.assignment is None and not lease.is_lost]

    # The stream

    def handle_welcome(self, welcome: Welcome, sent_at: float) -> list[LeaseKey]:
        """Begin a stream. Leases that the server does not name as kept are lost.

        Args:
            welcome: The server's first message.
            sent_at: When the Hello was sent, in seconds.

        Returns:
            The leases whose handlers must stop.
        """
        self._renewed_at = sent_at
        self._grace_secs = welcome.reconnect_grace_ms / 1000
        self._counts_accepted = welcome.counts_accepted
        self._outbox.limit_messages(welcome.max_message_bytes)
        kept = {key_of(lease): lease for lease in welcome.kept}
        lost = []
        for key, lease in self.leases.items():
            if key in kept:
                lease.secs = kept[key].lease_secs
                lease.expires_at = sent_at + lease.secs
                self.leases.note(lease)
            else:
                lost.append(key)
        stop = self.lose(lost)
        self.output.welcome(welcome.output_bytes)
        return stop

    def handle_disconnect(self, now: float) -> None:
        """End a stream. Leases live on for the grace period, and unanswered reports become pending again.

        An assigned lease is forgotten: for the server it was never started, so it is assigned again. It is kept if
        its task has a target and the server may have seen the start: then its next Welcome decides.

        Args:
            now: The time in seconds.
        """
        for lease in list(self.leases.values()):
            lease.expires_at = min(lease.expires_at, now + self._grace_secs)
            self.leases.note(lease)
            if lease.assignment is not None and not (lease.needs_answer and lease.start_sent):
                self._occupied.discard(lease.key)
                self._forget(lease.key)
        self.output.disconnected()
        self._outbox.add_again(report for report in self._outbox.take_unanswered() if self.leases.wants_again(report))
        self._heartbeats.clear()
        self._credit = 0

    def expire_leases(self, now: float) -> list[LeaseKey]:
        """Lose the leases that were not renewed in time.

        Args:
            now: The time in seconds.

        Returns:
            The leases whose handlers must stop.
        """
        return self.lose(self.leases.overdue(now))

    # Messages of the server

    def handle_assignment(self, assignment: Assignment) -> None:
        """Report an assigned task as started, or give it back at once if the host drains.

        Args:
            assignment: The task and its lease.
        """
        key = key_of(assignment.lease)
        self._credit = max(0, self._credit - 1)
        if key in self.leases:
            return
        secs = assignment.lease.lease_secs
        lease = Lease(key, secs, self._renewed_at + secs, assignment)
        self.leases.note(lease)
        if self.draining:
            self._give_back(lease)
        else:
            self._occupied.add(key)
            self._outbox.add(Report(task_id=key[0], fencing_token=key[1], started=TaskStarted()))

    def handle_heartbeat_ack(self, ack: HeartbeatAck) -> list[LeaseKey]:
        """Renew the leases that a heartbeat listed, from when it was sent, except for those that are lost.

        Args:
            ack: The answer to a heartbeat.

        Returns:
            The leases whose handlers must stop.
        """
        heartbeat = self._heartbeats.take(ack.sequence)
        if heartbeat is None:
            return []
        self._renewed_at = heartbeat.sent_at
        stop = self.lose(map(key_of, ack.lost))
        for lease in filter(None, map(self.leases.get, heartbeat.listed)):
            lease.expires_at = max(lease.expires_at, heartbeat.sent_at + lease.secs)
        return stop

    def handle_accepted_reports(self, count: int) -> list[Assignment]:
        """Take the server's word that it has accepted the oldest unanswered reports.

        Call `expire_leases` before, so that no handler is started under a lease that is over.

        Args:
            count: How many.

        Returns:
            The handlers to start, of tasks with a target.
        """
        return [each for report in self._outbox.take_accepted(count) for each in self._handle_accepted(report)]

    def handle_report_results(self, results: ReportResults) -> HandlerChanges:
        """Take the results of the oldest unanswered reports: of a message, or of those that are refused.

        Call `expire_leases` before, so that no handler is started under a lease that is over.

        Args:
            results: One result for each of them.

        Returns:
            The handlers to start, of tasks with a target, and those that must stop.
        """
        start: list[Assignment] = []
        lost: list[LeaseKey] = []
        for report, result in self._outbox.take_answered(results.results):
            key = key_of(report)
            if not result.HasField("error"):
                start += self._handle_accepted(report)
            elif result.error.code not in LOST_CODES:
                self._handle_refusal(report, result.error)
            elif report.HasField("released"):
                # Nothing is left to report.
                self._forget(key)
            else:
                lost.append(key)
        return HandlerChanges(start, self.lose(lost))

    def handle_cancellation(self, cancellation: Cancellation) -> list[LeaseKey]:
        """Stop a task. It is reported as released once nothing runs, at once if nothing does.

        Args:
            cancellation: The server's message.

        Returns:
            The leases whose handlers must stop.
        """
        key = key_of(cancellation)
        stop = self.lose([key])
        if key not in self.leases:
            lease = self.leases[key] = Lease(key, 0.0, 0.0, None)
            lease.is_lost = True
            self._outbox.add(released(key))
        return stop

    def lose(self, keys: Iterable[LeaseKey]) -> list[LeaseKey]:
        """Lose leases that have ended at the server.

        Args:
            keys: The leases.

        Returns:
            Those whose handlers must stop: they run and have not been stopped yet.
        """
        stop = []
        for key in keys:
            self.output.drop(key)
            lease = self.leases.get(key)
            if lease is None or lease.is_lost:
                continue
            lease.is_lost = True
            if key not in self._occupied:
                # The outcome no longer counts, but the report that nothing runs may still free a target.
                final = self._outbox.pending(key, FINAL)
                if final is None or not final.HasField("released"):
                    self._forget(key)
            elif lease.assignment is not None:
                self._give_back(lease)
            else:
                self._outbox.discard(key)
                stop.append(key)
        return stop

    # Events of the host

    def report_progress(self, report: Report) -> None:
        """Report the progress of a handler. It replaces a report that is still pending.

        Args:
            report: The progress report.
        """
        lease = self.leases.get(key_of(report))
        if lease is not None and lease.key in self._occupied and not lease.is_lost:
            self._outbox.add(report)

    def handler_ended(self, key: LeaseKey, outcome: Report | None) -> None:
        """Free the slot of a handler that has returned, and report its outcome.

        Args:
            key: The lease.
            outcome: The final report, or None if the handler was stopped before it had an outcome.
        """
        self._occupied.discard(key)
        lease = self.leases.get(key)
        if lease is not None:
            self._outbox.add(released(key) if lease.is_lost or outcome is None else outcome)

    def drain(self) -> None:
        """Take no more tasks: give no credit, and give back the tasks whose handlers were not started."""
        self.draining = True
        for lease in self.leases.values():
            if lease.assignment is not None:
                self._give_back(lease)

    # Messages to the server

    def next_heartbeat(
        self, now: float, machine: Machine | None, tokens_used: Mapping[LeaseKey, int]
    ) -> ConnectRequest:
        """Build the heartbeat to send now. Reports that were refused for the time being become pending again.

        Args:
            now: The time in seconds.
            machine: The figures of the machine, or None to leave them out.
            tokens_used: The tokens that each handler has used so far, for those that have stated it.

        Returns:
            The message.
        """
        for report in self._outbox.take_deferred():
            if self.leases.wants_again(report):
                self._outbox.add(report)
        listed = self.leases.held()
        leases = [held_message(key, tokens_used.get(key)) for key in listed]
        heartbeat = Heartbeat(sequence=self._heartbeats.add(now, listed), leases=leases, machine=machine)
        if self.draining:
            heartbeat.status = RuntimeHost.STATUS_BUSY
        return ConnectRequest(heartbeat=heartbeat)

    def next_messages(self, heartbeat: ConnectRequest | None = None) -> list[ConnectRequest]:
        """Build the messages to write next: reports, credit for the free slots and output, as far as there is any.

        A server that counts accepted reports gets these and the credit in one message.

        Args:
            heartbeat: The heartbeat to write first, of `next_heartbeat`. Default none.

        Returns:
            The messages; none if there is nothing to write.
        """
        messages = self._next_reports(heartbeat)
        if (output := self.output.next_message(self._outbox.held)) is not None:
            messages.append(ConnectRequest(output=output))
        return messages

    def _next_reports(self, heartbeat: ConnectRequest | None) -> list[ConnectRequest]:
        messages = [] if heartbeat is None else [heartbeat]
        reports = self._outbox.next_message()
        for report in reports:
            if report.HasField("started") and (lease := self.leases.get(key_of(report))) is not None:
                lease.start_sent = True
        if reports:
            messages.append(ConnectRequest(reports=Reports(reports=reports)))
        # Credit follows the reports that freed its slots, and waits for one message of reports only.
        taken = len(self._occupied) + len(self._outbox.held) + self._credit
        free = 0 if self.draining or self.is_stuck else self._slots - taken
        if free > 0:
            self._credit += free
            if reports and self._counts_accepted:
                messages[-1].reports.credit = free
            else:
                messages.append(ConnectRequest(credit=Credit(count=free)))
        if reports and heartbeat is not None and self._counts_accepted:
            size = heartbeat.ByteSize() + messages[1].ByteSize()
            if self._outbox.has_room(size):
                messages[1].reports.heartbeat.CopyFrom(heartbeat.heartbeat)
                del messages[0]
        return messages

    def message_written(self, message: ConnectRequest) -> list[Assignment]:
        """Note that a message is on its way to the server.

        Call `expire_leases` before, so that no handler is started under a lease that is over.

        Args:
            message: A message of `next_messages`.

        Returns:
            The handlers to start, of tasks without a target.
        """
        start = []
        for report in message.reports.reports:
            lease = self.leases.get(key_of(report))
            if report.HasField("started") and lease is not None and not lease.needs_answer:
                start += self._start(lease.key)
        return start

    @property
    def heartbeats_may_ride(self) -> bool:
        """True if there are reports to send, and a heartbeat may come with them."""
        return self._counts_accepted and self._outbox.has_pending

    # Internals

    def _handle_accepted(self, report: Report) -> list[Assignment]:
        """Note an accepted report. Returns the handler to start, of a task with a target."""
        key, kind = key_of(report), kind_of(report)
        if kind == FINAL:
            self._forget(key)
        return self._start(key) if kind == STARTED else []

    def _start(self, key: LeaseKey) -> list[Assignment]:
        """The handler to start, none if it was started before, or its task was cancelled or given back meanwhile."""
        if (lease := self.leases.get(key)) is None or lease.assignment is None:
            return []
        assignment, lease.assignment = lease.assignment, None
        lease.has_started = True
        return [assignment]

    def _may_say(self, key: LeaseKey) -> bool:
        """True if what a handler says under a lease is worth sending."""
        return key in self._occupied and (lease := self.leases.get(key)) is not None and not lease.is_lost

    def _forget(self, key: LeaseKey) -> None:
        self.leases.pop(key, None)
        self.output.drop(key)
        self._outbox.discard(key)

    def _give_back(self, lease: Lease) -> None:
        """Release a lease whose handler was not started and will not be."""
        self._occupied.discard(lease.key)
        lease.assignment = None
        self._outbox.discard(lease.key)
        self._outbox.add(released(lease.key))

    def _handle_refusal(self, report: Report, error: Error) -> None:
        """Handle an error of a report, other than that its lease has ended.

        A lease must not wait forever for a report that the server does not accept.
        """
        if (lease := self.leases.get(key_of(report))) is None or (lease.is_lost and not report.HasField("released")):
            return
        event = report.WhichOneof("event")
        log.warning("task %s: %s report refused as %s: %s", report.task_id, event, error.code, error.error)
        is_awaited = event == "started" and lease.assignment is not None
        if kind_of(report) != FINAL and not is_awaited:
            return
        if error.retryable:
            self._outbox.defer(report)
        elif is_awaited:
            self._give_back(lease)
        elif (instead := instead_of(report, error)) is not None:
            self._outbox.add(instead)
        else:
            self._forget(lease.key)
