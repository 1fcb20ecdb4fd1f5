"""The artifacts of tasks: large values that a run leaves behind, of which the task has the name, the size and the hash.

The bytes are elsewhere. A host puts artifacts under its lease, a submitter those of a task that is held, as the host
does that submits a child under the lease of its parent (docs/rules.md, Artifacts, Children).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from taskyard_server.core.errors import NOT_YET, Conflict, NotFound, TooLarge, Unavailable
from taskyard_server.core.reports import NO_TASK

if TYPE_CHECKING:
    from taskyard_server.core.history import Artifact
    from taskyard_server.core.leases import Lease
    from taskyard_server.core.limits import Limits
    from taskyard_server.core.names import Names
    from taskyard_server.core.readers import ReaderRules
    from taskyard_server.core.reports import Reports
    from taskyard_server.core.task import Task
    from taskyard_server.core.task_table import TaskTable

    from .named_children import NamedChildren

MAX_ARTIFACTS: Final = 100
"""Of one task."""


class Right(NamedTuple):
    """The right to put artifacts of a task: a lease, with this `token`, of a host; or, without a host, a hold.

    With a lease and the name of a `child` it is a right to that child of the task, as long as this is held. `own_only`
    is whether a task that was last handed to another host is not found. `agents` are those of the caller, None for all.
    """

    task_id: str
    host_id: str | None = None
    token: int = 0
    own_only: bool = False
    agents: Names | None = None
    child: str = ""

    @property
    def task_token(self) -> int:
        """The token of the lease of the task that gets the artifacts; 0 if it is held."""
        return 0 if self.child else self.token


class Part(NamedTuple):
    """A part of an artifact that is uploaded. With the hash of the whole it is the last; `size` is that, if known."""

    name: str
    media_type: str
    offset: int
    data: bytes
    size: int | None
    sha256: bytes | None


class Artifacts:
    """The artifacts of the tasks of one namespace, which are `used` bytes in all, as far as that is known.

    Those that are under way count by what has come of them.
    """

    def __init__(
        self, tasks: TaskTable, named: NamedChildren, reports: Reports, readers: ReaderRules, limits: Limits
    ) -> None:
        self._tasks = tasks
        self._named = named
        self._reports = reports
        self._readers = readers
        self.limits = limits
        self.used = 0

    @property
    def has_any(self) -> bool:
        """True if any task may have artifacts."""
        return self.used > 0

    def leased(self, now: float, right: Right) -> Lease:
        """The lease that a host has. Raises `NotFound`, `LeaseLost`."""
        assert right.host_id is not None
        return self._reports.leased(now, right.host_id, right.task_id, right.token, own_only=right.own_only)

    def forget(self, task: Task) -> bool:
        """A task has left memory, and no history keeps it; true if it had artifacts."""
        self.used -= sum([each.size for each in task.history.artifacts])
        return bool(task.history.artifacts)

    def admit(self, task: Task, name: str, size: int, come: int = 0, under_way: Sequence[int] = ()) -> None:
        """Check that a task may get an artifact of this name and of at least this size.

        `come` are the bytes of it that have come, and `under_way` those of each other one that is uploaded to the task.

        Raises `TooLarge`, and `Unavailable` while an earlier version may come to serve the namespace.
        """
        if not self._readers.allows_artifacts:
            raise Unavailable(f"artifacts: {NOT_YET}")
        others = [each for each in task.history.artifacts if each.name != name]
        if len(others) + len(under_way) >= MAX_ARTIFACTS:
            raise TooLarge(f"name: a task has at most {MAX_ARTIFACTS} artifacts")
        limits, kept = self.limits, find(task, name)
        if sum([each.size for each in others]) + sum(under_way) + size > limits.max_artifact_bytes:
            raise TooLarge(f"content: the artifacts of a task may have {limits.max_artifact_bytes} bytes in all")
        if self.used - (0 if kept is None else kept.size) - come + size > limits.max_namespace_artifact_bytes:
            most = limits.max_namespace_artifact_bytes
            raise TooLarge(f"content: the artifacts of a namespace may have {most} bytes in all")

    def put(self, now: float, right: Right, artifact: Artifact, come: int = 0) -> Artifact | None:
        """Give a task an artifact, in the place of the one of its name, which is returned.

        Raises as `task_of` and `admit` do.

        It counts as the start of a run that has not been reported.
        """
        task = self.task_of(now, right)
        self.admit(task, artifact.name, artifact.size, come)
        artifacts = task.history.artifacts
        replaced = find(task, artifact.name)
        others = tuple([each for each in artifacts if each is not replaced])
        task.history = task.history._replace(artifacts=(*others, artifact))
        self.used += artifact.size - come - (0 if replaced is None else replaced.size)
        self._reports.note_left_behind(now, task)
        return replaced

    def task_of(self, now: float, right: Right) -> Task:
        """The task that gets the artifacts. Raises `NotFound`, `LeaseLost`, and `Conflict` for one that is not held."""
        if right.host_id is not None:
            parent = self.leased(now, right).task
            return self._held_child(parent, right.child) if right.child else parent
        task = self._tasks.get(right.task_id)
        if task is None or (right.agents is not None and task.agent_id not in right.agents):
            raise NotFound(NO_TASK)
        if not task.is_held:
            raise Conflict("task is not held")
        return task

    def _held_child(self, parent: Task, name: str) -> Task:
        child = self._named.get(parent, name)
        if not child.is_held:
            raise Conflict("child is not held")
        return child


def find(task: Task, name: str) -> Artifact | None:
    """The artifact of a task that has this name."""
    for artifact in task.history.artifacts:
        if artifact.name == name:
            return artifact
    return None
