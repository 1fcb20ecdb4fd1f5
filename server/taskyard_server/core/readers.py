"""Readers who may not know all: callers to whom one task tells nothing of others, and earlier versions of the server.

Today's ids of one millisecond share their entropy, and a position counts the tasks of all agents: see
docs/operate/security.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .scheduler import Scheduler


def keep_private(scheduler: Scheduler) -> None:
    """Draw entropy for each id from now on, and tell no position, of tasks that were loaded neither."""
    life = scheduler.life
    life.tasks.draws_each = True
    life.tells_position = False
    for task in life.tasks.after(0):
        task.position = None
    life.past_keys.forget_positions()


def keep_fields(scheduler: Scheduler, *, added: bool, extras: bool) -> None:
    """Say which fields tasks may have from now on, while an earlier version may come to serve the namespace."""
    scheduler.life.keeps_added_fields = added
    scheduler.life.keeps_extras = extras
