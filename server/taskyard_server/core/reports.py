"""The reports of hosts on their leases: started, progress, renewal, completed, failed, released, stopped.

Every report carries the fencing token of its lease. A report under a lease that has ended is refused and changes
nothing (docs/rules.md, Fencing tokens). This file validates reports; `grants.py` and `lifecycle.py` carry them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from .attempts import OVER_BUDGET
from .errors import NOT_YET, BadRequest, Conflict, LeaseLost, NotFound, Refusal, Unavailable
from .history import ENDS, Wait
from .hosts import Hosts
from .leases import Lease, lease_length
from .lifecycle import Lifecycle
from .runs.steps import NewStep
from .stopping_leases import StopWaits
from .task import ASSIGNED, DONE, FAILED, Task, TaskState


class ReportKind(StrEnum):
    """The kinds of a `Report`."""

    STARTED = "started"
    PROGRESS = "progress"
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    PARKED = "parked"


STARTED_REPORT: Final = ReportKind.STARTED
PROGRESS_REPORT: Final = ReportKind.PROGRESS
COMPLETED_REPORT: Final = ReportKind.COMPLETED
FAILED_REPORT: Final = ReportKind.FAILED
PARKED_REPORT: Final = ReportKind.PARKED

NO_TASK: Final = "task not found"


class Report(NamedTuple):
    """One report under the lease with this `token`.

    `payload` is the progress or the result, `output` the serialized `Payload` of a result. `tokens` counts those that
    this attempt has used so far, None if the host does not count them. The other fields belong to a failure; `code` and
    `retry_after_secs` also to a release that is to be handed out again only after that time. The last two are about a
    task that is parked.
    """

    kind: ReportKind
    task_id: str
    token: int
    payload: bytes | None = None
    tokens: int | None = None
    error: str = ""
    code: str | None = None
    retryable: bool = True
    traceback: str | None = None
    retry_after_secs: float | None = None
    output: bytes | None = None
    waits: tuple[Wait, ...] = ()
    keeps_target: bool = True


class Reports:
    """Takes reports. Each method raises `NotFound`, and `LeaseLost` for a lease that is not the task's current one."""

    def __init__(self, life: Lifecycle, hosts: Hosts, stop_waits: StopWaits) -> None:
        self._life = life
        self._hosts = hosts
        self._stop_waits = stop_waits

    def take_each(
        self, now: float, host_id: str, reports: Sequence[Report], *, own_only: bool = False
    ) -> list[TaskState | Refusal]:
        """Take reports in order; for each, the state of its task just after it, or why it was refused.

        If `own_only` the host is told of tasks that it had last, and of all others as of one that is not there.
        """
        outcomes: list[TaskState | Refusal] = []
        for report in reports:
            hidden = own_only and not self.is_own(host_id, report.task_id)
            try:
                outcomes.append(self.take(now, host_id, report).state)
            except Refusal as refusal:
                # With its traceback, the refusal would hold this frame and so the list that holds it: a cycle.
                outcomes.append(refusal.with_traceback(None))
            # A host that is not registered is told so before its task is looked for, but for a release.
            if hidden and (report.kind is ReportKind.RELEASED or not isinstance(outcomes[-1], NotFound)):
                outcomes[-1] = NotFound(NO_TASK)
        return outcomes

    def is_own(self, host_id: str, task_id: str) -> bool:
        """True if a task is in memory and was last handed to this host."""
        task = self._life.tasks.get(task_id)
        return task is not None and task.host_id == host_id

    def take(self, now: float, host_id: str, report: Report) -> Task:
        """Take one report. A start or a release may be repeated, since its answer may have been lost."""
        kind, task_id, token = report.kind, report.task_id, report.token
        if kind is COMPLETED_REPORT:
            return self.complete(now, host_id, task_id, token, report.payload, report.tokens, report.output)
        if kind is STARTED_REPORT:
            return self._start_or_repeat(now, host_id, task_id, token)
        if kind is PROGRESS_REPORT:
            return self.progress(now, host_id, task_id, token, report.payload, report.tokens)
        if kind is FAILED_REPORT:
            return self.fail(
                now,
                host_id,
                task_id,
                token,
                report.error,
                report.retryable,
                report.code,
                report.tokens,
                report.traceback,
                report.retry_after_secs,
            )
        if kind is PARKED_REPORT:
            waits, keeps_target = report.waits, report.keeps_target
            return self.park(now, host_id, task_id, token, waits, report.tokens, keeps_target=keeps_target)
        return self._release_or_stop(now, host_id, task_id, token, report.retry_after_secs, report.code)

    def start(self, now: float, host_id: str, task_id: str, token: int) -> Task:
        """Record the start of an attempt. Raises `NotFound`, `LeaseLost`, or `Conflict` if it was reported before."""
        task = self._lease_of(now, host_id, task_id, token).task
        if task.state is not ASSIGNED:
            raise Conflict(f"task is already {task.state.value}")
        self._life.grants.begin(now, task)
        return task

    def progress(
        self, now: float, host_id: str, task_id: str, token: int, progress: bytes | None, tokens: int | None = None
    ) -> Task:
        """Record progress, in bytes that the core keeps and never reads; None leaves it as it is.

        `tokens` counts those that this attempt has used so far; over its budget the task fails. A first progress
        counts as the start.
        """
        task = self._lease_of(now, host_id, task_id, token).task
        self.note_start(now, task)
        over = tokens is not None and self._life.attempts.use_tokens(task, tokens)
        self._life.record_progress(now, task, progress, tokens)
        if over:
            self._life.attempts.fail_over_budget(now, task)
        return task

    def leased(self, now: float, host_id: str, task_id: str, token: int, *, own_only: bool = False) -> Lease:
        """The lease under which a host says or asks something about a task, which counts as a sign of its life.

        Raises `NotFound`, `LeaseLost`. `own_only` is as in `take_each`.
        """
        if own_only and not self.is_own(host_id, task_id):
            raise NotFound(NO_TASK)
        return self._lease_of(now, host_id, task_id, token)

    def note_start(self, now: float, task: Task) -> None:
        """Let what a host says about a task count as the start if none was reported."""
        if task.state is ASSIGNED:
            self._life.grants.begin(now, task)

    def note_left_behind(self, now: float, task: Task) -> None:
        """Tell of what a run has left behind, which counts as its start if none was reported."""
        self.note_start(now, task)
        self._life.record_left_behind(now, task)

    def record_step(self, now: float, host_id: str, new: NewStep, *, own_only: bool = False) -> tuple[int, bool]:
        """Take a step of a task under its lease, of which the names are known. It counts as the start.

        Returns its number, and whether the task had one of its name, which stays as it was. Raises `TooLarge` and
        `Unavailable`, too. `own_only` is as in `take_each`.
        """
        task, steps = self.leased(now, host_id, new.task_id, new.token, own_only=own_only).task, self._life.parks.steps
        number = steps.find(task, new.name)
        if number is not None:
            return number, True
        number = steps.record(now, task, new)
        self.note_left_behind(now, task)
        return number, False

    def renew(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        lease_secs: float | None = None,
        tokens: int | None = None,
        *,
        own_only: bool = False,
    ) -> Lease:
        """Extend a lease to its own length, or `lease_secs`, from now. A renewal never shortens it.

        `tokens` counts those that this attempt has used so far; over its budget the task fails, and `LeaseLost` is
        raised. `own_only` is as in `take_each`.
        """
        try:
            lease = self._lease_of(now, host_id, task_id, token)
        except LeaseLost:
            if own_only and not self.is_own(host_id, task_id):
                raise NotFound(NO_TASK) from None
            raise
        secs = lease_length(lease_secs, lease.secs)
        if secs != lease.secs:
            lease.secs = secs
            self._life.note(lease.task)
        lease.expires_at = max(lease.expires_at, now + lease.secs)
        if tokens is not None:
            if lease.task.state is ASSIGNED:
                self._life.grants.begin(now, lease.task)
            self._life.attempts.report_tokens(now, lease.task, tokens)
            if lease.task.lease is not lease:
                raise LeaseLost(f"lease lost: {lease.task.error}")
        return lease

    def complete(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        result: bytes | None,
        tokens: int | None = None,
        output: bytes | None = None,
    ) -> Task:
        """End a task as done, or as failed if it is over its budget. It counts as the start if none was reported.

        Raises `Unavailable` for an `output` while an earlier version may come to serve the namespace.
        """
        lease = self._lease_of(now, host_id, task_id, token)
        task = lease.task
        if output is not None and not self._life.readers.allows_added_fields:
            raise Unavailable(f"output: {NOT_YET}")
        if task.state is ASSIGNED:
            self._life.grants.begin(now, task, is_over=True)
        if tokens is not None and self._life.attempts.use_tokens(task, tokens):
            self._life.finish(now, task, FAILED, None, OVER_BUDGET)
        else:
            if output is not None:
                task.history = task.history._replace(output=output)
            self._life.finish(now, task, DONE, result, None)
        lease.host.losses = 0
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
        traceback: str | None = None,
        retry_after_secs: float | None = None,
    ) -> Task:
        """Fail an attempt with the host's `error`; the retry policy decides whether another one follows.

        `retry_after_secs` takes the place of its delay. Without an earlier report of its start, the task has not
        started.
        """
        task = self._lease_of(now, host_id, task_id, token).task
        over = tokens is not None and self._life.attempts.use_tokens(task, tokens)
        if over:
            error, retryable = OVER_BUDGET, False
        self._life.attempts.fail(now, task, error, retryable, code, None, traceback, retry_after_secs)
        return task

    def park(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        waits: tuple[Wait, ...],
        tokens: int | None = None,
        *,
        keeps_target: bool = True,
    ) -> Task:
        """Let a task wait without its lease; it is queued again at once if something has come already.

        Over its budget it fails instead. It may be repeated, since its answer may have been lost. It counts as the
        start. Raises `NotFound`, also for the end of a task that is neither of the same agent nor below it,
        `BadRequest` for its own, `LeaseLost`, `TooLarge` and `Unavailable`.
        """
        self._life.liveness.heard(now, self._hosts.get(host_id))
        known = self._life.tasks.get(task_id)
        if known is not None and known.lease is None and known.token == token and known.host_id == host_id:
            park = known.history.park
            if park is not None and park.token == token:
                return known
        task = self._lease_of(now, host_id, task_id, token).task
        for each in dict.fromkeys([each for wait in waits if wait.kind == ENDS for each in wait.about]):
            other = self._life.tasks.get(each)
            if other is task:
                raise BadRequest(f"waits: task {each} would wait for its own end")
            if other is not None and other.agent is not task.agent and other.options.parent_id != task.id:
                raise NotFound(f"waits: task {each} not found")
        parks = self._life.parks
        park = parks.new_park(now, task, waits, keeps_target=keeps_target)
        if task.state is ASSIGNED:
            self._life.grants.begin(now, task, is_over=True)
        if tokens is not None and self._life.attempts.use_tokens(task, tokens):
            self._life.finish(now, task, FAILED, None, OVER_BUDGET)
        else:
            self._life.grants.park(now, task, park)
            parks.wait(now, task)
        return task

    def release(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        after_secs: float | None = None,
        code: str | None = None,
    ) -> Task:
        """Requeue a task that its host returns unexecuted; the delivery does not count.

        After `after_secs`, if that is given; then `code` says why.
        """
        task = self._lease_of(now, host_id, task_id, token).task
        self._life.grants.release(now, task, after_secs, code)
        return task

    def stopped(self, now: float, host_id: str, task_id: str, token: int) -> None:
        """Record that a host has stopped as asked, for which a target may wait (docs/rules.md, Stopping leases)."""
        host = self._hosts.find(host_id)
        if host is not None:
            self._life.liveness.heard(now, host)
        lease = self._life.grants.stopping.find(host_id, task_id, token)
        if lease is not None:
            self._life.grants.has_stopped(now, lease)
        else:
            self._stop_waits.has_stopped(host_id, task_id, token)

    def _start_or_repeat(self, now: float, host_id: str, task_id: str, token: int) -> Task:
        try:
            return self.start(now, host_id, task_id, token)
        except Conflict:
            # Already reported under this lease; its answer was lost.
            return self._life.task(task_id)

    def _release_or_stop(
        self, now: float, host_id: str, task_id: str, token: int, after_secs: float | None, code: str | None
    ) -> Task:
        """Release a task, or record that nothing runs any more under a lease that has ended before."""
        task = self._life.task(task_id)
        if not self._has_ended(task, host_id, token):
            return self.release(now, host_id, task_id, token, after_secs, code)
        self.stopped(now, host_id, task_id, token)
        return task

    def _has_ended(self, task: Task, host_id: str, token: int) -> bool:
        """True if the lease has ended: the release is repeated, or follows a cancellation.

        The holders of earlier leases are not known, nor which built-in host held one; their releases are accepted,
        since they change nothing.
        """
        return token < task.token or (token == task.token and task.lease is None and task.host_id in (host_id, None))

    def _lease_of(self, now: float, host_id: str, task_id: str, token: int) -> Lease:
        """The lease of a report; raises `NotFound`, or `LeaseLost` if it is not the task's current one."""
        host = self._hosts.get(host_id)
        self._life.liveness.heard(now, host)
        lease = host.leases.get(task_id)
        if lease is None or lease.token != token:
            task = self._life.task(task_id)
            self._life.counters.late_reports += 1
            raise LeaseLost(f"lease lost: task is {task.state.value} and fencing token {token} is not its lease")
        return lease
