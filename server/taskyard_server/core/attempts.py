"""The attempts of tasks: what is recorded of each, which failed one is repeated, and the tokens that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .leases import StopReason
from .task import FAILED, PENDING, RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .lifecycle import Lifecycle
    from .task import Task

OVER_BUDGET: Final = "token limit exceeded"


class Attempts:
    """Decides whether a failed attempt is the last one. `entropy` returns 40 random bits, for the delays of retries."""

    def __init__(self, life: Lifecycle, entropy: Callable[[], int]) -> None:
        self._life = life
        self._entropy = entropy

    def record(self, now: float, task: Task, error: str | None, code: str | None) -> None:
        """The attempt under the task's lease is over."""
        lease = task.lease
        assert lease is not None
        task.history = task.history.with_attempt(task.host_id, lease.started_at, now, error, code)

    def fail(
        self, now: float, task: Task, error: str, retryable: bool, code: str | None, stop: StopReason | None = None
    ) -> None:
        """The attempt has failed. The next one follows after a delay, unless its deadline would come first.

        `stop` is why the host shall stop, None if it reported the failure itself (docs/rules.md, Retries).
        """
        life = self._life
        policy, failed = task.options.retry, task.history.failed + 1
        if policy is None or not retryable or code in policy.non_retryable_codes or failed >= policy.max_attempts:
            life.finish(now, task, FAILED, None, error, stop, code)
            return
        due = now + policy.delay_secs(failed, self._entropy() / 2**40)
        if task.deadline is not None and due >= task.deadline:
            life.finish(now, task, FAILED, None, error, stop, code)
            return
        before = life.transition(task, PENDING, None)
        self.record(now, task, error, code)
        task.history = task.history._replace(failed=failed, not_before=due)
        life.counters.retried += 1
        life.count_in(task)
        if task.options.target is not None:
            # It keeps its place.
            life.targets.enter(now, task)
        life.grants.end(now, task, stop, error)
        life.dues.add(due, task)
        life.emit(now, task, before)

    def use_tokens(self, task: Task, used: int) -> bool:
        """This attempt used so many tokens so far; whether that is over the task's budget."""
        history = task.history
        before = history.tokens_used or 0
        total = max(before, history.tokens_before + used)
        task.history = history._replace(tokens_used=total)
        task.agent.figures.tokens_used += total - before
        return self.is_over_budget(task)

    def report_tokens(self, now: float, task: Task, used: int) -> None:
        """A heartbeat or a renewal says what a running attempt used so far; over the budget the task fails."""
        if task.state is not RUNNING:
            return
        before = task.history.tokens_used
        over = self.use_tokens(task, used)
        if task.history.tokens_used != before:
            self._life.progressed(now, task, None, used)
        if over:
            self.fail_over_budget(now, task)

    def fail_over_budget(self, now: float, task: Task) -> None:
        """The task used more tokens than it may, and its host is to stop."""
        self._life.finish(now, task, FAILED, None, OVER_BUDGET, StopReason.TOKEN_LIMIT_EXCEEDED)

    def is_over_budget(self, task: Task) -> bool:
        """Whether a task has used more tokens than it may (docs/rules.md, Budgets)."""
        limit = task.token_limit
        return limit is not None and (task.history.tokens_used or 0) > limit
