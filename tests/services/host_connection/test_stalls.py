"""A stalled server (docs/rules.md, Host stream) reads what has arrived before anything expires."""

import asyncio
import sys
import time

import pytest

pytestmark = pytest.mark.gate("stalls and floods of real connections")

HOST = """
import asyncio, sys
import grpc
from taskyard.v1 import runtime_host_pb2 as pb, runtime_host_pb2_grpc

async def main(address):
    async with grpc.aio.insecure_channel(address) as channel:
        call = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel).Connect()
        await call.write(pb.ConnectRequest(hello=pb.Hello(host_id="host", instance="i")))
        await call.write(pb.ConnectRequest(credit=pb.Credit(count=1)))
        while not (message := await call.read()).HasField("assignments"):
            pass
        lease = message.assignments.assignments[0].lease
        held = {"task_id": lease.task_id, "fencing_token": lease.fencing_token}
        await call.write(pb.ConnectRequest(reports=pb.Reports(reports=[pb.Report(**held, started=pb.TaskStarted())])))
        print("working", flush=True)
        while True:
            await call.write(pb.ConnectRequest(heartbeat=pb.Heartbeat(leases=[pb.HeldLease(**held)])))
            await asyncio.sleep(0.1)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("stall_secs", [1.2, 1.5])
async def test_a_stall_of_the_server_ends_no_lease_whose_heartbeats_have_arrived(start_server, eventually, stall_secs):
    server = await start_server(lease_secs=1.0)
    task_id = await server.submit()
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOST, server.address), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert await host.stdout.readline() == b"working\n"
        await eventually(lambda: server.state(task_id), lambda state: state == "running")
        for _ in range(2):
            time.sleep(stall_secs)  # noqa: ASYNC251
            stalled_until = server.engine.now()
            while server.engine.now() < stalled_until + 0.6:
                assert await server.state(task_id) == "running"
                await asyncio.sleep(0.01)
    finally:
        host.kill()
        await host.wait()
    assert await server.live_leases() == [(task_id, "host", 1)]
    await eventually(lambda: server.state(task_id), lambda state: state == "queued")
