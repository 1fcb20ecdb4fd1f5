"""The task whose handler runs here: what a handler submits carries it as its parent."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .hosting.running_task import RunningTask

current_task: Final[ContextVar[RunningTask | None]] = ContextVar("taskyard_current_task", default=None)
"""The task of the handler that runs in this context, None outside of handlers."""
