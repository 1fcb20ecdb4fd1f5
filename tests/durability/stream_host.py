"""A host of the Python SDK that writes down its leases, its work, and what it is told of its reports.

Run as `python -m tests.durability.stream_host ADDRESS NAMESPACE NAME SLOTS LEASE_SECS FILE`. How it runs a task stands
in `mixture.py`.
"""

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from taskyard import ActionFailed, Host, RunningTask
from taskyard.hosting import connection, session
from taskyard.hosting.outbox import Outbox
from taskyard.hosting.session import Session
from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.runtime_host_pb2 import Hello, Report, ReportResult
from taskyard.v1.task_pb2 import Task

from . import history
from .history import ALWAYS, NEVER, Grant, Outcome, Recorder, Work

STATES_ACCEPTED = {"started": "running", "progress": "running", "completed": "done"}
"""The state of a task after a report that was counted as accepted; after a failure there are two."""


def hello_of_before(**fields: Any) -> Hello:
    """The Hello of a host that has each report answered, as those of before did."""
    del fields["counts_accepted"]
    return Hello(**fields)


def outbox_of(recorder: Recorder) -> type[Outbox]:
    """The SDK's outbox, which writes down what becomes of each report."""

    class RecordingOutbox(Outbox):
        def __init__(self) -> None:
            super().__init__()
            self._sent_at: deque[float] = deque()

        def next_message(self) -> list[Report]:
            reports = super().next_message()
            self._sent_at.extend([time.monotonic()] * len(reports))
            return reports

        def take_accepted(self, count: int) -> list[Report]:
            accepted = super().take_accepted(count)
            for report in accepted:
                state = STATES_ACCEPTED.get(report.WhichOneof("event") or "")
                _note(recorder, report, self._sent_at.popleft(), Outcome.ACKNOWLEDGED, state=state)
            return accepted

        def take_answered(self, results: Sequence[ReportResult]) -> list[tuple[Report, ReportResult]]:
            answered = list(zip(super().take_accepted(len(results)), results, strict=False))
            for report, result in answered:
                begun = self._sent_at.popleft()
                if result.HasField("error"):
                    _note(recorder, report, begun, Outcome.REFUSED, code=result.error.code)
                else:
                    _note(recorder, report, begun, Outcome.ACKNOWLEDGED, state=Task.State.Name(result.state))
            return answered

        def take_unanswered(self) -> list[Report]:
            unanswered = super().take_accepted(len(self._unanswered))
            for report in unanswered:
                _note(recorder, report, self._sent_at.popleft(), Outcome.UNKNOWN)
            return unanswered

    return RecordingOutbox


def session_of(recorder: Recorder) -> type[Session]:
    """The SDK's session, which writes down what is assigned."""

    class RecordingSession(Session):
        def handle_assignment(self, assignment: Assignment) -> None:
            lease = assignment.lease
            recorder.add(
                Grant,
                ALWAYS,
                task_id=lease.task_id,
                token=int(lease.fencing_token),
                claimed_at=lease.claimed_at.ToNanoseconds() / 1e9,
                lease_secs=lease.lease_secs,
                streamed=True,
            )
            super().handle_assignment(assignment)

    return RecordingSession


def _note(recorder: Recorder, report: Report, begun: float, outcome: Outcome, **fields: Any) -> None:
    kind = report.WhichOneof("event") or ""
    value: Any = None
    if kind == "completed" and report.completed.HasField("result"):
        value = MessageToDict(report.completed.result)
    elif kind == "failed":
        value = report.failed.error
    recorder.add(
        history.Report,
        begun,
        outcome=outcome,
        kind=kind,
        task_id=report.task_id,
        token=int(report.fencing_token),
        value=value,
        **fields,
    )


async def work(task: RunningTask, recorder: Recorder) -> Any:
    """Run a task as its params say."""
    begun, token = time.monotonic(), int(task.fencing_token)
    told: dict[str, Any] = {"task_id": task.id, "token": token, "target": task.task.target}
    recorder.add(Work, begun, ended=NEVER, **told)
    try:
        await asyncio.sleep(task.params.get("secs", 0) / 2)
        if task.task.token_limit is not None:
            task.tokens_used = 10
            await task.progress(0.5, "half of it")
        await asyncio.sleep(task.params.get("secs", 0) / 2)
    finally:
        recorder.add(Work, begun, **told)
    if task.task.run == 1 and task.attempt <= task.params.get("fails", 0):
        raise ActionFailed(f"attempt {task.attempt} of {recorder.who} under {token}")
    return {"host": recorder.who, "token": token}


def main(address: str, namespace: str, name: str, slots: int, lease_secs: int, file: Path) -> None:
    """Run the host until it drains."""
    logging.basicConfig(level=logging.WARNING)
    recorder = Recorder(file, name)
    vars(session)["Outbox"] = outbox_of(recorder)
    vars(connection)["Session"] = session_of(recorder)
    if name.endswith("1"):
        vars(connection)["Hello"] = hello_of_before
    host = Host(
        address,
        name,
        namespace=namespace,
        slots=slots,
        lease=lease_secs,
        drain_grace=2,
        machine_figures=False,
    )

    @host.any_action
    async def run(task: RunningTask) -> Any:
        return await work(task, recorder)

    asyncio.run(host.run(handle_signals=True))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), Path(sys.argv[6]))
