"""Steps of tasks on their way to a store, or where there is none, all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard_server.store.port import OutputRow, key_of
from taskyard_server.store.records.tasks import encode

if TYPE_CHECKING:
    from taskyard_server.core.history import Step
    from taskyard_server.core.runs.steps import Steps, TakenStep
    from taskyard_server.store.port import Group


class StepLog:
    """The steps of one namespace that wait for a commit; those that are `kept` where there is no store, by task."""

    def __init__(self) -> None:
        self.kept: dict[int, list[Step]] = {}
        self._waiting: list[TakenStep] = []

    def collect(self, steps: Steps, has_store: bool) -> None:
        """Collect those that the core has taken."""
        taken = steps.take()
        if has_store:
            self._waiting += taken
        else:
            for each in taken:
                self.kept.setdefault(each.task.seq, []).append(each.step)

    def add_to(self, group: Group, namespace: int) -> None:
        """Add what came since the last commit to the next one."""
        for each in self._waiting:
            group.outputs.append(OutputRow(key_of(namespace, each.task.seq), -each.number, 0, encode(each.step)))
        self._waiting = []
