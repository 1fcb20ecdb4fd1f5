"""Runs the conformance scenario in every language against one server, and prints one table (README.md).

Exits with 0 only if every cell is ok, or n/a for a language without a host loop. With `--mixed`, hosts of several
languages work on one queue instead.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
from comparing import mismatch
from control_plane import free_port, running_server
from languages import LANGUAGES, Language
from mixed import work_one_queue
from proxy import Proxy, proxy_to

from taskyard.v1.task_pb2 import WatchTasksRequest
from taskyard.v1.task_pb2_grpc import TaskServiceStub

SCENARIO: Final = Path(__file__).with_name("scenario.json")
PROGRAM_SECS: Final = 90
MAX_FAILURE_CHARS: Final = 400
MAX_PER_AGENT: Final = 30
"""Small, so that one batch of the scenario fills the queue of an agent."""
GRACE_SECS: Final = 2
OUTAGE_MS: Final = 3_000
"""Longer than the grace period, so that a host must stop what it runs before it reconnects."""


@dataclass(slots=True)
class Column:
    """The results of one language: a cell for each step, and the failures as texts for people."""

    language: Language
    cells: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    secs: float = 0.0

    @property
    def is_green(self) -> bool:
        """True if there were no failures."""
        return not self.failures


async def run_scenario(languages: list[Language], steps: list[dict[str, Any]], folder: Path) -> list[Column]:
    """Run the programs at the same time, each in a namespace of its own."""
    scheduler = {"maxPerAgent": MAX_PER_AGENT, "reconnectGraceSecs": GRACE_SECS}
    port = free_port()
    async with running_server(folder, scheduler, port) as address:
        old_cursors = {language.name: await _cursor(address, _namespace(language)) for language in languages}
    # A restarted server has a new event log, so the old cursors have expired.
    async with running_server(folder, scheduler, port) as address, contextlib.AsyncExitStack() as proxies:
        runs = [
            _run_program(
                language, steps, await proxies.enter_async_context(proxy_to(address)), old_cursors[language.name]
            )
            for language in languages
        ]
        return list(await asyncio.gather(*runs))


async def _run_program(language: Language, steps: list[dict[str, Any]], proxy: Proxy, old_cursor: str) -> Column:
    column = Column(language)
    if (missing := language.missing()) is not None:
        column.failures.append(missing)
        return column
    values = {"cut": proxy.cut_url, "outage": f"{proxy.cut_url}?ms={OUTAGE_MS}", "old_cursor": old_cursor}
    run_values = json.dumps(values)
    began = time.monotonic()
    program = await asyncio.create_subprocess_exec(
        *language.command,
        *("--server", proxy.address, "--namespace", _namespace(language)),
        *("--scenario", str(SCENARIO), "--run", run_values),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")},
    )
    reading = asyncio.gather(_read_all(program.stdout), _read_all(program.stderr))
    try:
        await asyncio.wait_for(program.wait(), PROGRAM_SECS)
    except TimeoutError:
        # The steps that it has printed are compared all the same.
        program.kill()
        column.failures.append(f"not through after {PROGRAM_SECS} s")
    output, errors = await reading
    await program.wait()
    column.secs = time.monotonic() - began
    if program.returncode:
        tail = errors.decode(errors="replace").strip().splitlines()[-5:]
        column.failures.append(f"exited with {program.returncode}: " + " | ".join(tail))
    _fill(column, steps, output.decode(errors="replace").splitlines(), values)
    return column


async def _read_all(stream: asyncio.StreamReader | None) -> bytes:
    return b"" if stream is None else await stream.read()


def _fill(column: Column, steps: list[dict[str, Any]], lines: list[str], given: dict[str, Any]) -> None:
    """Compare the output of a program with the expectations of each step."""
    printed: dict[str, dict[str, Any]] = {}
    for line in lines:
        try:
            message = json.loads(line)
            printed[message["step"]] = message
        except (ValueError, TypeError, KeyError):
            column.failures.append(f"printed a line that is no outcome: {line[:200]}")
    if list(printed) != [step["id"] for step in steps][: len(printed)]:
        column.failures.append("the steps are not in order")
    outcomes: dict[str, Any] = {"run": given}
    for step in steps:
        name = step["id"]
        message = printed.get(name, {})
        outcomes[name] = message.get("outcome", {})
        if "skipped" in message and step.get("needs") == "host" and not column.language.has_host:
            column.cells[name] = "n/a"
            continue
        failure = mismatch(message, step["expect"], outcomes) if message else "it was not printed"
        column.cells[name] = "ok" if failure is None else "FAIL"
        if failure is not None:
            column.failures.append(f"{name}: {failure}")


async def _cursor(address: str, namespace: str) -> str:
    """A cursor of the server's event log at this moment."""
    async with grpc.aio.insecure_channel(address) as channel:
        watch = TaskServiceStub(channel).WatchTasks(
            WatchTasksRequest(), metadata=(("taskyard-namespace", namespace),), timeout=30
        )
        async for message in watch:
            if message.bookmark:
                watch.cancel()
                cursor: str = message.cursor
                return cursor
    raise RuntimeError("the watch does not begin with a bookmark")


def _namespace(language: Language) -> str:
    return f"conformance-{language.name}"


def _print_table(columns: list[Column], steps: list[dict[str, Any]]) -> None:
    width = max(len(step["id"]) for step in steps) + 2
    names = [column.language.name for column in columns]
    print("step".ljust(width) + "".join(name.ljust(12) for name in names))
    for step in steps:
        print(step["id"].ljust(width) + "".join(column.cells.get(step["id"], "-").ljust(12) for column in columns))
    for result in ("ok", "n/a", "FAIL"):
        counts = [sum(cell == result for cell in column.cells.values()) for column in columns]
        print(f"= {result}".ljust(width) + "".join(str(count).ljust(12) for count in counts))
    print("= seconds".ljust(width) + "".join(f"{column.secs:.1f}".ljust(12) for column in columns))


def _check_scenario(steps: list[dict[str, Any]]) -> None:
    names = [step["id"] for step in steps]
    if len(names) != len(set(names)) or "run" in names:
        sys.exit("scenario.json: the ids of the steps must be unique, and none may be `run`")


def main() -> None:
    """Read the command line and run. The exit code says whether everything passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [language.name for language in LANGUAGES]
    parser.add_argument("--only", action="append", choices=names, help="only this language; may be repeated")
    parser.add_argument("--mixed", action="store_true", help="the shared queue instead of the scenario")
    arguments = parser.parse_args()
    languages = [language for language in LANGUAGES if arguments.only is None or language.name in arguments.only]
    with tempfile.TemporaryDirectory(prefix="taskyard-conformance-") as folder:
        if arguments.mixed:
            hosts = [language for language in languages if language.has_host]
            sys.exit(asyncio.run(work_one_queue(hosts, Path(folder))))
        steps = json.loads(SCENARIO.read_text(encoding="utf-8"))["steps"]
        _check_scenario(steps)
        columns = asyncio.run(run_scenario(languages, steps, Path(folder)))
    _print_table(columns, steps)
    for column in columns:
        for failure in column.failures:
            first, *_ = failure.splitlines()
            print(f"{column.language.name}: {first[:MAX_FAILURE_CHARS]}", file=sys.stderr)
    sys.exit(0 if all(column.is_green for column in columns) else 1)


if __name__ == "__main__":
    main()
