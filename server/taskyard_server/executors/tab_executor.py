"""The tab executor: a host in the server's process that forwards tasks to `POST /tabs/{tabId}/action`.

It runs at most `workers` tasks at once. It claims them under leases like any other host, and renews the leases while
the requests run. When a task loses its lease, by a cancellation or at its deadline, its request is ended
(docs/rules.md, Tab executor).
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import httpx
import structlog

from taskyard_server.conversion.payload import params_to_json
from taskyard_server.core.attempts import HANDOFF_KEY, TAB_HANDED_OFF
from taskyard_server.core.errors import LeaseLost, NotFound, Refusal, TooLarge, Unavailable
from taskyard_server.core.events import Event
from taskyard_server.core.history import TIME, Wait
from taskyard_server.core.hosts import RESERVED_HOST_PREFIX, Host, HostProfile, Tabs
from taskyard_server.core.leases import Lease
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.task import CANCELLED, PAUSED, Task
from taskyard_server.engine.engine import Engine

from .answers import ActionFailed, details_of, result_from_answer
from .connections import Connections
from .tab_resolver import Endpoint, TabNotFound, TabResolver

log = structlog.get_logger(__name__)

HOST_ID: Final = f"{RESERVED_HOST_PREFIX}tab-executor"
LEASE_SECS: Final = 60.0
CLAIM_WAIT_SECS: Final = 30.0
AGAIN_SECS: Final = 0.5
"""Delay before a claim is repeated, while the store does not answer or once the engine is closed."""

STARTED: Final = ReportKind.STARTED
PROGRESS: Final = ReportKind.PROGRESS
COMPLETED: Final = ReportKind.COMPLETED
FAILED: Final = ReportKind.FAILED
PARKED: Final = ReportKind.PARKED
RELEASED: Final = ReportKind.RELEASED


class BearerAuth(httpx.Auth):
    """Sends a bearer token, also to a base URL that holds a user and a password."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Part of httpx's interface."""
        request.headers["authorization"] = f"Bearer {self._token}"
        yield request


@dataclass(slots=True, eq=False)
class Execution:
    """A copy of a task that is executed under a lease, and its token. `deadline` is set while its request runs.

    It `is_stopped` once somebody has cancelled or paused the task.
    """

    task: Task
    token: int
    job: asyncio.Task[None] = field(init=False)
    deadline: asyncio.Timeout | None = None
    is_stopped: bool = False

    def cancel(self) -> None:
        """Cancel the job, unless it is being cancelled.

        A second cancellation would interrupt httpx while it closes the connection, and the connection would count as
        one in use for ever.
        """
        if not self.job.cancelling():
            if self.deadline is not None:
                self.deadline.reschedule(None)
            self.job.cancel()


