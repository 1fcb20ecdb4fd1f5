"""A kept engine for tests of the history: its store can be made to wait, and its tasks leave memory on demand."""

import asyncio

from taskyard_server.core.errors import Refusal
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.store.port import StoreError
from tests.live import live
from tests.store.dict_store import DictStore

NS = "default"
HOST = "host"
TTL_SECS = 300


class WaitingStore(DictStore):
    """Commits wait while `commits` is not set. What was read is answered once `answers` is set. It counts reads."""

    def __init__(self):
        super().__init__()
        self.commits, self.answers = asyncio.Event(), asyncio.Event()
        self.commits.set()
        self.answers.set()
        self.tasks_read = self.rows_scanned = 0
        self.is_broken = False

    async def commit(self, group):
        await self.commits.wait()
        return await super().commit(group)

    async def task(self, key):
        if self.is_broken:
            raise StoreError("the file is gone")
        self.tasks_read += 1
        rows = await super().task(key)
        await self.answers.wait()
        return rows

    async def scan(self, first_key, last_key, *, descending, limit, sought=None):
        page = await super().scan(first_key, last_key, descending=descending, limit=limit, sought=sought)
        self.rows_scanned += page.looked_at
        await self.answers.wait()
        return page


class HistoryYard:
    """The engine with one host, and what tests do with it."""

    def __init__(self, clock, store=None, *, history_days=7.0, patience_secs=10.0, private=False, **limits):
        self.clock, self.store = clock, store or WaitingStore()
        options = StoreOptions(history_days=history_days, patience_secs=patience_secs)
        limits = {"max_queue_size": 10**6, "max_per_agent": 10**6, **limits}
        self.engine = Engine(Limits(**limits), clock, store=self.store, store_options=options, private=private)
        self.tasks = self.engine.tasks

    async def open(self):
        await self.engine.open()
        await self.engine.hosts.register(NS, HOST, None, HostProfile(), show=live)
        return self

    async def submit(self, namespace=NS, agent="ann", action="click", **fields):
        options = {field: fields.pop(field) for field in TaskOptions._fields if field in fields}
        submission = Submission(agent, action, **fields, options=TaskOptions(**options))
        return await self.tasks.submit(namespace, submission, show=_id)

    async def batch(self, *actions):
        submitted = await self.tasks.submit_batch(NS, [Submission("ann", action) for action in actions], show=live)
        return submitted.batch.id, [task.id for task in submitted.outcomes]

    async def done(self, task_id, result=b"result"):
        await self._report(Report(ReportKind.COMPLETED, task_id, await self.started(task_id), result))

    async def failed(self, task_id, error="broken", tokens=None):
        token = await self.started(task_id)
        await self._report(Report(ReportKind.FAILED, task_id, token, tokens=tokens, error=error, retryable=False))

    async def started(self, task_id):
        (lease,) = await self.engine.leases.claim(NS, HOST, show=live)
        assert lease.task.id == task_id
        await self._report(Report(ReportKind.STARTED, task_id, lease.token))
        return lease.token

    async def _report(self, said):
        (outcome,) = await self.engine.leases.report(NS, HOST, [said])
        assert not isinstance(outcome, Refusal)

    async def past(self, **fields):
        """A task that failed and has left memory."""
        task_id = await self.submit(**fields)
        await self.failed(task_id)
        await self.leave_memory(task_id)
        return task_id

    async def leave_memory(self, *task_ids):
        await self.clock.advance(TTL_SECS + 1)
        await self.engine.hosts.heartbeat(NS, HOST, show=live)
        for task_id in task_ids:
            assert self.in_memory(task_id) is None

    def in_memory(self, task_id, namespace=NS):
        return self.tasks.state_of(namespace, task_id)

    async def get(self, task_id, namespace=NS):
        """Its id, state, error and result."""
        return await self.tasks.get(namespace, task_id, show=_facts)

    async def restarted(self, **limits):
        """Another engine on what was committed."""
        return await HistoryYard(self.clock, self.store.copy(), **limits).open()


def state(task):
    """What most commands show."""
    return task.state.value


async def waiting(clock, *calls):
    """Calls under way."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    await clock.run_pending()
    return tasks


def _id(task):
    return task.id


def _facts(task):
    return task.id, task.state.value, task.error, task.result
