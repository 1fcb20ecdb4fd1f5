"""Children that runs of tasks submit under names, so that later runs find them (docs/rules.md, Children)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import BadRequest, NotFound, TooLarge
from taskyard_server.core.names import Names
from taskyard_server.core.predecessors import Known
from taskyard_server.core.task import Existing
from taskyard_server.core.task_options import OnParentEnd

from .inputs import TaskInput, inputs_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from taskyard_server.core.admission import Admission
    from taskyard_server.core.leases import Lease
    from taskyard_server.core.pending import Pending
    from taskyard_server.core.reports import Reports
    from taskyard_server.core.task import Submission, Task, TaskState

    from .named_children import NamedChildren

MAX_CHILDREN: Final = 1_000
"""Of one task, over all its runs."""


class ChildTasks:
    """Commands of hosts on the children of the tasks that they run. `own_only` is as in `Reports.take_each`."""

    def __init__(self, named: NamedChildren, reports: Reports, admission: Admission, pending: Pending) -> None:
        self._named = named
        self._reports = reports
        self._admission = admission
        self._pending = pending

    def submit(
        self,
        now: float,
        host_id: str,
        task_id: str,
        token: int,
        submission: Submission,
        past: Mapping[str, TaskState],
        *,
        own_only: bool = False,
    ) -> tuple[Task, bool]:
        """Submit a child of a task under its lease, or return the one that has its name. It counts as the start.

        One that is held has the params of the newest submission, which lets it go unless it is held, too. `past` is as
        in `Known`. Raises what `Scheduler.submit` raises, `LeaseLost`, and `TooLarge` for one too many.
        """
        parent = self._reports.leased(now, host_id, task_id, token, own_only=own_only).task
        named, name = self._named, submission.options.extras.child_name
        assert name is not None
        if (known := named.find(parent, name)) is not None:
            if known.is_held:
                self._submit_again(now, known, submission)
                self._reports.note_start(now, parent)
            return known, True
        submission = _below(parent, submission)
        if len(parent.history.children) >= MAX_CHILDREN:
            raise TooLarge(f"name: a task has at most {MAX_CHILDREN} children by name")
        child = self._admission.submit(now, submission, Known(Names(frozenset((parent.agent.id,))), past))
        assert not isinstance(child, Existing)
        named.add(parent, child)
        parent.history = parent.history._replace(children=(*parent.history.children, child.seq))
        self._reports.note_left_behind(now, parent)
        return child, False

    def _submit_again(self, now: float, child: Task, submission: Submission) -> None:
        if not submission.options.hold:
            self._admission.require_open()
        self._pending.change_params(child, submission.params, submission.options.input)
        if not submission.options.hold:
            self._pending.release_hold(now, child)

    def find(
        self, now: float, host_id: str, task_id: str, token: int, name: str, *, own_only: bool = False
    ) -> TaskInput:
        """A child of a task under its lease, by its name. Raises `NotFound` or `LeaseLost`."""
        parent = self._reports.leased(now, host_id, task_id, token, own_only=own_only).task
        child = self._named.get(parent, name)
        return TaskInput(name, child.id, child)

    def handed(self, lease: Lease, name: str) -> Task | None:
        """The input, else the child, that the task of a lease has under a name; None if that is not kept any more.

        Raises `NotFound`.
        """
        for each in inputs_of(lease):
            if each.name == name:
                return each.task
        child = self._named.find(lease.task, name)
        if child is None:
            raise NotFound("input not found")
        return child


def _below(parent: Task, submission: Submission) -> Submission:
    """A submission as that of a child of this task. Raises `BadRequest` for another agent or parent, or a key."""
    options = submission.options
    if submission.agent_id not in ("", parent.agent.id):
        raise BadRequest("child.agentId: a child is of the agent of its parent")
    if options.parent_id not in (None, parent.id):
        raise BadRequest("child.parentId: a child is one of the task that submits it")
    if options.key is not None or options.extras.unique_key is not None:
        field = "uniqueKey" if options.key is None else "idempotencyKey"
        raise BadRequest(f"child.{field}: the name of a child is its key")
    policy = options.extras.on_parent_end or OnParentEnd.CANCEL
    extras = options.extras._replace(on_parent_end=policy)
    return submission._replace(agent_id=parent.agent.id, options=options._replace(parent_id=parent.id, extras=extras))
