"""The rows of the outbox that the next commit of one namespace writes and removes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from taskyard_server.store.port import Table, key_of

from .views import DueDelivery

if TYPE_CHECKING:
    from taskyard_server.store.port import Group


@dataclass(slots=True)
class OutboxRows:
    """Changes of the outbox in the next commit of a namespace.

    `last` is the last number, and `waiting` says how many deliveries are not done.
    """

    last: int = 0
    due: list[DueDelivery] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    waiting: int = 0

    def add_to(self, group: Group, namespace: int) -> None:
        """Move them into a group."""
        for delivery in self.due:
            group.put(Table.OUTBOX, key_of(namespace, delivery.number), delivery.record)
        for number in self.done:
            group.remove(Table.OUTBOX, key_of(namespace, number))
        self.waiting += len(self.due) - len(self.done)
        self.due, self.done = [], []
