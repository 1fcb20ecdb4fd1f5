"""Tasks, batches and targets of the embedded engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from taskyard_server.core.batches import Batch, BatchSubmission
from taskyard_server.core.errors import BadRequest, CursorExpired, NotFound, Refusal, Unavailable
from taskyard_server.core.figures.explain import Explanation, Sight, explain
from taskyard_server.core.names import EVERY_NAME, Names
from taskyard_server.core.predecessors import IN_MEMORY, Known, name_others
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.search.task_search import MAX_LOOKED_AT, search
from taskyard_server.core.state_checks import check_cancel, check_pause, check_resolve, check_resume
from taskyard_server.core.stopping_leases import StopOutcome
from taskyard_server.core.targets import Target
from taskyard_server.core.task import TERMINAL, Existing, Submission, Task, TaskState

from .answers import Answer
from .history_listing import HistoryListing
from .known_tasks import known_of
from .recent_events import LEFT_LOG
from .stop_calls import StopCall
from .views import ListedTasks

if TYPE_CHECKING:
    from .namespace import NamespaceState
    from .namespaces import Namespaces

T = TypeVar("T")
Show: TypeAlias = Callable[[Task], T]

NO_STORE: Final = "history: this server keeps none, since it has no store (store.url is memory://)"
NO_HISTORY: Final = "history: this server keeps none, since store.historyDays is 0"


class TaskCommands:
    """Commands on tasks, batches and targets.

    `agents` are those of the caller, None for all: a task or a batch of another agent is as if it were not there.
    """

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier

    async def submit(
        self,
        namespace: str,
        submission: Submission,
        *,
        agents: Names | None = None,
        show: Callable[[Task | Existing], T],
    ) -> T:
        """Admit one task. Raises `BadRequest`, `NotFound`, `Conflict`, `AlreadyExists`, `QueueFull` or `Unavailable`.

        Only tasks of these agents can be named as predecessors.
        """
        self._namespaces.require_room()
        known = IN_MEMORY
        if name_others([submission]):
            known = await self.known(namespace, [submission], agents=agents)
        state = self._namespaces.get_or_create(namespace)

        def command() -> T:
            return show(state.scheduler.submit(self._now(), submission, known))

        return command() if self._barrier.persistence is None else await self._barrier.give(state, command)

    async def known(self, namespace: str, submissions: Sequence[Submission], *, agents: Names | None = None) -> Known:
        """The predecessors that these submissions may name, right before `submit_each`. Raises `Unavailable`."""
        state, history = self._namespaces.find(namespace), self._namespaces.history
        return Known(agents) if state is None else await known_of(state, history, submissions, agents)

    def submit_each(
        self,
        namespace: str,
        submissions: Sequence[Submission],
        *,
        known: Known = IN_MEMORY,
        show: Callable[[list[Task | Existing | Refusal]], T],
    ) -> Answer[T]:
        """Admit several tasks in one step, now, each on its own. Shows each task or its refusal, in order."""
        try:
            self._namespaces.require_room()
        except Unavailable as refusal:
            return Answer(show([Unavailable(refusal.message) for _ in submissions]))
        state = self._namespaces.get_or_create(namespace)
        return self._barrier.of(state, show(state.scheduler.submit_each(self._now(), submissions, known)))

    async def submit_batch(
        self,
        namespace: str,
        submissions: Sequence[Submission],
        *,
        agents: Names | None = None,
        show: Callable[[BatchSubmission], T],
    ) -> T:
        """Admit several tasks as one batch. Raises `BadRequest` for an invalid one before any is admitted."""
        self._namespaces.require_room()
        known = IN_MEMORY
        if name_others(submissions):
            known = await self.known(namespace, submissions, agents=agents)
        state = self._namespaces.get_or_create(namespace)
        return await self._barrier.give(
            state, lambda: show(state.scheduler.submit_batch(self._now(), submissions, known))
        )

    async def get(self, namespace: str, task_id: str, *, agents: Names | None = None, show: Show[T]) -> T:
        """The task, in memory or as it ended, from the history. Raises `NotFound`."""
        state = self._namespaces.get(namespace, "task")
        if (past := await self._past(state, task_id, agents)) is not None:
            return show(past)
        return await self._read(state, task_id, agents, lambda: show(state.scheduler.get(task_id)))

    async def explain(
        self, namespace: str, task_id: str, *, agents: Names | None = None, sees_others: bool = True
    ) -> Explanation:
        """Why a task waits. Raises `NotFound`. Without `sees_others` it names no tasks but those of `agents`."""
        state = self._namespaces.get(namespace, "task")
        sight = Sight(EVERY_NAME if agents is None else agents, sees_others)
        if (past := await self._past(state, task_id, agents)) is not None:
            return explain(state.scheduler, self._now(), past, sight)
        if agents is not None and state.find(task_id, agents) is None:
            raise NotFound("task not found")
        scheduler = state.scheduler
        # Much of it is of other tasks, some of which may wait for a commit.
        return await self._barrier.give(state, lambda: explain(scheduler, self._now(), scheduler.get(task_id), sight))

    def state_of(self, namespace: str, task_id: str, host_id: str | None = None) -> TaskState | None:
        """The state of a task as it is now, which may not be kept yet: for answers that wait until it is.

        With `host_id` only of a task that was last handed to this host.
        """
        state = self._namespaces.here(namespace)
        task = None if state is None else state.scheduler.find(task_id)
        return None if task is None or host_id not in (None, task.host_id) else task.state

    async def wait(self, namespace: str, task_id: str, secs: float, *, agents: Names | None = None, show: Show[T]) -> T:
        """The task once it is terminal, or after `secs`; at once from the history. Raises `NotFound`."""
        state = self._namespaces.get(namespace, "task")
        if (past := await self._past(state, task_id, agents)) is not None:
            return show(past)
        task = await self._read(state, task_id, agents, lambda: state.scheduler.get(task_id))
        if task.state not in TERMINAL and secs > 0 and not self._namespaces.closed:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waits = state.end_waits.setdefault(task_id, set())
            waits.add(ended)
            try:
                await asyncio.wait((ended,), timeout=secs)
            finally:
                waits.discard(ended)
                if not waits and state.end_waits.get(task_id) is waits:
                    del state.end_waits[task_id]
            if state.has_left:
                raise state.absence
        return await self._read(state, task_id, None, lambda: show(task))

    async def list_tasks(
        self,
        namespace: str,
        task_filter: TaskFilter,
        after: int,
        limit: int,
        *,
        newest_first: bool = False,
        history: bool = False,
        at_once: bool = False,
    ) -> ListedTasks:
        """Up to `limit` matching tasks that come after the one numbered `after`, as copies; from the first if it is 0.

        They are in order of submission, or in the opposite one. With `history` they are those of the store, live ones
        and all that ended within the time for which these are kept, but none that was rejected. Raises `BadRequest`
        where there is no history. A page `at_once` shows its tasks as they are when this is called; it ends where the
        search would pause.
        """
        past = self._namespaces.history
        if history and past is None:
            raise BadRequest(NO_STORE if self._namespaces.persistence is None else NO_HISTORY)
        state = self._namespaces.find(namespace)
        if state is None:
            return ListedTasks([], None)
        if history and past is not None:
            await self._barrier.kept(state)
            return await HistoryListing(past, state, task_filter, after, limit, newest_first).page()
        page = await self._list_tasks(state, task_filter, after, limit, newest_first, at_once)
        return await self._barrier.of(state, page)

    async def changed_since(
        self, namespace: str, commit: int, ms: int, *, agents: Names | None = None
    ) -> AsyncIterator[list[Task]]:
        """The tasks that changed after a commit, which was at `ms`, as they stand now; rejected ones are not kept.

        Those in memory are shown as they are when the next are asked for, the others as of their `commit`. Raises
        `CursorExpired` where some of them may have been forgotten, and `Unavailable`.
        """
        namespaces, state = self._namespaces, self._namespaces.find(namespace)
        if namespaces.remembers_secs(state) < self._now() - ms / 1000:
            raise CursorExpired(LEFT_LOG)
        if state is None:
            return
        after: int | None = 0
        while after is not None:
            page = await self.list_tasks(namespace, TaskFilter(agents=agents), after, MAX_LOOKED_AT, at_once=True)
            yield [task for task in page.tasks if task.commit > commit]
            after = page.next_after
        if namespaces.history is not None:
            async for tasks in namespaces.history.ended_since(state, ms):
                yield [task for task in tasks if task.commit > commit and (agents is None or task.agent_id in agents)]

    def untold(self, namespace: str) -> int:
        """How many events of the namespace, which its tasks show already, listeners are still to hear of."""
        state = self._namespaces.here(namespace)
        return 0 if state is None else state.untold + state.scheduler.view.event_count

    async def cancel(
        self, namespace: str, task_id: str, *, reason: str | None = None, agents: Names | None = None, show: Show[T]
    ) -> T:
        """Cancel a task. Raises `NotFound` or `Conflict`; for a `reason` also `Unavailable`, here and below."""

        def cancel(state: NamespaceState) -> T:
            return show(state.scheduler.cancel(self._now(), task_id, reason))

        return await self._command(namespace, task_id, agents, cancel, self._check_cancel(namespace))

    async def pause(
        self, namespace: str, task_id: str, *, reason: str | None = None, agents: Names | None = None, show: Show[T]
    ) -> T:
        """Pause a task in flight. Raises `NotFound` or `Conflict`."""

        def pause(state: NamespaceState) -> T:
            return show(state.scheduler.pause(self._now(), task_id, reason))

        return await self._command(namespace, task_id, agents, pause, check_pause)

    async def cancel_and_wait(
        self,
        namespace: str,
        task_id: str,
        secs: float,
        *,
        with_children: bool = False,
        reason: str | None = None,
        agents: Names | None = None,
        show: Show[T],
    ) -> tuple[T, int, StopOutcome]:
        """Cancel a task, and `with_children` what descends from it and has not ended; and with how many these were.

        It waits up to `secs` until nothing runs any more of what was cancelled. Raises `NotFound`, or `Conflict` where
        nothing can be cancelled.
        """

        def cancel(state: NamespaceState, call: StopCall) -> tuple[T, int]:
            scheduler, now = state.scheduler, self._now()
            tasks = [scheduler.get(task_id)]
            if not with_children:
                return show(call.run(now, tasks, lambda: scheduler.cancel(now, task_id, reason))), 0
            tasks += scheduler.view.live_below(task_id)
            task, count = call.run(now, tasks, lambda: scheduler.cancel_with_children(now, task_id, agents, reason))
            return show(task), count

        check = self._check_cancel(namespace)
        (shown, count), outcome = await self._command_and_wait(namespace, task_id, agents, secs, cancel, check)
        return shown, count, outcome

    async def pause_and_wait(
        self,
        namespace: str,
        task_id: str,
        secs: float,
        *,
        reason: str | None = None,
        agents: Names | None = None,
        show: Show[T],
    ) -> tuple[T, StopOutcome]:
        """Pause a task in flight, and wait up to `secs` until nothing of it runs any more."""

        def pause(state: NamespaceState, call: StopCall) -> T:
            scheduler, now = state.scheduler, self._now()
            return show(call.run(now, [scheduler.get(task_id)], lambda: scheduler.pause(now, task_id, reason)))

        return await self._command_and_wait(namespace, task_id, agents, secs, pause, check_pause)

    async def resume(
        self,
        namespace: str,
        task_id: str,
        target: str | None = None,
        token_limit: int | None = None,
        *,
        agents: Names | None = None,
        show: Show[T],
    ) -> T:
        """Requeue a paused or failed task, or release a held one. `token_limit` replaces the limit of the task.

        Raises `NotFound`, `Conflict`, `BadRequest` or `Unavailable`.
        """

        def resume(state: NamespaceState) -> T:
            return show(state.scheduler.resume(self._now(), task_id, target, token_limit))

        return await self._command(namespace, task_id, agents, resume, partial(check_resume, target=target))

    async def resolve(
        self,
        namespace: str,
        task_id: str,
        result: bytes | None,
        *,
        reason: str | None = None,
        agents: Names | None = None,
        show: Show[T],
    ) -> T:
        """End a paused or failed task as done. Raises `NotFound` or `Conflict`."""

        def resolve(state: NamespaceState) -> T:
            return show(state.scheduler.resolve(self._now(), task_id, result, reason))

        return await self._command(namespace, task_id, agents, resolve, check_resolve)

    async def get_batch(
        self, namespace: str, batch_id: str, *, agents: Names | None = None, show: Callable[[Batch], T]
    ) -> T:
        """The batch. Raises `NotFound`."""
        state = self._namespaces.get(namespace, "batch")
        return await self._barrier.give(state, lambda: show(_batch(state, batch_id, agents)))

    async def cancel_batch(
        self, namespace: str, batch_id: str, *, reason: str | None = None, agents: Names | None = None
    ) -> int:
        """Cancel the tasks of a batch that have not ended. Returns how many were cancelled. Raises `NotFound`."""
        state = self._namespaces.get_for_command(namespace, "batch")

        def cancel() -> int:
            _batch(state, batch_id, agents)
            return state.scheduler.cancel_batch(self._now(), batch_id, reason)

        return await self._barrier.give(state, cancel)

    async def list_targets(self, namespace: str, after: str, *, show: Callable[[list[Target]], T]) -> T:
        """The targets with a name above `after`, ordered by name."""
        state = self._namespaces.find(namespace)
        if state is None:
            return show([])
        return await self._barrier.give(state, lambda: show(state.scheduler.targets.after(after)))

    async def _command(
        self,
        namespace: str,
        task_id: str,
        agents: Names | None,
        command: Callable[[NamespaceState], T],
        check: Callable[[Task], None],
    ) -> T:
        """Run a command about a task. One that has left memory is brought back, if `check` allows the command."""
        state = self._namespaces.get_for_command(namespace, "task")
        history = self._namespaces.history
        if history is not None and state.find(task_id, agents) is None:
            await history.bring_back(state, [task_id], check, agents)
            state = self._namespaces.get_for_command(namespace, "task")

        def run() -> T:
            if agents is not None and state.find(task_id, agents) is None:
                raise NotFound("task not found")
            return command(state)

        return await self._barrier.give(state, run)

    async def _command_and_wait(
        self,
        namespace: str,
        task_id: str,
        agents: Names | None,
        secs: float,
        command: Callable[[NamespaceState, StopCall], T],
        check: Callable[[Task], None],
    ) -> tuple[T, StopOutcome]:
        """Run a command about a task, and wait up to `secs` until its host has stopped."""
        calls: list[StopCall] = []

        def run(state: NamespaceState) -> T:
            calls.append(StopCall(state))
            return command(state, calls[0])

        try:
            answer = await self._command(namespace, task_id, agents, run, check)
            return answer, await calls[0].outcome(0.0 if self._namespaces.closed else secs, self._barrier)
        finally:
            for call in calls:
                call.close()

    def _check_cancel(self, namespace: str) -> Callable[[Task], None]:
        """The check of a cancellation on a task that has left memory: that it blocks its target."""

        def check(task: Task) -> None:
            state = self._namespaces.here(namespace)
            check_cancel(task, state is not None and state.scheduler.targets.blocks(task))

        return check

    async def _past(self, state: NamespaceState, task_id: str, agents: Names | None) -> Task | None:
        """The task as it ended, if it has left memory."""
        history = self._namespaces.history
        if history is None or state.find(task_id, agents) is not None:
            return None
        return await history.find(state, task_id, agents)

    async def _read(self, state: NamespaceState, task_id: str, agents: Names | None, read: Callable[[], T]) -> T:
        """The result of reading one task, at once where nothing of it waits for a commit."""
        if agents is not None and state.find(task_id, agents) is None:
            raise NotFound("task not found")
        return await self._barrier.give(state, read) if state.is_unkept(task_id) else read()

    async def _list_tasks(
        self, state: NamespaceState, task_filter: TaskFilter, after: int, limit: int, newest_first: bool, at_once: bool
    ) -> ListedTasks:
        matches: list[Task] = []
        reached: int | None = after
        while reached is not None:
            room = limit + 1 - len(matches)
            found = search(state.scheduler, task_filter, reached, room, newest_first=newest_first)
            matches += [copy(task) for task in found.tasks]
            if len(matches) > limit:
                return ListedTasks(matches[:limit], matches[limit - 1].seq)
            reached = found.after
            if at_once:
                break
            if reached is not None:
                await asyncio.sleep(0)
        return ListedTasks(matches, reached)


def _batch(state: NamespaceState, batch_id: str, agents: Names | None) -> Batch:
    """The batch; raises `NotFound`, also for one of another agent than these."""
    batch = state.scheduler.batch(batch_id)
    if agents is not None and batch.agent_id not in agents:
        raise NotFound("batch not found")
    return batch