class TabExecutor:
    """Forwards the tasks of one namespace. `max_answer_bytes` limits what is read of an answer.

    What it forwards of a task is what `handed` makes of it. While no runtime host is online it takes tasks without a
    tab, too, whose action is among `plain_actions`: they fail. A task whose tab a person has is parked for
    `handoff_retry_secs`, then each time for twice as long, up to `handoff_max_retry_secs`.
    """

    def __init__(
        self,
        engine: Engine,
        resolver: TabResolver,
        *,
        workers: int = 4,
        max_answer_bytes: int = 262_144,
        namespace: str = "default",
        connections: Connections | None = None,
        handed: Callable[[Task], Task] | None = None,
        plain_actions: Iterable[str] = (),
        handoff_retry_secs: float = 5.0,
        handoff_max_retry_secs: float = 60.0,
    ) -> None:
        self._engine = engine
        self._profile = HostProfile(tabs=Tabs.OR_PLAIN, plain_actions=frozenset(plain_actions))
        self._handed = handed
        self._handoff_retry_secs = handoff_retry_secs
        self._handoff_max_retry_secs = handoff_max_retry_secs
        self._resolver = resolver
        self._namespace = namespace
        self._max_answer_bytes = max_answer_bytes
        self._workers = workers
        self._slot_freed = asyncio.Event()
        self._executions: set[Execution] = set()
        self._by_task: dict[str, Execution] = {}
        self._unawaited: set[asyncio.Task[None]] = set()
        self._connections = connections or Connections(workers)

    async def run(self) -> None:
        """Claim and execute tasks until cancelled; then release what runs."""
        unsubscribes = self._engine.subscribe(self._on_events), self._engine.namespaces.subscribe(self._on_deletion)
        await self._register()
        renewing = asyncio.create_task(self._renew())
        try:
            while True:
                free = self._workers - len(self._executions)
                if free:
                    await self._claim(free)
                else:
                    self._slot_freed.clear()
                    await self._slot_freed.wait()
        finally:
            for unsubscribe in unsubscribes:
                unsubscribe()
            renewing.cancel()
            for execution in self._executions:
                execution.cancel()
            jobs = [execution.job for execution in self._executions]
            await asyncio.gather(renewing, *jobs, return_exceptions=True)
            with contextlib.suppress(Refusal):
                await self._engine.hosts.deregister(self._namespace, HOST_ID)
            await self._connections.close()

    async def _register(self) -> None:
        while True:
            try:
                await self._engine.hosts.register(
                    self._namespace, HOST_ID, "Tab executor", self._profile, built_in=True, show=_nothing
                )
            except Unavailable:
                await asyncio.sleep(AGAIN_SECS)
            else:
                return

    async def _claim(self, free: int) -> None:
        try:
            executions = await self._engine.leases.claim(
                self._namespace, HOST_ID, free, LEASE_SECS, CLAIM_WAIT_SECS, show=partial(_executions, self._handed)
            )
        except Unavailable:
            await asyncio.sleep(AGAIN_SECS)
            return
        except NotFound:
            # The namespace was deleted, or somebody has deregistered this host.
            await self._register()
            return
        for execution in executions:
            execution.job = asyncio.create_task(self._execute(execution))
            self._executions.add(execution)
            self._by_task[execution.task.id] = execution
            execution.job.add_done_callback(partial(self._release_slot, execution))

    def _release_slot(self, execution: Execution, _: asyncio.Task[None]) -> None:
        task = execution.task
        self._executions.discard(execution)
        # The executor may hold a later lease of the same task already.
        if self._by_task.get(task.id) is execution:
            del self._by_task[task.id]
        self._slot_freed.set()
        if task.options.target is not None or execution.is_stopped:
            # The target, or who stopped it, may wait for this, also where the job was cancelled before its first step.
            self._begin(partial(self._report, Report(RELEASED, task.id, execution.token)))

    def _begin(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Make a call whose answer nobody waits for: a store may take long, and the next one must not be late."""

        async def made() -> None:
            with contextlib.suppress(Refusal):
                await call()

        unawaited = asyncio.create_task(made())
        self._unawaited.add(unawaited)
        unawaited.add_done_callback(self._unawaited.discard)

    async def _renew(self) -> None:
        renew = partial(self._engine.leases.renew, self._namespace, HOST_ID, patient=True, show=_nothing)
        while True:
            await asyncio.sleep(LEASE_SECS / 3)
            for task_id, execution in self._by_task.items():
                self._begin(partial(renew, task_id, execution.token))

    def _on_events(self, namespace: str, events: Sequence[Event]) -> None:
        """Cancel the executions whose lease has ended."""
        if namespace == self._namespace:
            for event in events:
                execution = self._by_task.get(event.task.id)
                if execution is not None and not _is_held(event.task, execution.token):
                    execution.is_stopped = event.state is CANCELLED or event.state is PAUSED
                    execution.cancel()

    def _on_deletion(self, namespace: str) -> None:
        """Cancel all executions if the namespace was deleted, and with it their tasks."""
        if namespace == self._namespace:
            for execution in self._executions:
                execution.cancel()

    async def _execute(self, execution: Execution) -> None:
        task, token = execution.task, execution.token
        try:
            await self._report(Report(STARTED, task.id, token))
            for report in await self._forward(execution, task, token):
                await self._report(report)
        except (LeaseLost, NotFound):
            log.debug("late_result_dropped", task_id=task.id)
        except Exception:
            log.exception("executor_error", task_id=task.id)
            with contextlib.suppress(Refusal):
                await self._report(Report(FAILED, task.id, token, error="executor error"))

    async def _report(self, report: Report) -> None:
        """Waits as long as it takes, like a stream; raises the refusal of the report, if it is refused."""
        (outcome,) = await self._engine.leases.report(self._namespace, HOST_ID, [report], patient=True)
        if isinstance(outcome, Refusal):
            raise outcome

    async def _forward(self, execution: Execution, task: Task, token: int) -> list[Report]:
        """Send the action; the reports of its end."""
        try:
            return [Report(COMPLETED, task.id, token, await self._act(execution, task, token))]
        except ActionFailed as failure:
            error, code = failure.error, failure.code
            failed = Report(FAILED, task.id, token, error=error, code=code, retryable=failure.retryable)
            if failure.is_handed_off:
                return await self._set_aside(task, token, failed)
            told = details_of(failure)
            return [failed] if told is None else [Report(PROGRESS, task.id, token, told), failed]

    async def _set_aside(self, task: Task, token: int, failed: Report) -> list[Report]:
        """Park a task whose tab a person has. Where that cannot be: the reports of what becomes of it instead."""
        met = () if task.history.park is None else task.history.park.met
        tries = len([key for key in met if key.startswith(HANDOFF_KEY)])
        secs = min(self._handoff_retry_secs * 2**tries, self._handoff_max_retry_secs)
        # Each is a step of the task, whose names differ.
        wait = Wait(TIME, f"{TAB_HANDED_OFF} {tries + 1}", self._engine.now() + secs)
        try:
            await self._report(Report(PARKED, task.id, token, waits=(wait,)))
        except Unavailable:
            # A replica of an earlier version serves beside this one.
            return [Report(RELEASED, task.id, token, code=failed.code, retry_after_secs=secs)]
        except TooLarge:
            return [failed]
        return []

    async def _act(self, execution: Execution, task: Task, token: int) -> bytes | None:
        """Send the action; its packed result. Raises `ActionFailed`."""
        if not task.tab_id:
            raise ActionFailed("tabId is required for task execution")
        if task.options.input is not None and task.params is None:
            raise ActionFailed("params are required for task execution, and this task has input alone", retryable=False)
        secs = None if task.deadline is None else task.deadline - self._engine.now()
        try:
            async with asyncio.timeout(secs) as execution.deadline:
                endpoint = await self._resolver.resolve(task.tab_id)
                status, body = await self._post(endpoint, task.tab_id, task, token)
        except TabNotFound:
            raise ActionFailed(f"no instance found for tab {task.tab_id}") from None
        except TimeoutError:
            raise ActionFailed("deadline exceeded") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ActionFailed(f"executor request failed: {error or type(error).__name__}") from error
        finally:
            execution.deadline = None
        return result_from_answer(status, body, endpoint.token)

    async def _post(self, endpoint: Endpoint, tab_id: str, task: Task, token: int) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        body = params_to_json(task.params)
        # The tab is in the path.
        body.pop("tabId", None)
        own = {"kind": task.action, "ref": task.ref, "selector": task.options.extras.selector}
        body |= {name: text for name, text in own.items() if text}
        headers = {
            "content-type": "application/json",
            "x-agent-id": _header_text(task.agent_id),
            "x-taskyard-fencing-token": str(token),
        }
        if task.options.traceparent:
            headers["traceparent"] = task.options.traceparent
        async with (
            self._connections.to(endpoint) as http,
            http.stream(
                "POST",
                f"{endpoint.base_url.rstrip('/')}/tabs/{_path_segment(tab_id)}/action",
                content=json.dumps(body),
                headers=headers,
                auth=BearerAuth(endpoint.token) if endpoint.token else None,
                timeout=None,
            ) as response,
        ):
            return response.status_code, await self._read(response)

    async def _read(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._max_answer_bytes:
                raise ActionFailed(f"executor answer is over {self._max_answer_bytes} bytes")
        return bytes(body)


def _executions(handed: Callable[[Task], Task] | None, leases: list[Lease]) -> list[Execution]:
    tasks = [lease.task if handed is None else handed(lease.task) for lease in leases]
    return [Execution(copy(task), lease.token) for task, lease in zip(tasks, leases, strict=True)]


def _nothing(_: Host | Lease) -> None:
    """Shows nothing of an answer that nobody reads."""


def _is_held(task: Task, token: int) -> bool:
    return task.lease is not None and task.lease.token == token


def _header_text(text: str) -> str:
    """A text as the value of a header: as it is if it is visible ASCII, else percent-encoded."""
    return text if text.isascii() and text.isprintable() else quote(text, safe="")


def _path_segment(tab_id: str) -> str:
    """The tab as one segment of a path. Dots are encoded too: `..` would be resolved as a relative path."""
    return quote(tab_id, safe="").replace(".", "%2E")
