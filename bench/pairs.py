"""A server, workers and an agent in processes of their own, and the measurement that the agent takes; for others.py."""

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

import psutil
import servers
from rows import Figure

BESIDE = servers.HERE / "beside"
AGENT_SECS = 60
"""Maximum seconds of an agent."""

Programs = Mapping[str, str]
"""The paths of the programs that rows need, by name."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Running servers, running workers, and the command of the agent that uses them. Some need no server."""

    servers: tuple[psutil.Process, ...]
    workers: tuple[psutil.Process, ...]
    agent: tuple[str, ...]


def by_agent(
    pair: Callable[[Programs], AbstractContextManager[Pair]], *arguments: float
) -> Callable[[Programs], Figure]:
    """Takes the measurement of an agent, and the CPU time that all processes use during it."""

    def measure(programs: Programs) -> Figure:
        with tempfile.TemporaryDirectory() as counts:
            os.environ["BESIDE_COUNTS"] = counts
            with pair(programs) as running, start_agent(*running.agent, *map(str, arguments)) as agent:
                clients = (*running.workers, psutil.Process(agent.pid))
                answer(agent)
                before = cpu_secs(*running.servers), cpu_secs(*clients)
                print(file=agent.stdin, flush=True)
                result = json.loads(answer(agent))
                used = cpu_secs(*running.servers) - before[0], cpu_secs(*clients) - before[1]
        tasks, secs = result["tasks"], result["secs"]
        return Figure(tasks / secs, used[0] / tasks * 1e6, used[0] / secs, used[1] / secs)

    return measure


@contextmanager
def start_agent(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Starts an agent. It is killed at the end of the block, or when it takes too long."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        late = threading.Timer(AGENT_SECS, agent.kill)
        late.start()
        try:
            yield agent
        finally:
            late.cancel()
            agent.kill()


def answer(agent: subprocess.Popen[str]) -> str:
    assert agent.stdout is not None
    if not (line := agent.stdout.readline()):
        raise SystemExit("an agent ended early, or took too long")
    return line


def cpu_secs(*processes: psutil.Process) -> float:
    """User and system time of processes and of their children, those included that have ended."""
    used = 0.0
    for process in processes:
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # PostgreSQL starts and ends workers of its own meanwhile.
                times = each.cpu_times()
                used += times.user + times.system + times.children_user + times.children_system
    return used


@contextmanager
def new_server(*command: str) -> Iterator[tuple[psutil.Process, str]]:
    """Starts a server, and waits until it listens. `FOLDER` and `PORT` stand for a new folder and its port."""
    port = str(servers.free_port())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        words = [word.replace("FOLDER", folder).replace("PORT", port) for word in command]
        with servers.running(*words) as process:
            servers.wait_for(f"127.0.0.1:{port}", process)
            yield process, f"127.0.0.1:{port}"
