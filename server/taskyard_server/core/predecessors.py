"""Which tasks wait for others to end (docs/rules.md, Predecessors).

A task that waits stands below each of its predecessors that are in memory, whether that has ended or not, until it is
queued or ends itself. So these stay retained, and how it stands follows from how they stand now: after a restart it is
found again from the tasks alone. What a change of a predecessor brings about is found by looking at its followers one
by one, in `act_on_one`, so that thousands of them hold nobody up. A predecessor that is in memory no longer had ended,
and was judged when the task came.

A task stands below those whose results it is handed until it has ended for good, or is forgotten (docs/rules.md,
Inputs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from .errors import Conflict, NotFound
from .names import Names
from .task import CANCELLED, DONE, FAILED, NO_EXTRAS, REJECTED, TaskState
from .task_options import AfterPolicy, OnParentEnd

if TYPE_CHECKING:
    from .targets import Targets
    from .task import Submission, Task
    from .task_options import TaskExtras
    from .task_table import TaskTable

ENDED: Final = AfterPolicy.ENDED


class Known(NamedTuple):
    """Tasks that a submission may name: those in memory of these `agents`, None for all, and some that have left it.

    `past` says how those ended, by their ids.
    """

    agents: Names | None = None
    past: Mapping[str, TaskState] = MappingProxyType({})


IN_MEMORY: Final = Known()


def name_others(submissions: Sequence[Submission]) -> bool:
    """True if one of these submissions comes after tasks that it names, or ends with its parent."""
    for submission in submissions:
        extras = submission.options.extras
        if extras is not NO_EXTRAS and (extras.after or extras.inputs or extras.on_parent_end is OnParentEnd.CANCEL):
            return True
    return False


class Verdict(IntEnum):
    """The state of a task by its predecessors: it may go, has to wait, or will never go."""

    CLEAR = 0
    WAITS = 1
    FAILED = 2


class Following:
    """The predecessors of a new task: `tasks` in memory, and what all of them mean for it.

    `failed` is the id of the first one that keeps it from ever being run.
    """

    __slots__ = ("failed", "tasks", "verdict")

    def __init__(self, tasks: list[Task], verdict: Verdict, failed: str | None) -> None:
        self.tasks = tasks
        self.verdict = verdict
        self.failed = failed


class Predecessors:
    """The tasks of one namespace that wait for others.

    `on_judged` is called with a task, what its predecessors mean for it now, and the id of the one that has failed;
    `on_let_go` with a predecessor that nobody waits for any more.
    """

    def __init__(self, tasks: TaskTable, targets: Targets) -> None:
        self._tasks = tasks
        self._targets = targets
        self.on_judged: Callable[[float, Task, Verdict, str | None], None]
        self.on_let_go: Callable[[Task], None]
        self.followers: dict[Task, dict[Task, None]] = {}
        """By a predecessor the tasks that stand below it. It is retained while it is here."""
        self.inputs: dict[Task, tuple[Task | None, ...]] = {}
        """By a task the inputs of it, in the order of its options; None for one that is not kept any more."""
        self._waiting: dict[Task, list[Task]] = {}
        self._clear: dict[Task, None] = {}
        # Predecessors that changed, and tasks to look at, the next one last.
        self._changed: dict[Task, None] = {}
        self._next: list[Task] = []
        self._since = 0.0

    def __len__(self) -> int:
        """How many tasks wait for others to end."""
        return len(self._waiting) - len(self._clear)

    def find(self, extras: TaskExtras, known: Known) -> Following:
        """The predecessors of a task with these extras.

        Raises `NotFound` for one that is not known, and `Conflict` for one that was rejected.
        """
        agents, past = known
        tasks: list[Task] = []
        failed = None
        waits = False
        is_ended_enough = extras.after_policy is ENDED
        inputs = {task_id for _, task_id in extras.inputs}
        for task_id in extras.predecessors:
            task = self._tasks.get(task_id)
            if task is not None and agents is not None and task.agent.id not in agents:
                task = None
            elif task is None and task_id in past and task_id not in inputs:
                if not is_ended_enough and past[task_id] is not DONE:
                    failed = failed or task_id
                continue
            field = "inputs" if task_id in inputs else "after"
            if task is None:
                raise NotFound(f"{field}: task {task_id} not found")
            if task.state is REJECTED:
                raise Conflict(f"{field}: task {task_id} was rejected")
            tasks.append(task)
            verdict = self._judge(task, is_ended_enough)
            if verdict is Verdict.FAILED:
                failed = failed or task_id
            elif verdict is Verdict.WAITS:
                waits = True
        if failed is not None:
            return Following(tasks, Verdict.FAILED, failed)
        return Following(tasks, Verdict.WAITS if waits else Verdict.CLEAR, None)

    def add(self, task: Task, predecessors: list[Task]) -> None:
        """A pending task stands below its predecessors, until `leave`."""
        self._waiting[task] = predecessors
        for each in predecessors:
            self._put_below(each, task)

    def keep_inputs(self, task: Task) -> None:
        """A task stands below its inputs that are in memory, until `let_inputs_go`."""
        inputs = tuple([self._tasks.get(task_id) for _, task_id in task.options.extras.inputs])
        self.inputs[task] = inputs
        for each in inputs:
            if each is not None:
                self._put_below(each, task)

    def require_inputs(self, task: Task) -> None:
        """Raise `Conflict` unless all inputs of a task that is here are kept."""
        names = [name for name, _ in task.options.extras.inputs]
        for name, each in zip(names, self.inputs[task], strict=True):
            if each is None:
                raise Conflict(f"inputs: {name} is no longer kept")

    def let_inputs_go(self, task: Task) -> None:
        """A task has ended for good, or is forgotten. Nothing happens if it is not here."""
        for each in dict.fromkeys(self.inputs.pop(task, ())):
            if each is not None:
                self._take_from_below(each, task)

    def clear(self, task: Task) -> None:
        """Those that a task comes after have ended, though something else keeps it pending."""
        self._clear[task] = None

    def restore(self, now: float, task: Task) -> Verdict:
        """Add a stored task that has not been queued yet; all tasks are there. What is to follow comes by `act_on_one`.

        Raises `ValueError` if it does not come after earlier ones alone: so there are no circles.
        """
        found = [self._tasks.get(task_id) for task_id in task.options.extras.predecessors]
        predecessors = [each for each in found if each is not None]
        for each in predecessors:
            if each.seq >= task.seq:
                raise ValueError(f"{task.id} comes after {each.id}, which is no earlier one")
        self.add(task, predecessors)
        verdict, _ = self._verdict(task)
        if verdict is Verdict.CLEAR:
            self._clear[task] = None
        is_next = verdict is Verdict.CLEAR and not task.history.held and task.history.not_before is None
        if is_next or verdict is Verdict.FAILED:
            self._look_at(now, task)
        return verdict

    def holds_back(self, task: Task) -> bool:
        """True if a pending task has to wait for others, or comes after one that has failed."""
        return task in self._waiting and self._verdict(task)[0] is not Verdict.CLEAR

    def awaited_by(self, task: Task) -> list[Task]:
        """The tasks that a task waits for, in the order in which it names them."""
        is_ended_enough = task.options.extras.after_policy is ENDED
        predecessors = self._waiting.get(task, [])
        return [each for each in predecessors if self._judge(each, is_ended_enough) is Verdict.WAITS]

    def leave(self, task: Task) -> None:
        """A task waits no longer: it is queued, or has ended. Nothing happens if it is not here."""
        predecessors = self._waiting.pop(task, None)
        if predecessors is None:
            return
        self._clear.pop(task, None)
        inputs = self.inputs.get(task, ())
        for each in predecessors:
            if each not in inputs:
                self._take_from_below(each, task)

    def changed(self, now: float, task: Task) -> None:
        """A task has ended, or was resumed: what comes after it, if anything does, is to be looked at."""
        if task not in self.followers:
            return
        if not self._changed and not self._next:
            self._since = now
        self._changed[task] = None

    def next_due(self) -> float | None:
        """Since when followers are to be looked at; None if none is."""
        return self._since if self._changed or self._next else None

    def act_on_one(self, now: float) -> bool:
        """Look at the next follower, and let it go or cancel it; False if none is to be looked at."""
        if not self._next:
            if not self._changed:
                return False
            task = next(iter(self._changed))
            del self._changed[task]
            self._next = list(self.followers.get(task, ()))
            self._next.reverse()
            return True
        task = self._next.pop()
        if task in self._waiting:
            self._look(now, task)
        return True

    def _put_below(self, predecessor: Task, task: Task) -> None:
        below = self.followers.get(predecessor)
        if below is None:
            below = self.followers[predecessor] = {}
        below[task] = None

    def _take_from_below(self, predecessor: Task, task: Task) -> None:
        below = self.followers[predecessor]
        del below[task]
        if not below:
            del self.followers[predecessor]
            self.on_let_go(predecessor)

    def _look(self, now: float, task: Task) -> None:
        verdict, failed = self._verdict(task)
        if verdict is Verdict.WAITS:
            self._clear.pop(task, None)
        elif verdict is Verdict.CLEAR:
            self._clear[task] = None
        self.on_judged(now, task, verdict, failed)

    def _look_at(self, now: float, task: Task) -> None:
        if not self._changed and not self._next:
            self._since = now
        self._next.append(task)

    def _verdict(self, task: Task) -> tuple[Verdict, str | None]:
        is_ended_enough = task.options.extras.after_policy is ENDED
        waits = Verdict.CLEAR
        for each in self._waiting[task]:
            verdict = self._judge(each, is_ended_enough)
            if verdict is Verdict.FAILED:
                return verdict, each.id
            if verdict is Verdict.WAITS:
                waits = verdict
        return waits, None

    def _judge(self, task: Task, is_ended_enough: bool) -> Verdict:
        """The meaning of one predecessor. One that blocks its target may still be resumed or resolved."""
        state = task.state
        if state is DONE:
            return Verdict.CLEAR
        if state is FAILED or state is CANCELLED:
            if is_ended_enough:
                return Verdict.CLEAR
            if state is FAILED and task.options.target is not None and self._targets.blocks(task):
                return Verdict.WAITS
            return Verdict.FAILED
        return Verdict.WAITS


def failed_text(task_id: str | None) -> str:
    """The error of a task that is cancelled since a predecessor has failed."""
    return f"predecessor {task_id} failed"
