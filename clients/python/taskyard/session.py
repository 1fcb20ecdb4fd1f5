"""What a host holds and what it has to say next: the rules of the host stream (DESIGN, The host stream).

No clock, no asyncio, no connection: `now` is passed in, in seconds of a clock that never jumps, messages come in and
messages go out. `Host` carries them, and runs and stops the handlers as it is told here.

A lease goes this way: handed out; begun, once its `started` report was written; ended, when its handler has returned;
gone, when its last report was answered. Its slot is taken from the hand-out until its handler has returned, also where
the lease is lost meanwhile.
"""

import logging
from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias

from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.runtime_host_pb2 import (
    Cancellation,
    ConnectRequest,
    Credit,
    Heartbeat,
    HeartbeatAck,
    HeldLease,
    Machine,
    Report,
    ReportResults,
    Reports,
    RuntimeHost,
    TaskFailed,
    TaskReleased,
    TaskStarted,
    Welcome,
)
from taskyard.v1.task_pb2 import Error

log = logging.getLogger("taskyard")

Key: TypeAlias = tuple[str, int]
"""A lease: the id of its task, and its fencing token."""

DEFAULT_MESSAGE_BYTES: Final = 4 * 1024 * 1024
ENVELOPE_BYTES: Final = 32
"""What a message adds to its reports at most, and a report to its own fields."""
ORDER: Final = ("started", "progress", "final")
"""The reports of a lease, of which it has one each at a time, in the order in which they are said."""


class _Lease:
    """One lease, as its host sees it.

    `ends_at` is when it is over unless it is renewed. `waiting` is what its handler is to begin with, None once it has
    begun or never will. `lost` says that the lease has ended for the server or by its time. `unsaid` are the reports
    that are not yet on the stream.
    """

    __slots__ = ("ends_at", "key", "lost", "secs", "unsaid", "waiting")

    def __init__(self, key: Key, secs: float, ends_at: float, waiting: Assignment | None) -> None:
        self.key = key
        self.secs = secs
        self.ends_at = ends_at
        self.waiting = waiting
        self.lost = False
        self.unsaid: dict[str, Report] = {}


