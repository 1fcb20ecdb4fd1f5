"""What hosts say under their leases: that work began, how far it is, how it ended, that it stopped.

Every report carries the fencing token of its lease. One whose lease has ended is refused and changes nothing
(docs/rules.md, Fencing tokens).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from .attempts import OVER_BUDGET
from .errors import Conflict, LeaseLost, Refusal
from .hosts import Hosts
from .leases import Lease, lease_length
from .lifecycle import Lifecycle
from .task import ASSIGNED, DONE, FAILED, Task, TaskState


class ReportKind(StrEnum):
    """What a host can say of a task."""

    STARTED = "started"
    PROGRESS = "progress"
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"


HAS_STARTED: Final = ReportKind.STARTED
GOES_ON: Final = ReportKind.PROGRESS
IS_DONE: Final = ReportKind.COMPLETED
HAS_FAILED: Final = ReportKind.FAILED


class Report(NamedTuple):
    """One thing that a host says under the lease with this `token`.

    `payload` is how far it is, or the result. `tokens` are those that this attempt used so far, None where it says
    nothing of them. The rest is of a failure.
    """

    kind: ReportKind
    task_id: str
    token: int
    payload: bytes | None = None
    tokens: int | None = None
    error: str = ""
    code: str | None = None
    retryable: bool = True


class Reports:
    """Takes reports. Each method raises `NotFound`, and `LeaseLost` for a lease that is not the task's present one."""

    def __init__(self, life: Lifecycle, hosts: Hosts) -> None:
        self._life = life
        self._hosts = hosts

    def take_each(self, now: float, host_id: str, reports: Sequence[Report]) -> list[TaskState | Refusal]:
        """The state of its task just after each report, in order, or why it was refused."""
        outcomes: list[TaskState | Refusal] = []
        for report in reports:
            try:
                outcomes.append(self.take(now, host_id, report).state)
            except Refusal as refusal:
                # It touches none of its neighbours.
                # Its traceback would hold this frame, and so the list that holds the refusal: a cycle.
                outcomes.append(refusal.with_traceback(None))
        return outcomes

    def take(self, now: float, host_id: str, report: Report) -> Task:
        """Take one report. What was said before under the same lease, and its answer lost, may be said again."""
        kind, task_id, token = report.kind, report.task_id, report.token
        if kind is IS_DONE:
            return self.complete(now, host_id, task_id, token, report.payload, report.tokens)
        if kind is HAS_STARTED:
            return self._started(now, host_id, task_id, token)
        if kind is GOES_ON:
            return self.progress(now, host_id, task_id, token, report.payload, report.tokens)
        if kind is HAS_FAILED:
            return self.fail(now, host_id, task_id, token, report.error, report.retryable, report.code, report.tokens)
        return self._released(now, host_id, task_id, token)

    def start(self, now: float, host_id: str, task_id: str, token: int) -> Task:
        """The host has begun. Raises `NotFound`, `LeaseLost`, or `Conflict` if it said so before."""
        task = self._leased(now, host_id, task_id, token).task
        if task.state is not ASSIGNED:
            raise Conflict(f"task is already {task.state.value}")
        self._life.grants.begin(now, task)
        return task

    def progress(
        self, now: float, host_id: str, task_id: str, token: int, progress: bytes | None, tokens: int | None = None
    ) -> Task:
        """How far the host is, in bytes that the core keeps and never opens; None is as far as before.

        `tokens` are those that this attempt used so far; over the budget the task fails. It counts as a start, too.
        """
        task = self._leased(now, host_id, task_id, token).task
        if task.state is ASSIGNED:
            self._life.grants.begin(now, task)
        over = tokens is not None and self._life.attempts.use_tokens(task, tokens)
        self._life.progressed(now, task, progress, tokens)
        if over:
            self._life.attempts.fail_over_budget(now, task)
        return task

    def renew(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        lease_secs: float | None = None,
        tokens: int | None = None,
    ) -> Lease:
        """Let a lease live for its own length, or `lease_secs`, from now; never for less than it had.

        `tokens` are those that this attempt used so far; over the budget the task fails, and
        `LeaseLost` says so.
        """
        lease = self._leased(now, host_id, task_id, token)
        lease.secs = lease_length(lease_secs, lease.secs)
        lease.expires_at = max(lease.expires_at, now + lease.secs)
        self._life.grants.retime(lease)
        if tokens is not None:
            if lease.task.state is ASSIGNED:
                self._life.grants.begin(now, lease.task)
            self._life.attempts.report_tokens(now, lease.task, tokens)
            if lease.task.lease is not lease:
                raise LeaseLost(f"lease lost: {lease.task.error}")
        return lease

    def complete(
        self, now: float, host_id: str, task_id: str, token: int, result: bytes | None, tokens: int | None = None
    ) -> Task:
        """The task is done, or failed if it used more tokens than it may. It counts as a start, too."""
        task = self._leased(now, host_id, task_id, token).task
        if task.state is ASSIGNED:
            self._life.grants.begin(now, task, is_over=True)
        if tokens is not None and self._life.attempts.use_tokens(task, tokens):
            self._life.finish(now, task, FAILED, None, OVER_BUDGET)
        else:
            self._life.finish(now, task, DONE, result, None)
        return task

    def fail(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        error: str,
        retryable: bool = True,
        code: str | None = None,
        tokens: int | None = None,
    ) -> Task:
        """The attempt has failed, for the reason that the host gives; the retry policy may have another one.

        A task that was not reported as started has not started.
        """
        task = self._leased(now, host_id, task_id, token).task
        over = tokens is not None and self._life.attempts.use_tokens(task, tokens)
        self._life.attempts.fail(now, task, OVER_BUDGET if over else error, retryable and not over, code)
        return task

    def release(self, now: float, host_id: str, task_id: str, token: int) -> Task:
        """The host gives the task back unexecuted: it is queued again, and this hand-out does not count."""
        task = self._leased(now, host_id, task_id, token).task
        self._life.grants.release(now, task)
        return task

    def stopped(self, now: float, host_id: str, task_id: str, token: int) -> None:
        """A host that was told to stop has done so, for which a target may wait (docs/rules.md, Stopping leases)."""
        host = self._hosts.find(host_id)
        if host is not None:
            self._life.liveness.heard(now, host)
        lease = self._life.grants.stopping.find(host_id, task_id, token)
        if lease is not None:
            self._life.grants.has_stopped(now, lease)

    def _started(self, now: float, host_id: str, task_id: str, token: int) -> Task:
        try:
            return self.start(now, host_id, task_id, token)
        except Conflict:
            # It said so before under this very lease, and the answer was lost.
            return self._life.task(task_id)

    def _released(self, now: float, host_id: str, task_id: str, token: int) -> Task:
        """Nothing runs under the lease any more, which may have ended before."""
        task = self._life.task(task_id)
        if not self._has_ended(task, host_id, token):
            return self.release(now, host_id, task_id, token)
        self.stopped(now, host_id, task_id, token)
        return task

    def _has_ended(self, task: Task, host_id: str, token: int) -> bool:
        """Whether that lease ended before: it is said again, or after a cancellation.

        Who held the leases before the task's last one is not known, nor which host is built in; to say that nothing
        runs under them is harmless.
        """
        return token < task.token or (token == task.token and task.lease is None and task.host_id in (host_id, None))

    def _leased(self, now: float, host_id: str, task_id: str, token: int) -> Lease:
        """The lease that a report is about; raises `NotFound`, or `LeaseLost` if it is not the task's present one."""
        host = self._hosts.get(host_id)
        self._life.liveness.heard(now, host)
        task = self._life.task(task_id)
        lease = task.lease
        if lease is None or lease.token != token or lease.host is not host:
            self._life.counters.late_reports += 1
            raise LeaseLost(f"lease lost: task is {task.state.value} and fencing token {token} is not its lease")
        return lease
