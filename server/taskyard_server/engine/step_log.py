"""Steps of tasks on their way to a store, or where there is none, all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard_server.store.port import OutputRow, key_of
from taskyard_server.store.records.tasks import encode

if TYPE_CHECKING:
    from taskyard_server.core.runs.steps import RecordedStep
    from taskyard_server.core.task import Task
    from taskyard_server.store.port import Group
    from taskyard_server.store.records.records import StepRecord


class StepLog:
    """The steps of one namespace that wait for a commit; without a store all there are, by order of submission."""

    def __init__(self) -> None:
        self.kept: dict[int, list[StepRecord]] = {}
        self._waiting: list[tuple[int, int, StepRecord]] = []

    def keep(self, task: Task, record: StepRecord) -> None:
        """Keep a step in memory, where there is no store."""
        self.kept.setdefault(task.seq, []).append(record)

    def add(self, step: RecordedStep, record: StepRecord) -> None:
        """Let the next commit keep a step."""
        self._waiting.append((step.task.seq, step.number, record))

    def add_to(self, group: Group, namespace: int) -> None:
        """Add what came since the last commit to the next one."""
        for seq, number, record in self._waiting:
            group.outputs.append(OutputRow(key_of(namespace, seq), -number, 0, encode(record)))
        self._waiting = []
