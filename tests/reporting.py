"""What a host reports to an engine, one thing at a time: each answers the task, or raises why it is refused."""

from taskyard_server.core.errors import Refusal
from taskyard_server.core.history import Wait
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.task import Task
from taskyard_server.engine.engine import Engine
from tests.live import live


async def report(engine: Engine, namespace: str, host_id: str, said: Report) -> Task:
    answer = engine.leases.report(namespace, host_id, [said])
    state = engine.tasks.state_of(namespace, said.task_id)
    (outcome,) = await answer
    if isinstance(outcome, Refusal):
        raise outcome
    assert state is outcome
    return await engine.tasks.get(namespace, said.task_id, show=live)


async def start(engine: Engine, namespace: str, host_id: str, task_id: str, token: int) -> Task:
    return await report(engine, namespace, host_id, Report(ReportKind.STARTED, task_id, token))


async def progress(
    engine: Engine,
    namespace: str,
    host_id: str,
    task_id: str,
    token: int,
    progress: bytes | None,
    tokens: int | None = None,
) -> Task:
    return await report(engine, namespace, host_id, Report(ReportKind.PROGRESS, task_id, token, progress, tokens))


async def complete(
    engine: Engine,
    namespace: str,
    host_id: str,
    task_id: str,
    token: int,
    result: bytes | None,
    output: bytes | None = None,
) -> Task:
    said = Report(ReportKind.COMPLETED, task_id, token, result, output=output)
    return await report(engine, namespace, host_id, said)


async def park(engine: Engine, namespace: str, host_id: str, task_id: str, token: int, *waits: Wait) -> Task:
    return await report(engine, namespace, host_id, Report(ReportKind.PARKED, task_id, token, waits=waits))


async def fail(
    engine: Engine,
    namespace: str,
    host_id: str,
    task_id: str,
    token: int,
    error: str,
    retryable: bool = True,
    code: str | None = None,
) -> Task:
    said = Report(ReportKind.FAILED, task_id, token, error=error, retryable=retryable, code=code)
    return await report(engine, namespace, host_id, said)


async def release(engine: Engine, namespace: str, host_id: str, task_id: str, token: int) -> Task:
    return await report(engine, namespace, host_id, Report(ReportKind.RELEASED, task_id, token))
