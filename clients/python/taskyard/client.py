"""The client: submit tasks, follow them and end them, over one connection, with asyncio."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self, Unpack

from taskyard.v1 import sample_pb2, stats_pb2, target_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.batch_pb2_grpc import BatchServiceStub
from taskyard.v1.operation_pb2_grpc import OperationServiceStub
from taskyard.v1.stats_pb2_grpc import StatsServiceStub
from taskyard.v1.target_pb2_grpc import TargetServiceStub
from taskyard.v1.task_pb2_grpc import TaskServiceStub

from .calls.artifacts import Content
from .calls.bulk import BulkCalls
from .calls.calls import Calls
from .calls.ending import EndingCalls
from .calls.listing import TaskFilters, list_request
from .calls.namespaces import Namespaces
from .calls.operations import Operations
from .calls.rules import Agents, Limits
from .calls.runs import RunCalls
from .calls.schedules import Schedules
from .calls.submit import SubmitCalls
from .calls.tasks import get_whole_batch
from .connection.credentials import Addresses, CredentialOptions, find_credentials
from .connection.servers import Servers
from .records.artifacts import Artifact
from .records.batches import Batch
from .records.demand import PoolDemand
from .records.explanations import Explanation
from .records.output import OutputChunk
from .records.samples import Sample
from .records.stats import Stats
from .records.targets import Target, TargetStatus
from .records.tasks import Task
from .records.weights import AgentShare
from .renamed import either
from .streams.output_reading import OnDropped
from .streams.task_desk import SubmitMiddleware, TaskDesk
from .streams.watching import TaskEvent
from .values.convert import Span, seconds, state_filter, timestamp_from
from .values.payloads import Codec

TIMEOUT_SECS: Final = 30.0
PATIENCE_SECS: Final = 30.0


class Client(SubmitCalls, EndingCalls, BulkCalls, RunCalls):
    """Calls a Taskyard server. Create it in a running event loop and close it, best by `async with`.

    Calls that are safe to repeat are repeated while the server is unavailable, and all calls that came to a server that
    does not own the namespace. Every method raises a `TaskyardError` if
    the server refuses the call: beside the errors that it lists, `BadRequest`, `Unauthenticated`, `PermissionDenied`,
    `Unavailable` (after `patience`), `DeadlineExceeded` (after `timeout`), `Internal`, and `ClientClosed` once the
    client is closed.

    Attributes:
        schedules: The calls about schedules, which submit tasks by themselves.
        namespaces: The calls about namespaces, that of the client and others.
        limits: The calls about limits of concurrency keys.
        agents: The calls about weights of agents.
        operations: The calls about what is done to many tasks at once.

    Args:
        address: Where the server listens: `HOST:PORT`, `https://HOST:PORT`, or a target of gRPC. Several servers that
            do the same work: their addresses in one text, separated by commas, or in a list. Default TASKYARD_ADDRESS,
            that of the profile, or `127.0.0.1:50051`.
        agent_id: The agent that submits the tasks that name no other. Default TASKYARD_AGENT, or none.
        namespace: The namespace to act in. Default TASKYARD_NAMESPACE, that of the profile, or `default`.
        timeout: How long the answer to a call may take, in seconds or as a timedelta. Default 30 s.
        patience: How long calls are repeated during an outage, in seconds or as a timedelta. Default 30 s.
        codec: Encodes all inputs, and decodes inputs and outputs; the hosts need the same. Default none.
        middleware: What is called around each submit but those of batches, the outermost first:
            `async def (task, call_next)`, which returns `await call_next(task)`. Default none.
        agent: The old name of `agent_id`.
        **access: Who it is, and how the connection is encrypted, see `CredentialOptions`. Default what the environment
            or a profile says.

    Raises:
        ValueError: The address, the namespace or a token is malformed, a file cannot be read, or the token would be
            sent in the clear to another machine.
        RuntimeError: This process was forked from one that has used a client.
    """

    def __init__(
        self,
        address: Addresses = None,
        *,
        agent_id: str = "",
        namespace: str | None = None,
        timeout: Span = TIMEOUT_SECS,
        patience: Span = PATIENCE_SECS,
        codec: Codec | None = None,
        middleware: Sequence[SubmitMiddleware] = (),
        agent: str | None = None,
        **access: Unpack[CredentialOptions],
    ) -> None:
        agent_id = either(agent_id, agent, "agent", "agent_id") or os.environ.get("TASKYARD_AGENT", "")
        credentials = find_credentials(address, namespace, **access)
        timeout_secs, patience_secs = seconds(timeout), seconds(patience)
        self._servers = Servers(credentials)
        self._calls = Calls(credentials, timeout_secs, patience_secs, self._servers.notice)
        self._tasks = TaskServiceStub(self._servers.unary)
        self._batches = BatchServiceStub(self._servers.unary)
        self._figures = StatsServiceStub(self._servers.unary)
        self._targets = TargetServiceStub(self._servers.unary)
        self._bulk = OperationServiceStub(self._servers.unary)
        self._desk = TaskDesk(self._calls, self._servers, credentials, timeout_secs, patience_secs, agent_id, codec)
        self._desk.middleware = tuple(middleware)
        self.schedules: Final = Schedules(self._calls, self._servers, agent_id, codec)
        self.namespaces: Final = Namespaces(self._calls, self._servers)
        self.limits: Final = Limits(self._calls, self._servers)
        self.agents: Final = Agents(self._calls, self._servers)
        self._operations = Operations(self._calls, self._servers)
        self.operations: Final = self._operations

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait until every submitted task has its answer, then close the connection and end all other calls.

        Tasks that were submitted with `cancel_on_exit` are cancelled unless their end is known; that takes 5 s at most.
        Cancelled, it also gives up the submitted tasks. Calls that it ends raise `ClientClosed`.
        """
        self._calls.closed = True
        try:
            await self._desk.close()
        finally:
            await self._desk.completions.close()
            # Closing the channel ends its calls, but the readers of its streams would wait forever.
            for call in tuple(self._desk.watches):
                call.cancel()
            await self._servers.close()

    # Reading

    async def get(self, task_id: str) -> Task:
        """Get one task.

        Args:
            task_id: The task.

        Returns:
            The task as it is now.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
        """
        return await self._desk.get(task_id)

    async def wait(self, task_id: str, timeout: Span | None = None) -> Task:  # noqa: ASYNC109
        """Wait until a task has ended.

        Args:
            task_id: The task.
            timeout: How long to wait, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            The ended task.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            TimeoutError: The task has not ended in time.
        """
        return await self._desk.wait(task_id, timeout)

    def list(self, **filters: Unpack[TaskFilters]) -> AsyncGenerator[Task, None]:
        """List the retained tasks that match all given filters, in order of submission, one page after the other.

        Args:
            **filters: Filters, the order, and whether to list the history, see `TaskFilters`. Default all.

        Returns:
            An iterator over the tasks.

        Raises:
            TypeError: A filter is unknown, or `states` is one state instead of several.
            ValueError: A time has no time zone.
        """
        request = list_request(filters)

        def convert(message: pb.Task) -> Task:
            return Task.from_message(message, self._desk.codec)

        return self._calls.listed(self._tasks.ListTasks, request, "tasks", convert)

    def targets(
        self, status: TargetStatus | str | None = None, *, page_size: int | None = None
    ) -> AsyncGenerator[Target, None]:
        """List the targets that have tasks which wait, run or block, by name, one page after the other.

        Args:
            status: Only targets with this status. Default all.
            page_size: Targets per page, at most 1,000. Default 1,000.

        Returns:
            An iterator over the targets.

        Raises:
            ValueError: The status is unknown.
        """
        request = target_pb2.ListTargetsRequest(page_size=page_size)
        if status is not None:
            request.status = target_pb2.Target.Status.Value(TargetStatus(status).value)
        return self._calls.listed(self._targets.ListTargets, request, "targets", Target.from_message)

    async def get_batch(self, batch_id: str) -> Batch:
        """Get a batch with all of its retained tasks.

        Args:
            batch_id: The batch.

        Returns:
            The batch as it is now.

        Raises:
            NotFound: There is no such batch, or it is no longer retained.
        """
        return await get_whole_batch(self._calls, self._batches, batch_id, self._desk.codec)

    async def stats(self) -> Stats:
        """Get the figures of the client's namespace.

        Returns:
            The figures as they are now.
        """
        return Stats.from_message(await self._calls.sure(self._figures.GetStats, stats_pb2.GetStatsRequest()))

    async def samples(self, *, after: datetime | None = None) -> Sequence[Sample]:
        """Get the figures of the client's namespace over the last hour, one sample every ten seconds.

        Args:
            after: Only samples taken after this time. It has a time zone. Default: all that there are.

        Returns:
            The samples, oldest first.
        """
        request = sample_pb2.ListSamplesRequest(after=None if after is None else timestamp_from(after))
        answer = await self._calls.sure(self._figures.ListSamples, request)
        return [Sample.from_message(sample) for sample in answer.samples]

    async def explain(self, task_id: str) -> Explanation:
        """Find out why a task waits.

        Args:
            task_id: The task.

        Returns:
            Every reason, each by itself, and how many tasks are ahead of it. As text it has a line for each.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
        """
        return await self._desk.explain(task_id)

    def fairness(self, *, page_size: int | None = None) -> AsyncGenerator[AgentShare, None]:
        """List how the tasks in flight are shared among the agents, and how they should be, one page after the other.

        Args:
            page_size: Agents per page, at most 1,000. Default 1,000.

        Returns:
            An iterator over the agents that have tasks, or were handed some in the last 10 minutes, by name.
        """
        request = stats_pb2.GetFairnessRequest(page_size=page_size)
        return self._calls.listed(self._figures.GetFairness, request, "agents", AgentShare.from_message)

    async def demand(self) -> Sequence[PoolDemand]:
        """Get what the configured pools of hosts have to do.

        Returns:
            The pools, by name.
        """
        answer = await self._calls.sure(self._figures.GetDemand, stats_pb2.GetDemandRequest())
        return [PoolDemand.from_message(pool) for pool in answer.pools]

    def watch(
        self,
        *,
        task_ids: Sequence[str] = (),
        batch_id: str | None = None,
        agent_id: str | None = None,
        target: str | None = None,
        states: Iterable[str] = (),
        include_current: bool = False,
        until_ended: bool = False,
        cursor: str | None = None,
        on_gap: Callable[[str], None] | None = None,
        agent: str | None = None,
    ) -> AsyncGenerator[TaskEvent, None]:
        """Watch the tasks that match all given filters, from now on.

        A broken connection is resumed without a gap or a repetition. If the server's event log no longer reaches back
        far enough, or the server was started anew, `on_gap` is called and all tasks are shown again, by events of the
        kind `current`; those that a server without a store has lost are not among them.

        The states `done`, `cancelled` and `rejected` are final. A `failed` task can still leave its state: `resume`
        queues it again, `resolve` makes it `done`, and while it blocks its target `cancel` makes it `cancelled`, each
        with an event. So a count of ended tasks uses `until_ended`: then nothing follows the first event by which a
        task has ended.

        Args:
            task_ids: Only these tasks. Default all.
            batch_id: Only tasks of this batch. Default all.
            agent_id: Only tasks of this agent. Default all.
            target: Only tasks of this target. Default all.
            states: Only events after which a task is in one of these states. Default all.
            include_current: Whether the tasks are first shown as they are now. Default False.
            until_ended: Whether it ends once all tasks of `task_ids` or `batch_id` have ended, and shows each end once.
                Default False: never.
            cursor: The cursor of an event to begin after. Default now.
            on_gap: Called with the reason when events may be missing. Default nothing. Watching goes on.
            agent: The old name of `agent_id`.

        Returns:
            An iterator over the events. It raises `Unavailable` after an outage longer than `patience`; the cursor of
            the last event is where to continue.

        Raises:
            TypeError: `states` is one state instead of several.
            ClientClosed: The client is closed.
        """
        self._calls.check_open()
        request = pb.WatchTasksRequest(
            task_ids=task_ids,
            batch_id=batch_id,
            agent_id=either(agent_id, agent, "agent", "agent_id"),
            target=target,
            state=state_filter(states),
            include_current=include_current or None,
            until_ended=until_ended or None,
            cursor=cursor,
        )
        return self._desk.watch(request, on_gap)

    def output(
        self,
        task_id: str,
        *,
        after: int = 0,
        channels: Iterable[str] = (),
        follow: bool = False,
        on_dropped: OnDropped | None = None,
    ) -> AsyncGenerator[OutputChunk, None]:
        """Read what a task has said, over all its attempts; any number of callers may, also long after its end.

        A broken connection is resumed without a gap or a repetition, also over a restart of the server.

        Args:
            task_id: The task.
            after: Only chunks with a greater sequence number, such as that of the last one that was read before.
                Default 0: from the oldest that is kept.
            channels: Only chunks of these channels. Default all.
            follow: Whether it goes on until the task has ended. Default False: it ends with what is kept now.
            on_dropped: Called with the number of chunks that are missing at this point, since the server has dropped
                them to make room. Default a warning is logged.

        Returns:
            An iterator over the chunks. It raises `NotFound` if there is no such task, `PermissionDenied` if its output
            is not shown to the caller, and `Unavailable` after an outage longer than `patience`; the sequence number
            of the last chunk is where to continue.

        Raises:
            TypeError: `channels` is one channel instead of several.
            ClientClosed: The client is closed.
        """
        return self._desk.output(task_id, after=after, channels=channels, follow=follow, on_dropped=on_dropped)

    async def read_artifact(self, task_id: str, name: str) -> bytes:
        """Read an artifact of a task, also over breaks, and check its hash.

        Args:
            task_id: The task.
            name: The name of the artifact.

        Returns:
            Its bytes.

        Raises:
            NotFound: There is no such task, or it has no such artifact.
            PermissionDenied: Its artifacts are not shown to the caller.
        """
        return await self._desk.artifacts.read(task_id, name)

    async def save_artifact(self, task_id: str, name: str, path: str | os.PathLike[str]) -> Artifact:
        """Save an artifact of a task in a file, which is there only once it is whole.

        Args:
            task_id: The task.
            name: The name of the artifact.
            path: The file. One that is there is replaced.

        Returns:
            The artifact.

        Raises:
            NotFound: There is no such task, or it has no such artifact.
            PermissionDenied: Its artifacts are not shown to the caller.
            OSError: The file cannot be written.
        """
        return await self._desk.artifacts.save(task_id, name, Path(path))

    async def attach_artifact(
        self, task_id: str, name: str, content: Content | str, media_type: str | None = None
    ) -> Artifact:
        """Give a held task an artifact, which its host can read. Resume the task then.

        Args:
            task_id: The task, which was submitted with `hold`.
            name: The name: letters, digits, `.`, `_` and `-`, at most 128 of them, and no `.` first.
            content: The bytes; or the path of a file, as text or `Path`.
            media_type: The media type. Default what the name says.

        Returns:
            The artifact.

        Raises:
            Conflict: The task is not held, or the server keeps no artifacts.
            TooLarge: It has more bytes than a task may have.
            OSError: The file cannot be read.
        """
        content = Path(content) if isinstance(content, str) else content
        return await self._desk.artifacts.attach(task_id, name, content, media_type)
