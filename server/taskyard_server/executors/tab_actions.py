"""The tab executor: a host in the server process that forwards each task to `POST /tabs/{tabId}/action`.

It holds at most `workers` tasks, claims them under leases like any host, and renews those leases while the requests
run. A task that is cancelled, or whose deadline passes, loses its lease; that tears its request down
(scheduler-architecture, Cancellation Model and Execution Contract; DESIGN, The tab executor).
"""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote

import httpx
import structlog

from taskyard_server.conversion.payload import Json, params_to_json, result_from_body
from taskyard_server.core.errors import LeaseLost, NotFound, Refusal, Unavailable
from taskyard_server.core.events import Event
from taskyard_server.core.hosts import RESERVED_HOST_PREFIX, TAB_EXECUTOR
from taskyard_server.core.leases import Lease
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.task import Task
from taskyard_server.engine.port import Engine

from .tab_resolver import TabNotFound, TabResolver

log = structlog.get_logger(__name__)

HOST_ID: Final = f"{RESERVED_HOST_PREFIX}tab-executor"
LEASE_SECS: Final = 60.0
CLAIM_WAIT_SECS: Final = 30.0
ERROR_CHARS: Final = 1_000

STARTED: Final = ReportKind.STARTED
COMPLETED: Final = ReportKind.COMPLETED
FAILED: Final = ReportKind.FAILED
RELEASED: Final = ReportKind.RELEASED


class ActionFailed(Exception):
    """The action did not succeed; the text becomes the task's error."""


@dataclass(slots=True)
class Run:
    """One task in execution."""

    lease: Lease
    work: asyncio.Task[None]


