"""Which live tasks descend from which, in the model (docs/rules.md, Parents): every question is a look at all tasks."""

from __future__ import annotations

from .model_records import ENDED, Job


class Families:
    """The descendants among `tasks`.

    `absent` are the parents of tasks that have left memory while something below them lived, and still does.
    """

    def __init__(self, tasks: dict[str, Job]) -> None:
        self._tasks = tasks
        self.absent: dict[str, str] = {}

    def below(self, task_id: str) -> list[Job]:
        """The live tasks that descend from one."""
        its = [job for job in self._tasks.values() if job.wish.parent]
        parents = self.absent | {job.id: job.wish.parent or "" for job in its}
        return [job for job in its if job.state not in ENDED and _descends(job.id, task_id, parents)]

    def leaves(self, job: Job) -> None:
        """A task is forgotten."""
        if job.wish.parent and self.below(job.id):
            self.absent[job.id] = job.wish.parent

    def more_come(self) -> None:
        """Nobody finds what comes now by tasks that are gone and that nothing lives below."""
        self.absent = {name: parent for name, parent in self.absent.items() if self.below(name)}


def _descends(task_id: str, ancestor: str, parents: dict[str, str]) -> bool:
    while task_id in parents:
        task_id = parents[task_id]
        if task_id == ancestor:
            return True
    return False