class Session:
    """The leases of a host of so many slots, over all streams of one start of it."""

    def __init__(self, slots: int) -> None:
        self.draining = False
        self._slots = slots
        self._leases: dict[Key, _Lease] = {}
        self._busy: set[Key] = set()
        """The leases that take a slot."""
        self._to_say: dict[Key, None] = {}
        """The leases with unsaid reports, in the order in which they got them."""
        self._unanswered: deque[list[Report]] = deque()
        self._refused_for_now: list[Report] = []
        self._credit = 0
        """How many tasks the server may still hand out."""
        self._sequence = 0
        self._beats: deque[tuple[int, float, list[Key]]] = deque()
        """The heartbeats without an answer: sequence, when it was sent, what it renews."""
        self._counts_from = 0.0
        """When the last answered heartbeat or Hello was sent. A lease handed out since counts from here: not from when
        it arrived, which may be long after the claim."""
        self._grace_secs = 0.0
        self._most_bytes = DEFAULT_MESSAGE_BYTES

    # What others ask

    @property
    def active(self) -> int:
        """Tasks whose handlers have not returned, or are about to begin."""
        return len(self._busy)

    @property
    def holds_leases(self) -> bool:
        """Whether there are leases that the host has not lost."""
        return any(not lease.lost for lease in self._leases.values())

    @property
    def is_finished(self) -> bool:
        """Whether nothing runs and nothing waits to be said or answered."""
        return not self._leases

    # A stream's life. Methods that answer keys answer those whose handlers are to be stopped.

    def held(self) -> list[HeldLease]:
        """The leases that a Hello lists: all that are not lost, ended ones too until their report was answered."""
        return [_held(lease.key) for lease in self._leases.values() if not lease.lost]

    def welcomed(self, welcome: Welcome, sent_at: float) -> list[Key]:
        """A stream begins, whose Hello was sent at `sent_at`. What it does not name as kept is lost."""
        self._counts_from = sent_at
        self._grace_secs = welcome.reconnect_grace_ms / 1000
        self._most_bytes = (welcome.max_message_bytes or DEFAULT_MESSAGE_BYTES) - ENVELOPE_BYTES
        kept = {(lease.task_id, lease.fencing_token): lease for lease in welcome.kept}
        gone = []
        for key, lease in self._leases.items():
            if key in kept:
                lease.secs = kept[key].lease_secs
                lease.ends_at = sent_at + lease.secs
            else:
                gone.append(key)
        stop = self._lose(gone)
        self._to_say = {key: None for key, lease in self._leases.items() if lease.unsaid}
        return stop

    def broken(self, now: float) -> None:
        """The stream is gone: leases live on for the grace only, what had no answer is to be said again."""
        for report in (report for reports in self._unanswered for report in reports):
            lease = self._leases.get(_key(report))
            if lease is not None:
                # What was to be said since is newer.
                lease.unsaid.setdefault(_place(report), report)
        for lease in list(self._leases.values()):
            lease.ends_at = min(lease.ends_at, now + self._grace_secs)
            if lease.waiting is not None:
                # For the server it was never started, so it goes to whoever has room.
                self._busy.discard(lease.key)
                self._forget(lease.key)
        self._to_say.clear()
        self._unanswered.clear()
        self._beats.clear()
        self._credit = 0

    def expired(self, now: float) -> list[Key]:
        """Time has come to `now`: leases that were not renewed are lost."""
        over = [lease.key for lease in self._leases.values() if lease.ends_at <= now and not lease.lost]
        if over:
            log.warning("%d leases ended, since the server could not be reached to renew them", len(over))
        return self._lose(over)

    # What the server says

    def assigned(self, assignment: Assignment) -> None:
        """A task was handed out: it is reported as started, or given back at once if the host drains."""
        key = (assignment.lease.task_id, assignment.lease.fencing_token)
        self._credit = max(0, self._credit - 1)
        if key in self._leases:
            return
        secs = assignment.lease.lease_secs
        lease = self._leases[key] = _Lease(key, secs, self._counts_from + secs, assignment)
        if self.draining:
            self._give_back(lease)
        else:
            self._busy.add(key)
            self._say(lease, Report(task_id=key[0], fencing_token=key[1], started=TaskStarted()))

    def acknowledged(self, ack: HeartbeatAck) -> list[Key]:
        """A heartbeat was answered: what it listed is renewed from when it was sent, except for what is lost."""
        stop: list[Key] = []
        while self._beats and self._beats[0][0] <= ack.sequence:
            sequence, sent_at, listed = self._beats.popleft()
            if sequence == ack.sequence:
                self._counts_from = sent_at
                stop = self._lose((lost.task_id, lost.fencing_token) for lost in ack.lost)
                for lease in filter(None, map(self._leases.get, listed)):
                    lease.ends_at = max(lease.ends_at, sent_at + lease.secs)
        return stop

    def answered(self, results: ReportResults) -> list[Key]:
        """The oldest unanswered message of reports was answered."""
        gone = []
        asked = self._unanswered.popleft() if self._unanswered else []
        for report, result in zip(asked, results.results, strict=False):
            key = _key(report)
            if result.HasField("error"):
                if result.error.code not in ("lease_lost", "not_found"):
                    self._refused(report, result.error)
                elif report.HasField("released"):
                    # There is nothing left to say of it.
                    self._forget(key)
                else:
                    gone.append(key)
            elif _place(report) == "final":
                self._forget(key)
        return self._lose(gone)

    def cancelled(self, cancellation: Cancellation) -> list[Key]:
        """The server wants a task stopped. It is told `released` once nothing runs, or now if nothing does."""
        key = (cancellation.task_id, cancellation.fencing_token)
        stop = self._lose([key])
        if key not in self._leases:
            lease = self._leases[key] = _Lease(key, 0.0, 0.0, None)
            lease.lost = True
            self._say(lease, _released(key))
        return stop

    def deregistered(self) -> list[Key]:
        """The server has ended all leases."""
        return self._lose(list(self._leases))

    # What the host says

    def progressed(self, report: Report) -> None:
        """A handler reports its progress; it takes the place of an earlier word that is not yet on the stream."""
        lease = self._leases.get(_key(report))
        if lease is not None and lease.key in self._busy and not lease.lost:
            self._say(lease, report)

    def ended(self, key: Key, final: Report | None) -> None:
        """A handler has returned, with its outcome; None if it was stopped before it had one."""
        self._busy.discard(key)
        lease = self._leases.get(key)
        if lease is not None:
            self._say(lease, _released(key) if lease.lost or final is None else final)

    def drain(self) -> None:
        """Take no more: no credit is given, and what has not begun is given back."""
        self.draining = True
        for lease in self._leases.values():
            if lease.waiting is not None:
                self._give_back(lease)

    def heartbeat(self, now: float, machine: Machine | None) -> ConnectRequest:
        """The heartbeat to send now. What was refused for the time being is said again after it."""
        for report in self._refused_for_now:
            lease = self._leases.get(_key(report))
            if lease is not None and (not lease.lost or report.HasField("released")):
                self._say(lease, report)
        self._refused_for_now.clear()
        self._sequence += 1
        listed = [lease.key for lease in self._leases.values() if not lease.lost]
        self._beats.append((self._sequence, now, listed))
        beat = Heartbeat(sequence=self._sequence, leases=map(_held, listed), machine=machine)
        if self.draining:
            beat.status = RuntimeHost.STATUS_BUSY
        return ConnectRequest(heartbeat=beat)

    def turn(self) -> list[ConnectRequest]:
        """The messages to write next: a batch of reports, then credit for the slots that are free, if there are any.

        Credit follows the reports that freed its slots, and one batch does not hold it back for the next.
        """
        messages = []
        if self._to_say and (reports := self._next_reports()):
            self._unanswered.append(reports)
            messages.append(ConnectRequest(reports=Reports(reports=reports)))
        free = 0 if self.draining else self._slots - len(self._busy) - self._credit
        if free > 0:
            self._credit += free
            messages.append(ConnectRequest(credit=Credit(count=free)))
        return messages

    def written(self, message: ConnectRequest) -> list[Assignment]:
        """A message is on its way to the server. Answers the tasks whose handlers begin now."""
        begin = []
        for report in message.reports.reports:
            lease = self._leases.get(_key(report))
            # Nothing waits any more if it was cancelled or given back while the message was written.
            if report.HasField("started") and lease is not None and lease.waiting is not None:
                begin.append(lease.waiting)
                lease.waiting = None
        return begin

    # Within

    def _say(self, lease: _Lease, report: Report) -> None:
        lease.unsaid[_place(report)] = report
        self._to_say.setdefault(lease.key)

    def _lose(self, keys: Iterable[Key]) -> list[Key]:
        """These leases have ended. Answers those whose handlers run and did not know."""
        stop = []
        for key in keys:
            lease = self._leases.get(key)
            if lease is None or lease.lost:
                continue
            lease.lost = True
            final = lease.unsaid.get("final")
            if key not in self._busy:
                # An outcome is nobody's business any more, but that nothing runs may still free a target.
                if final is None or not final.HasField("released"):
                    self._forget(key)
            elif lease.waiting is not None:
                self._give_back(lease)
            else:
                lease.unsaid.clear()
                stop.append(key)
        return stop

    def _forget(self, key: Key) -> None:
        self._leases.pop(key, None)
        self._to_say.pop(key, None)

    def _give_back(self, lease: _Lease) -> None:
        """Nothing will run for this lease, which had not begun."""
        self._busy.discard(lease.key)
        lease.waiting = None
        lease.unsaid.clear()
        self._say(lease, _released(lease.key))

    def _refused(self, report: Report, error: Error) -> None:
        """A report was not taken, though its lease lives, or is lost and has only to be released.

        It must end somehow, or it would keep its task for ever.
        """
        lease = self._leases.get(_key(report))
        if lease is None or (lease.lost and not report.HasField("released")):
            return
        what = report.WhichOneof("event")
        log.warning("task %s: %s report refused as %s: %s", report.task_id, what, error.code, error.error)
        if _place(report) != "final":
            return
        if error.retryable:
            self._refused_for_now.append(report)
        elif what == "completed":
            self._say(lease, _failed(report, f"result refused: {error.error}", error.code))
        elif what == "failed":
            self._say(lease, _released(lease.key))
        else:
            self._forget(lease.key)

    def _next_reports(self) -> list[Report]:
        """The reports of the next message, as many as fit; those of one lease in their order."""
        reports: list[Report] = []
        size = 0
        while self._to_say:
            key = next(iter(self._to_say))
            lease = self._leases[key]
            for place in ORDER:
                report = lease.unsaid.get(place)
                if report is None:
                    continue
                if report.ByteSize() + ENVELOPE_BYTES > self._most_bytes:
                    del lease.unsaid[place]
                    if place != "final":
                        log.warning("task %s: its progress is too large to be reported", key[0])
                        continue
                    reason = f"result of {report.ByteSize():,} bytes does not fit a message to the server"
                    report = lease.unsaid[place] = _failed(report, reason, "too_large")
                size += report.ByteSize() + ENVELOPE_BYTES
                if reports and size > self._most_bytes:
                    return reports
                reports.append(lease.unsaid.pop(place))
            del self._to_say[key]
        return reports


def _key(about: Report) -> Key:
    return about.task_id, about.fencing_token


def _held(key: Key) -> HeldLease:
    return HeldLease(task_id=key[0], fencing_token=key[1])


def _place(report: Report) -> str:
    what = report.WhichOneof("event") or ""
    return what if what in ORDER else "final"


def _released(key: Key) -> Report:
    return Report(task_id=key[0], fencing_token=key[1], released=TaskReleased())


def _failed(report: Report, reason: str, code: str) -> Report:
    """In the place of an outcome that the server does not take; another attempt would give the same."""
    return Report(
        task_id=report.task_id,
        fencing_token=report.fencing_token,
        failed=TaskFailed(error=reason, retryable=False, code=code),
    )
