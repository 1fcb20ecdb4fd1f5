"""The log of a task: its records become chunks of its output, and go on to the logging of the program."""

import logging
import threading
from typing import Final

from .chunks import pieces_of
from .task_output import TaskOutput

log = logging.getLogger("taskyard")

CHANNEL: Final = "log"
PARENT: Final = "taskyard.tasks"
"""The logger of the program that gets the records of all tasks, as far as its level lets it."""


class TaskLogger(logging.Logger):
    """The logger of one task. Records from INFO on become chunks, unless its level is set to another.

    Args:
        task_id: The task.
        output: Its output, None if it has none.
        thread: The thread of the event loop, which must not wait; None if there is none.
    """

    def __init__(self, task_id: str, output: TaskOutput | None, thread: int | None) -> None:
        super().__init__(PARENT, logging.INFO)
        self.parent = logging.getLogger(PARENT)
        self._task_id = task_id
        self._output = output
        self._thread = thread
        self._formatter = logging.Formatter("%(levelname)s %(message)s")
        self._has_warned = False

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name that it has in logging
        """Say whether records of a level are kept.

        Args:
            level: The level.

        Returns:
            Whether they are.
        """
        # What `logging` remembers of it, it forgets for the loggers alone that it has made itself.
        return not self.disabled and level >= self.getEffectiveLevel() and level > self.manager.disable

    def handle(self, record: logging.LogRecord) -> None:
        """Take a record.

        Args:
            record: The record.
        """
        if self.disabled or not self.filter(record):
            return
        try:
            self._say(record)
        except Exception:
            # As handlers of `logging` do: what is wrong with a record must not end the work.
            logging.Handler().handleError(record)
        self.callHandlers(record)
        parent = self.parent
        if self.propagate and parent is not None and parent.isEnabledFor(record.levelno):
            parent.handle(record)

    def callHandlers(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that it has in logging
        """Pass a record to the handlers of this logger alone.

        Args:
            record: The record.
        """
        for handler in self.handlers:
            if record.levelno >= handler.level:
                handler.handle(record)

    def _say(self, record: logging.LogRecord) -> None:
        output = self._output
        if output is None or output.refusal:
            self._warn("its log is not kept: " + (output.refusal if output is not None else "it has no output"))
            return
        text = self._formatter.format(record) + "\n"
        for piece in pieces_of(text.encode(errors="replace").decode(), CHANNEL):
            if output.take(*piece):
                continue
            if threading.get_ident() != self._thread:
                output.wait(*piece)
            elif not output.take_over(*piece):
                self._warn("records of its log are lost, since they come faster than the server keeps them")

    def _warn(self, what: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning("task %s: %s", self._task_id, what)