class TabExecutor:
    """Forwards the tasks of one namespace. `max_answer_bytes` bounds what is read of an answer."""

    def __init__(
        self,
        engine: Engine,
        resolver: TabResolver,
        *,
        workers: int = 4,
        max_answer_bytes: int = 262_144,
        namespace: str = "default",
    ) -> None:
        self._engine = engine
        self._resolver = resolver
        self._namespace = namespace
        self._max_answer_bytes = max_answer_bytes
        self._workers = workers
        self._slot_freed = asyncio.Event()
        self._runs: dict[str, Run] = {}
        self._works: set[asyncio.Task[None]] = set()
        self._farewells: set[asyncio.Task[None]] = set()
        limits = httpx.Limits(max_connections=workers, max_keepalive_connections=workers)
        self._http = httpx.AsyncClient(limits=limits, trust_env=False)

    async def run(self) -> None:
        """Claim and execute until cancelled or the engine is closed; then give back what runs."""
        unsubscribe = self._engine.subscribe(self._on_events)
        await self._engine.hosts.register(self._namespace, HOST_ID, "Tab executor", TAB_EXECUTOR, built_in=True)
        renewing = asyncio.create_task(self._renew())
        try:
            while True:
                free = self._workers - len(self._works)
                if free:
                    await self._claim(free)
                else:
                    self._slot_freed.clear()
                    await self._slot_freed.wait()
        except Unavailable:
            log.debug("executor_ends")
        finally:
            unsubscribe()
            renewing.cancel()
            for work in self._works:
                work.cancel()
            await asyncio.gather(renewing, *self._works, return_exceptions=True)
            with contextlib.suppress(NotFound):
                await self._engine.hosts.deregister(self._namespace, HOST_ID)
            await self._http.aclose()

    async def _claim(self, free: int) -> None:
        leases = await self._engine.leases.claim(self._namespace, HOST_ID, free, LEASE_SECS, CLAIM_WAIT_SECS)
        for lease in leases:
            work = asyncio.create_task(self._execute(lease))
            self._works.add(work)
            self._runs[lease.task.id] = Run(lease, work)
            work.add_done_callback(partial(self._free, lease))

    def _free(self, lease: Lease, work: asyncio.Task[None]) -> None:
        task = lease.task
        self._works.discard(work)
        run = self._runs.get(task.id)
        # The task may be ours again already, in another run.
        if run is not None and run.work is work:
            del self._runs[task.id]
        self._slot_freed.set()
        if task.options.target is not None:
            # Also where the work was stopped before it began: the target may wait for it.
            farewell = asyncio.create_task(self._say_stopped(lease))
            self._farewells.add(farewell)
            farewell.add_done_callback(self._farewells.discard)

    async def _say_stopped(self, lease: Lease) -> None:
        with contextlib.suppress(Refusal):
            await self._report(lease, RELEASED)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_SECS / 3)
            for task_id, run in list(self._runs.items()):
                with contextlib.suppress(Refusal):
                    await self._engine.leases.renew(self._namespace, HOST_ID, task_id, run.lease.token)

    def _on_events(self, namespace: str, happened: Sequence[Event]) -> None:
        """Stop what no longer runs under our lease."""
        if namespace == self._namespace:
            for event in happened:
                run = self._runs.get(event.task.id)
                if run is not None and event.task.lease is not run.lease:
                    run.work.cancel()

    async def _execute(self, lease: Lease) -> None:
        task, token = lease.task, lease.token
        try:
            await self._report(lease, STARTED)
            try:
                result = await self._forward(task, token)
            except ActionFailed as failure:
                await self._report(lease, FAILED, error=str(failure))
            else:
                await self._report(lease, COMPLETED, result)
        except (LeaseLost, NotFound):
            log.debug("late_result_dropped", task_id=task.id)
        except Exception:
            log.exception("executor_error", task_id=task.id)
            with contextlib.suppress(Refusal):
                await self._report(lease, FAILED, error="executor error")

    async def _report(self, lease: Lease, kind: ReportKind, payload: bytes | None = None, error: str = "") -> None:
        """Raises why the report is refused, if it is."""
        said = Report(kind, lease.task.id, lease.token, payload, error=error)
        (outcome,) = await self._engine.leases.report(self._namespace, HOST_ID, [said])
        if isinstance(outcome, Refusal):
            raise outcome

    async def _forward(self, task: Task, token: int) -> bytes | None:
        """Send the action; the result of a 2xx answer, `ActionFailed` for everything else."""
        if not task.tab_id:
            raise ActionFailed("tabId is required for task execution")
        body: dict[str, Json] = {**params_to_json(task.params), "kind": task.action}
        if task.ref:
            body["ref"] = task.ref
        headers = {"content-type": "application/json", "x-taskyard-fencing-token": str(token)}
        if task.options.traceparent:
            headers["traceparent"] = task.options.traceparent
        try:
            base_url = await self._resolver.resolve(task.tab_id)
            async with (
                asyncio.timeout(None if task.deadline is None else task.deadline - self._engine.now()),
                self._http.stream(
                    "POST",
                    f"{base_url}/tabs/{_path_segment(task.tab_id)}/action",
                    content=json.dumps(body),
                    headers=headers,
                    timeout=None,
                ) as response,
            ):
                answer = await self._read(response)
        except TabNotFound:
            raise ActionFailed(f"no instance found for tab {task.tab_id}") from None
        except TimeoutError:
            raise ActionFailed("deadline exceeded") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ActionFailed(f"executor request failed: {error or type(error).__name__}") from error
        if not response.is_success:
            text = answer.decode(errors="replace")[:ERROR_CHARS].strip()
            raise ActionFailed(f"executor returned {response.status_code}: {text}".rstrip(": "))
        return result_from_body(answer)

    async def _read(self, response: httpx.Response) -> bytes:
        answer = bytearray()
        async for chunk in response.aiter_bytes():
            answer += chunk
            if len(answer) > self._max_answer_bytes:
                raise ActionFailed(f"executor answer is over {self._max_answer_bytes} bytes")
        return bytes(answer)


def _path_segment(tab_id: str) -> str:
    """The tab as one path segment; dots would be resolved away as a relative path."""
    return quote(tab_id, safe="").replace(".", "%2E")
