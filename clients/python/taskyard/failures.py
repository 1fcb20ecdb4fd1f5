"""Errors of tasks that do not end as done: failed, cancelled, or no longer known to the server."""

from __future__ import annotations

from typing import Final

from .errors import NotFound
from .records.tasks import Task, TaskState

DEADLINE: Final = "deadline exceeded"
"""How the errors of tasks begin that their deadline has ended."""


class TaskFailed(Exception):
    """A task did not end as done. The traceback of its handler is a note of the error, so that Python prints it.

    Attributes:
        task: The task as it ended.
        code: The kind of failure, as the host reported it, or `timed_out`. None if there is none.
        message: Why it failed, or the reason for which somebody cancelled it.
        attempts: How many attempts there were in its last run.
        traceback: Where in the host's code the last attempt failed, as text. None if the host reported none.

    Args:
        task: The task as it ended.
        by_default: Whether its submitter gave no deadline, so that the server's default held. Default False.
    """

    def __init__(self, task: Task, by_default: bool = False) -> None:
        super().__init__(task, by_default)
        self.task = task
        self.code = task.code
        self.message = task.error or task.reason or "no reason given"
        self.attempts = len(task.attempts) or int(task.started_at is not None)
        self.traceback = task.traceback
        if by_default and self.message.startswith(DEADLINE):
            self.message += f" ({_default_deadline(task)}, see deadline=)"
        if self.traceback:
            self.add_note(f"\nThe traceback on {task.host_id or 'its host'}:\n\n{self.traceback.rstrip()}")

    def __str__(self) -> str:
        times = f" after {self.attempts} attempts" if self.attempts > 1 else ""
        code = f" [{self.code}]" if self.code else ""
        return f"{self.task.id} ({self.task.action}) is {self.task.state}{times}: {self.message}{code}"


class TaskCancelled(TaskFailed):
    """A task was cancelled."""


class TaskLost(NotFound):
    """The server accepted a task and knows it no longer: it was started anew and keeps nothing, or it was long ago.

    Attributes:
        task_id: The task.
        message: The text for people, the same as `reason`.
        attempts: 0, since nothing is known of them.
        traceback: None, for the same reason.

    Args:
        task_id: The task.
    """

    def __init__(self, task_id: str) -> None:
        super().__init__(
            f"the server accepted {task_id} and no longer knows it: it was started anew and keeps no tasks (see "
            "--store), or the task ended longer ago than tasks are retained. Whether its work was done is unknown"
        )
        self.task_id = task_id
        self.message = self.reason
        self.attempts = 0
        self.traceback: str | None = None

    def __reduce__(self) -> tuple[type[TaskLost], tuple[str]]:
        return type(self), (self.task_id,)


def failure_of(task: Task, by_default: bool = False) -> TaskFailed | None:
    """Find the error of a task that has ended.

    Args:
        task: The task.
        by_default: Whether its submitter gave no deadline. Default False.

    Returns:
        The error to raise, None if it is done.
    """
    if task.state is TaskState.DONE:
        return None
    return (TaskCancelled if task.state is TaskState.CANCELLED else TaskFailed)(task, by_default)


def _default_deadline(task: Task) -> str:
    """The default deadline of the server, as far as the task tells."""
    waited = task.target is not None or task.run > 1 or task.after
    if task.deadline is None or waited:
        return "the server's default deadline"
    secs = round((task.deadline - task.created_at).total_seconds(), 2)
    return f"the default deadline of {secs:g} s"
