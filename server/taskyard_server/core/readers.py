"""Readers who may not know all: callers to whom one task tells nothing of others, and earlier versions of the server.

Today's ids of one millisecond share their entropy, and a position counts the tasks of all agents: see
docs/operate/security.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import NOT_YET, Unavailable
from .task import NO_EXTRAS

if TYPE_CHECKING:
    from .past_keys import PastKeys
    from .task_options import TaskOptions
    from .task_table import TaskTable


class ReaderRules:
    """Fields that tasks may have, because all who read them may know them.

    Without `tells_position` no task says how many were counted as queued after it. While an earlier version may come to
    serve the namespace, `allows_added_fields` or `allows_extras` is false: it could not read these fields of tasks. Nor
    would it remove the output of tasks with them, unless `allows_output`; nor read what artifacts, inputs, steps and
    reasons they have, and whether they end with their parents, unless `allows_artifacts`.
    """

    def __init__(self, tasks: TaskTable, past_keys: PastKeys) -> None:
        self.tells_position = True
        self.allows_added_fields = True
        self.allows_extras = True
        self.allows_output = True
        self.allows_artifacts = True
        self._tasks = tasks
        self._past_keys = past_keys

    def make_private(self) -> None:
        """Draw entropy for each id from now on, and tell no position, of tasks that were loaded neither."""
        self._tasks.draws_each = True
        self.tells_position = False
        for task in self._tasks.after(0):
            task.position = None
        self._past_keys.forget_positions()

    def allow_fields(self, *, added: bool, extras: bool, output: bool, artifacts: bool) -> None:
        """Say what tasks may have from now on, while an earlier version may come to serve the namespace."""
        self.allows_added_fields = added
        self.allows_extras = extras
        self.allows_output = output
        self.allows_artifacts = artifacts

    def require_known(self, field: str) -> None:
        """Raise `Unavailable` if an earlier version, which has no artifacts nor this field, may come to serve."""
        if not self.allows_artifacts:
            raise Unavailable(f"{field}: {NOT_YET}")

    def require_reason(self, reason: str | None) -> None:
        """Raise `Unavailable` for a reason, which an earlier version could not read, if it may come to serve."""
        if reason is not None:
            self.require_known("reason")

    def require(self, options: TaskOptions) -> None:
        """Raise `Unavailable` for fields that an earlier version could not read, if it may come to serve."""
        if options.extras is not NO_EXTRAS and not self.allows_extras:
            raise Unavailable(f"concurrencyKeys, after, uniqueKey, onTargetFailure, selector: {NOT_YET}")
        if options.has_added_fields and not self.allows_added_fields:
            raise Unavailable(f"runTimeoutMs, parentId, input: {NOT_YET}")
