"""The attempts of tasks: the record of each, the retry of a failed one, and the tokens that they use.

This file does not know leases or hosts beyond the record of an attempt; `grants.py` ends the lease of a failed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .history import TIME
from .leases import StopReason
from .runs.run_timeouts import RunTimeouts
from .task import FAILED, PARKED, PENDING, RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .lifecycle import Lifecycle
    from .task import Task, TaskState

OVER_BUDGET: Final = "token limit exceeded"
TAB_HANDED_OFF: Final = "tab_paused_handoff"
"""Begins the name of the wait of a task that is parked since a person has its tab, and is the code of one that is set
back for that while an earlier version serves, too (docs/rules.md, Executor answers)."""
HANDOFF_KEY: Final = f"{TIME}:{TAB_HANDED_OFF}"
"""Begins the keys of such waits."""
PERSON_HAS_TAB: Final = "a person has the tab; it is tried again from time to time"


class Attempts:
    """Decides whether a failed attempt is the last one. `entropy` returns 40 random bits, for the jitter of delays."""

    def __init__(self, life: Lifecycle, entropy: Callable[[], int]) -> None:
        self._life = life
        self._entropy = entropy
        self.timeouts = RunTimeouts(life.timers, self.fail)

    def record(self, now: float, task: Task, error: str | None, code: str | None) -> None:
        """Record the attempt under the task's lease, which is over."""
        lease = task.lease
        assert lease is not None
        task.history = task.history.with_attempt(task.host_id, lease.started_at, now, error, code)

    def note_failure(self, task: Task, code: str | None, traceback: str | None) -> None:
        """Show the code and the traceback of a failed attempt with the task."""
        if self._life.readers.allows_added_fields:
            task.history = task.history.with_failure(code, traceback)

    def fail(
        self,
        now: float,
        task: Task,
        error: str,
        retryable: bool,
        code: str | None,
        stop: StopReason | None = None,
        traceback: str | None = None,
        retry_after_secs: float | None = None,
    ) -> None:
        """Fail the current attempt: retry after a delay, or fail the task if it has no attempt or no time left.

        `stop` is why the host shall stop, None if the host reported the failure. `retry_after_secs` is the delay that
        the host asks for (docs/rules.md, Retries).
        """
        life = self._life
        policy, failed = task.options.retry, task.history.failed + 1
        if policy is None:
            is_last = retry_after_secs is None or task.deliveries >= life.limits.max_deliveries
        else:
            is_last = code in policy.non_retryable_codes or failed >= policy.max_attempts
        if is_last or not retryable:
            life.finish(now, task, FAILED, None, error, stop, code, traceback)
            return
        if retry_after_secs is None:
            assert policy is not None
            retry_after_secs = policy.delay_secs(failed, self._entropy() / 2**40)
        due = now + retry_after_secs
        if task.deadline is not None and due >= task.deadline:
            life.finish(now, task, FAILED, None, error, stop, code, traceback)
            return
        before = life.transition(task, PENDING, None)
        self.record(now, task, error, code)
        self.note_failure(task, code, traceback)
        task.history = task.history._replace(failed=failed)
        life.counters.retried += 1
        self._wait(now, task, before, due, stop, error)

    def set_back(self, now: float, task: Task, due: float, code: str | None) -> None:
        """Let a task that its host gives back wait until a time, with a code that says why. No attempt is recorded."""
        before = self._life.transition(task, PENDING, None)
        self.note_failure(task, code, None)
        self._wait(now, task, before, due, None, "")

    def _wait(self, now: float, task: Task, before: TaskState, due: float, stop: StopReason | None, error: str) -> None:
        """Let a task that is pending now wait for its next attempt, and end its lease."""
        life = self._life
        task.history = task.history._replace(not_before=due)
        task.page.entered(PENDING)
        life.count_queued(task)
        if task.options.target is not None:
            # It keeps its position among the waiting tasks of its target.
            life.targets.enter(now, task)
        life.grants.end(now, task, stop, error)
        life.pending.delayed.add(due, task)
        life.emit(now, task, before)

    def use_tokens(self, task: Task, used: int) -> bool:
        """Set the tokens that the current attempt has used so far; whether the task is now over its budget."""
        history = task.history
        before = history.tokens_used or 0
        total = max(before, history.tokens_before + used)
        task.history = history._replace(tokens_used=total)
        task.agent.figures.tokens_used += total - before
        return self.is_over_budget(task)

    def report_tokens(self, now: float, task: Task, used: int) -> None:
        """Take the token count of a heartbeat or a renewal; a running task that is over its budget fails."""
        if task.state is not RUNNING:
            return
        before = task.history.tokens_used
        over = self.use_tokens(task, used)
        if task.history.tokens_used != before:
            self._life.record_progress(now, task, None, used)
        if over:
            self.fail_over_budget(now, task)

    def fail_over_budget(self, now: float, task: Task) -> None:
        """Fail a task that is over its budget, and stop its host."""
        self._life.finish(now, task, FAILED, None, OVER_BUDGET, StopReason.TOKEN_LIMIT_EXCEEDED)

    def is_over_budget(self, task: Task) -> bool:
        """True if a task has used more tokens than its limit (docs/rules.md, Budgets)."""
        limit = task.token_limit
        return limit is not None and (task.history.tokens_used or 0) > limit


def is_handed_off(task: Task) -> bool:
    """True if a task waits since a person has its tab."""
    park = task.history.park
    if task.state is PARKED and park is not None:
        return True in [wait.key.startswith(HANDOFF_KEY) for wait in park.waits]
    return task.state is PENDING and task.history.code == TAB_HANDED_OFF
