"""The questions that tasks ask: people and agents list them, and answer them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from taskyard_server.core.errors import Conflict, NotFound
from taskyard_server.core.history import ANSWER
from taskyard_server.core.search.task_search import MAX_LOOKED_AT

from .found_task import found_task

if TYPE_CHECKING:
    from taskyard_server.core.history import Wait
    from taskyard_server.core.names import Names
    from taskyard_server.core.task import Task, TaskState

    from .namespace import NamespaceState
    from .namespaces import Namespaces
    from .steps import StepCommands

T = TypeVar("T")

NO_QUESTION: Final = "question not found"


class NewAnswer(NamedTuple):
    """An answer, by whom. `check` raises why it is none; `is_same` compares it with one that was given."""

    task_id: str
    question: str
    result: bytes
    by: str | None
    check: Callable[[Wait], None]
    is_same: Callable[[bytes], bool]


class QuestionCommands:
    """Commands on questions. `agents` are those of the caller, None for all: also as agents of the tasks' parents."""

    def __init__(self, namespaces: Namespaces, steps: StepCommands) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier
        self._steps = steps

    async def answer(self, namespace: str, answer: NewAnswer, *, agents: Names | None = None) -> TaskState:
        """Answer a question; returns the state of its task, once the answer is kept.

        Raises `NotFound`, `BadRequest`, `Conflict`, `TooLarge` or `Unavailable`.
        """
        state = self._namespaces.get_for_command(namespace, "task")
        scheduler, (task_id, question, result, by, check, _) = state.scheduler, answer
        task = scheduler.find(task_id)
        if task is not None and _may_see(state, task, agents):
            wait, asking = scheduler.parks.open_question(task, question), task

            def command() -> TaskState:
                scheduler.parks.answer(self._now(), asking, question, result, by)
                return asking.state

            if wait is not None:
                check(wait)
                return await self._barrier.give(state, command)
            agents = None
        return await self._repeated(state, answer, agents)

    async def find(
        self, namespace: str, task_id: str, question: str, *, agents: Names | None = None
    ) -> tuple[Task, Wait]:
        """An open question, with its task. Raises `NotFound`."""
        state = self._namespaces.get_for_command(namespace, "task")
        task = state.scheduler.find(task_id)
        if task is None or not _may_see(state, task, agents):
            raise NotFound("task not found")
        wait = state.scheduler.parks.open_question(task, question)
        if wait is None:
            raise NotFound(NO_QUESTION)
        return await self._barrier.give(state, lambda: (task, wait))

    async def list(
        self,
        namespace: str,
        after: int,
        limit: int,
        max_bytes: int,
        *,
        agent_id: str | None = None,
        agents: Names | None = None,
        payloads: Names | None = None,
        show: Callable[[Task, Wait, bool], tuple[T, int]],
    ) -> tuple[list[T], int | None]:
        """The open questions of up to `limit` tasks after one; and the task after which there may be more.

        `show` returns each with its size, of which a page has `max_bytes`, unless those of one task have more. It is
        told if the caller may see what is asked, who sees the contents of these `payloads`, None for all.
        """
        state = self._namespaces.find(namespace)
        if state is None:
            return [], None
        now = self._now()
        return await self._barrier.give(
            state, lambda: _page(state, now, after, limit, max_bytes, agent_id, agents, payloads, show)
        )

    async def _repeated(self, state: NamespaceState, answer: NewAnswer, agents: Names | None) -> TaskState:
        """Look what came of a question that is not open."""
        task, task_state = await found_task(self._namespaces, state, answer.task_id, agents)
        await self._barrier.kept(state)
        for step in await self._steps.kept(state, task):
            if step.kind == ANSWER and step.name == answer.question:
                if step.is_expired:
                    raise Conflict("the time of the question is over")
                if not answer.is_same(step.result or b""):
                    raise Conflict("question was answered")
                return task_state
        raise NotFound(NO_QUESTION)


def _page(
    state: NamespaceState,
    now: float,
    after: int,
    limit: int,
    max_bytes: int,
    agent_id: str | None,
    agents: Names | None,
    payloads: Names | None,
    show: Callable[[Task, Wait, bool], tuple[T, int]],
) -> tuple[list[T], int | None]:
    found: list[T] = []
    count = size = 0
    last = after
    for looked_at, task in enumerate(state.scheduler.parks.asking_after(after)):
        if count >= limit or looked_at >= MAX_LOOKED_AT:
            return found, last
        if (agent_id is None or task.agent_id == agent_id) and _may_see(state, task, agents):
            park = task.history.park
            assert park is not None
            is_shown = _may_see(state, task, payloads)
            shown = [show(task, wait, is_shown) for wait in park.waits if _is_open(wait, now)]
            size += sum([its for _, its in shown])
            if found and size > max_bytes:
                return found, last
            count += bool(shown)
            found += [each for each, _ in shown]
        last = task.seq
    return found, None


def _may_see(state: NamespaceState, task: Task, agents: Names | None) -> bool:
    """True if one of these agents submitted a task, or that from which it descends."""
    if agents is None or task.agent_id in agents:
        return True
    parent = None if task.options.parent_id is None else state.scheduler.find(task.options.parent_id)
    return parent is not None and parent.agent_id in agents


def _is_open(wait: Wait, now: float) -> bool:
    """True for a question whose time is not over; of a task that runs nobody has noticed the end."""
    return wait.kind == ANSWER and (wait.until is None or wait.until > now)
