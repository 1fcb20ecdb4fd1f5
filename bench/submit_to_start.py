"""How soon a waiting host has a task: from the unary submit until the assignment is read, beside a bare stream's echo.

    python bench/submit_to_start.py [--tasks N]

Server, bare server and load are processes of their own, on loopback and uvloop. Each submit is followed by one echo
over the stream of the bare server, so that both meet the same moments of the machine. What counts is the comparison.
"""

import argparse
import asyncio
import platform
import statistics
import time

import grpc
import uvloop
from idle_hosts import free_port, running, serve_bare, wait_for

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1 import runtime_host_pb2_grpc, task_pb2, task_pb2_grpc

WARM_UP = 100


async def measure(taskyard: str, bare: str, tasks: int) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds until a task is at its host, of the submit call alone, and of an echo, each `tasks` times."""
    starts, submits, echoes = [], [], []
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with (
        grpc.aio.insecure_channel(taskyard, options) as agents,
        grpc.aio.insecure_channel(taskyard, options) as hosts,
        grpc.aio.insecure_channel(bare, options) as other,
    ):
        submit = task_pb2_grpc.TaskServiceStub(agents).SubmitTask
        host = runtime_host_pb2_grpc.RuntimeHostServiceStub(hosts).Connect()
        echo = runtime_host_pb2_grpc.RuntimeHostServiceStub(other).Connect()
        await host.write(pb.ConnectRequest(hello=pb.Hello(host_id="host", instance="i")))
        await host.read()
        for number in range(WARM_UP + tasks):
            await host.write(pb.ConnectRequest(credit=pb.Credit(count=1)))
            # The answer tells that the credit has arrived.
            await host.write(pb.ConnectRequest(heartbeat=pb.Heartbeat(sequence=number)))
            await host.read()
            reading = asyncio.ensure_future(host.read())
            await asyncio.sleep(0)
            begin = time.perf_counter()
            call = submit(task_pb2.SubmitTaskRequest(agent_id="a", action="x"))
            (assignment,) = (await reading).assignments.assignments
            starts.append(time.perf_counter() - begin)
            await call
            submits.append(time.perf_counter() - begin)
            lease = assignment.lease
            done = pb.Report(task_id=lease.task_id, fencing_token=lease.fencing_token, completed=pb.TaskCompleted())
            await host.write(pb.ConnectRequest(reports=pb.Reports(reports=[done])))
            await host.read()
            begin = time.perf_counter()
            await echo.write(pb.ConnectRequest(heartbeat=pb.Heartbeat(sequence=number)))
            await echo.read()
            echoes.append(time.perf_counter() - begin)
    return starts[WARM_UP:], submits[WARM_UP:], echoes[WARM_UP:]


def line(name: str, secs: list[float]) -> str:
    cuts = statistics.quantiles(secs, n=100)
    return f"  {name:34s} p50 {cuts[49] * 1000:6.2f} ms   p99 {cuts[98] * 1000:6.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--serve-bare", type=int, metavar="PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if given.serve_bare:
            runner.run(serve_bare(given.serve_bare))
            return
        ours, bare, metrics = free_port(), free_port(), free_port()
        at = ("--grpc", f"127.0.0.1:{ours}", "--metrics", f"127.0.0.1:{metrics}")
        up = ("-m", "taskyard_server.cli.main", "up", "--no-gateway", "--log-level", "warning", *at)
        with running(*up), running(__file__, "--serve-bare", str(bare)):
            wait_for(ours)
            wait_for(bare)
            results = runner.run(measure(f"127.0.0.1:{ours}", f"127.0.0.1:{bare}", given.tasks))
    starts, submits, echoes = results
    print(f"Python {platform.python_version()}, grpcio {grpc.__version__}, {given.tasks} tasks, one at a time")
    print(line("submit until the host has the task", starts))
    print(line("submit until it is answered", submits))
    print(line("echo over a bare stream", echoes))


if __name__ == "__main__":
    main()
