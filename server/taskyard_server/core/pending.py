"""Reasons that keep tasks pending: a hold, a time, other tasks (docs/rules.md, Held and future tasks, Predecessors).

A task is queued once none of these holds. Only then is it in the order of its target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .predecessors import Verdict, failed_text
from .task import CANCELLED, NO_EXTRAS, PENDING, QUEUED
from .timers import TimerOrder

if TYPE_CHECKING:
    from .lifecycle import Lifecycle
    from .predecessors import Following
    from .task import Task


class Pending:
    """The pending tasks of one namespace. `delayed` holds those by their time that wait for nothing else."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self.delayed = life.timers.queue(self.come_due, TimerOrder.NOT_BEFORE)

    def add(self, now: float, task: Task, not_before: float | None, following: Following | None) -> None:
        """A new task is pending, until `not_before` at least, which lies ahead."""
        life, is_held = self._life, task.options.hold
        task.page.entered(PENDING)
        if is_held or not_before is not None:
            task.history = task.history._replace(held=is_held, not_before=not_before)
        if following is not None:
            life.predecessors.add(task, following.tasks)
            if following.verdict is Verdict.CLEAR:
                life.predecessors.clear(task)
        if not_before is not None and not is_held and (following is None or following.verdict is Verdict.CLEAR):
            self.delayed.add(not_before, task)
        if task.options.target is not None:
            life.targets.set_aside(now, task)

    def end_failed(self, now: float, task: Task, following: Following) -> None:
        """Cancel a new task at once if it comes after one that has failed."""
        if following.failed is not None:
            self._life.finish(now, task, CANCELLED, None, failed_text(following.failed))

    def restore(self, now: float, task: Task) -> None:
        """A stored task that comes after others was not queued yet. All tasks are there."""
        verdict = self._life.predecessors.restore(now, task)
        due = task.history.not_before
        if verdict is Verdict.CLEAR and due is not None and not task.history.held:
            self.delayed.add(due, task)

    def change_params(self, task: Task, params: bytes | None, its_input: bytes | None) -> None:
        """Give a held task other params, which it may have already."""
        options = task.options
        if params == task.params and its_input == options.input:
            return
        task.params = params
        task.options = options._replace(input=its_input)
        self._life.note(task)
        if self._life.changes is not None:
            self._life.changes.rewritten[task] = None

    def release_hold(self, now: float, task: Task) -> None:
        """Release a held task; it stays pending until `not_before`, and until those that it comes after have ended."""
        task.history = task.history._replace(held=False)
        if self._life.predecessors.holds_back(task) or not self._goes_on(now, task):
            self._life.note(task)

    def judged(self, now: float, task: Task, verdict: Verdict, failed: str | None) -> None:
        """The predecessors of a pending task mean something else for it than before; `failed` is the id of one."""
        if verdict is Verdict.FAILED:
            self._life.finish(now, task, CANCELLED, None, failed_text(failed))
        elif verdict is Verdict.CLEAR:
            if not task.history.held:
                self._goes_on(now, task)
        elif task.history.not_before is not None:
            # One was resumed: its time alone does not queue it.
            self.delayed.remove(task.history.not_before, task)

    def come_due(self, now: float, task: Task) -> None:
        """Queue a pending task whose time has come, unless a task that it comes after was resumed meanwhile."""
        if task.options.extras is NO_EXTRAS or not self._life.predecessors.holds_back(task):
            self._make_due(now, task)

    def leave(self, task: Task) -> None:
        """A pending task ends."""
        task.page.left(PENDING)
        if task.history.not_before is not None:
            self.delayed.remove(task.history.not_before, task)
        if task.options.extras is not NO_EXTRAS:
            self._life.predecessors.leave(task)
        task.history = task.history._replace(held=False, not_before=None)

    def _goes_on(self, now: float, task: Task) -> bool:
        """Queue a task that only its time may keep pending; whether that was so."""
        not_before = task.history.not_before
        if not_before is not None and not_before > now:
            self.delayed.add(not_before, task)
            return False
        self._make_due(now, task)
        return True

    def _make_due(self, now: float, task: Task) -> None:
        life = self._life
        if task.options.extras is not NO_EXTRAS:
            life.predecessors.leave(task)
        before = life.transition(task, QUEUED, None)
        task.page.left(PENDING)
        task.history = task.history._replace(not_before=None)
        life.enqueue(now, task)
        life.emit(now, task, before)
