"""Keeps what is told of one task from telling of others, where not every caller may know of every task.

Today's ids of one millisecond share their entropy, and a position counts the tasks of all agents (docs/security.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lifecycle import Lifecycle


def keep_private(life: Lifecycle) -> None:
    """Draw entropy for each id from now on, and tell no position, of tasks that were loaded neither."""
    life.tasks.draws_each = True
    life.tells_position = False
    for task in life.tasks.after(0):
        task.position = None
    life.past_keys.forget_positions()
