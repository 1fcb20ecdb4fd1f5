"""A host of plain calls: it claims, starts, renews by hand, works and reports, and writes down each call.

Run as `python -m tests.durability.unary_host ADDRESS NAMESPACE NAME SLOTS LEASE_SECS FILE`, until SIGTERM. A call whose
outcome is unknown is repeated for as long as the lease lives by this host's own clock. Nothing of the SDK's hosts is
used.
"""

import asyncio
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import Message

from taskyard.v1 import lease_pb2 as pb
from taskyard.v1.runtime_host_pb2 import RegisterHostRequest

from .doors import Answer, Doors, message
from .evidence import seconds_of
from .history import NEVER, Grant, HostCall, Json, Outcome, Recorder, Report, Work

AGAIN_SECS: Final = 0.1
CALL_SECS: Final = 2.0
WAIT_MS: Final = 1_000
RELEASE_SECS: Final = 20.0
"""How long a host tries to say that nothing runs any more."""


class Lease:
    """One lease, from its claim to its end."""

    def __init__(self, host: "UnaryHost", assignment: dict[str, Json], claimed_at: float) -> None:
        self._host = host
        self._task = assignment["task"]
        self._id = self._task["taskId"]
        self._token = int(assignment["lease"]["fencingToken"])
        self._until = claimed_at + host.lease_secs
        """The end of the lease by this host's clock: counted from when the claim or the renewal was sent."""
        self._is_lost = False

    async def run(self) -> None:
        """Start the task, work on it under renewals, and report its end."""
        leases = self._host.doors.leases
        if not await self._report("started", leases.StartTask, pb.StartTaskRequest):
            await self._release()
            return
        work = asyncio.create_task(self._work())
        while not work.done() and not self._is_lost and time.monotonic() < self._until:
            left = self._until - time.monotonic()
            await asyncio.wait({work}, timeout=max(0.0, min(self._host.lease_secs / 3, left)))
            if not work.done():
                await self._renew()
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
            await self._release()
            return
        error = work.result()
        if error is None:
            result = {"host": self._host.name, "token": self._token}
            await self._report("completed", leases.CompleteTask, pb.CompleteTaskRequest, result, result=result)
        else:
            await self._report("failed", leases.FailTask, pb.FailTaskRequest, error, error=error)

    async def _work(self) -> str | None:
        """Work; the error if the task fails."""
        begun, task = time.monotonic(), self._task
        told = {"task_id": self._id, "token": self._token, "target": task.get("target")}
        params = task.get("params", {})
        self._host.recorder.add(Work, begun, ended=NEVER, **told)
        try:
            await asyncio.sleep(params.get("secs", 0))
        finally:
            self._host.recorder.add(Work, begun, **told)
        ended = sum("endedAt" in attempt for attempt in task.get("attempts", ()))
        if task.get("run", 1) == 1 and ended < params.get("fails", 0):
            return f"attempt {ended + 1} of {self._host.name} under {self._token}"
        return None

    async def _report(self, kind: str, method: Any, request: type[Message], value: Json = None, **fields: Json) -> bool:
        """Report until it is taken, refused, or the lease is over; whether it was taken."""
        while time.monotonic() < self._until:
            answer = await self._call(kind, method, request, value, **fields)
            if answer.outcome is Outcome.ACKNOWLEDGED:
                return True
            if answer.outcome is Outcome.REFUSED:
                break
            await asyncio.sleep(AGAIN_SECS)
        return False

    async def _renew(self) -> None:
        sent_at = time.monotonic()
        answer = await self._call("renewed", self._host.doors.leases.RenewLease, pb.RenewLeaseRequest)
        if answer.outcome is Outcome.ACKNOWLEDGED:
            self._until = sent_at + self._host.lease_secs
        elif answer.outcome is Outcome.REFUSED:
            self._is_lost = True
        else:
            await asyncio.sleep(AGAIN_SECS)

    async def _release(self) -> None:
        """Say that nothing runs any more, so that others may go on."""
        give_up_at = time.monotonic() + RELEASE_SECS
        while time.monotonic() < give_up_at:
            answer = await self._call("released", self._host.doors.leases.ReleaseTask, pb.ReleaseTaskRequest)
            if answer.outcome is not Outcome.UNKNOWN:
                return
            await asyncio.sleep(AGAIN_SECS)

    async def _call(self, kind: str, method: Any, request: type[Message], value: Json = None, **fields: Json) -> Answer:
        begun, host = time.monotonic(), self._host
        body = {"hostId": host.name, "taskId": self._id, "fencingToken": self._token, **fields}
        answer = await host.doors.call(method, message(body, request), CALL_SECS)
        host.recorder.add(
            Report,
            begun,
            outcome=answer.outcome,
            kind=kind,
            task_id=self._id,
            token=self._token,
            state=answer.body.get("state"),
            value=value,
            code=answer.code,
        )
        return answer


class UnaryHost:
    """The host: as many claims and leases at once as it has slots."""

    def __init__(self, doors: Doors, name: str, lease_secs: int, recorder: Recorder) -> None:
        self.doors = doors
        self.name = name
        self.lease_secs = lease_secs
        self.recorder = recorder
        self.stopping = asyncio.Event()

    async def run(self, slots: int) -> None:
        """Register, and work until told to stop."""
        while not self.stopping.is_set():
            request = RegisterHostRequest(host_id=self.name, slots=slots)
            answer = await self._call("register", self.doors.hosts.RegisterHost, request, CALL_SECS)
            if answer.outcome is Outcome.ACKNOWLEDGED:
                break
            await asyncio.sleep(AGAIN_SECS)
        await asyncio.gather(*(self._work() for _ in range(slots)))

    async def _work(self) -> None:
        """Claim up to two tasks at a time, and run them."""
        request = pb.ClaimTasksRequest(host_id=self.name, max_tasks=2, lease_secs=self.lease_secs, wait_ms=WAIT_MS)
        while not self.stopping.is_set():
            begun = time.monotonic()
            answer = await self._call("claim", self.doors.leases.ClaimTasks, request, CALL_SECS + WAIT_MS / 1000)
            if answer.outcome is not Outcome.ACKNOWLEDGED:
                await asyncio.sleep(AGAIN_SECS)
            assignments = answer.body.get("assignments", ())
            for assignment in assignments:
                lease = assignment["lease"]
                self.recorder.add(
                    Grant,
                    begun,
                    task_id=lease["taskId"],
                    token=int(lease["fencingToken"]),
                    claimed_at=seconds_of(lease["claimedAt"]),
                    lease_secs=self.lease_secs,
                    streamed=False,
                )
            await asyncio.gather(*(Lease(self, each, begun).run() for each in assignments))

    async def _call(self, kind: str, method: Any, request: Message, secs: float) -> Answer:
        begun = time.monotonic()
        answer = await self.doors.call(method, request, secs)
        # Claims without a task are too many to be told.
        if kind != "claim" or answer.outcome is not Outcome.ACKNOWLEDGED:
            self.recorder.add(HostCall, begun, kind=kind, outcome=answer.outcome, code=answer.code)
        return answer


async def main(address: str, namespace: str, name: str, slots: int, lease_secs: int, file: Path) -> None:
    """Run the host until SIGTERM, and let what runs end."""
    doors = Doors(address, "http://127.0.0.1:1", namespace)
    host = UnaryHost(doors, name, lease_secs, Recorder(file, name))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, host.stopping.set)
    with suppress(asyncio.CancelledError):
        await host.run(slots)
    await doors.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), Path(sys.argv[6])))
