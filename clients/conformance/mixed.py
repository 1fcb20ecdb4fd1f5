"""Hosts of several languages work one queue together, while some are killed and started again.

Every task must end once, as done, and each language must have done some.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from control_plane import running_server
from languages import Language

from taskyard import Client, EventKind, NewTask, Task

NAMESPACE: Final = "mixed"
AGENTS: Final = ("ann", "bob", "cid")
BATCHES: Final = 50
BATCH_TASKS: Final = 50
TASK_MS: Final = 100
SLOTS: Final = 4
HOSTS_PER_LANGUAGE: Final = 2
FIRST_KILL_SECS: Final = 1.5
KILL_EVERY_SECS: Final = 0.7
KILLS_PER_LANGUAGE: Final = 2
SCENARIO_SECS: Final = 90
SCHEDULER: Final = {
    "maxQueueSize": 10_000,
    "maxPerAgent": 10_000,
    "maxInflight": 1_000,
    "maxPerAgentInflight": 1_000,
}


@dataclass(slots=True)
class Hosts:
    """The processes of the hosts, by host id."""

    address: str
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    async def start(self, language: Language, number: int) -> None:
        """Start a host, or start it again."""
        host = f"{language.name}-{number}"
        self.processes[host] = await asyncio.create_subprocess_exec(
            *language.command,
            *("--serve", "--server", self.address, "--namespace", NAMESPACE),
            *("--host-id", host, "--slots", str(SLOTS)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")},
        )

    async def kill(self, language: Language, number: int) -> bool:
        """End a host without warning; false if it had ended by itself."""
        process = self.processes[f"{language.name}-{number}"]
        if process.returncode is not None:
            return False
        process.kill()
        await process.wait()
        return True

    async def drain(self) -> list[str]:
        """Have all leave as SIGTERM asks them; those that did not, or not well."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        bad = []
        for host, process in self.processes.items():
            try:
                code = await asyncio.wait_for(process.wait(), 20)
                if code != 0:
                    bad.append(f"{host} exited with {code}")
            except TimeoutError:
                process.kill()
                await process.wait()
                bad.append(f"{host} did not leave within 20 s of SIGTERM")
        return bad


@dataclass(slots=True)
class Seen:
    """What a watch told of the tasks. `has_all` is set once `expected` tasks have ended."""

    expected: int
    has_all: asyncio.Event = field(default_factory=asyncio.Event)
    ends: Counter[str] = field(default_factory=Counter)
    hand_outs: Counter[str] = field(default_factory=Counter)

    async def follow(self, client: Client) -> None:
        """Count, until cancelled."""
        async for event in client.watch(include_current=True):
            if event.kind in (EventKind.CURRENT, EventKind.CHANGED) and event.task.state.ended:
                self.ends[event.task.id] += 1
                if len(self.ends) >= self.expected:
                    self.has_all.set()
            if event.kind is EventKind.CHANGED and event.task.state == "assigned":
                self.hand_outs[event.task.id] += 1


async def work_one_queue(languages: list[Language], folder: Path) -> int:
    """Run it and print what came of it; 0 if all was well."""
    for language in languages:
        if (missing := language.missing()) is not None:
            print(f"{language.name}: {missing}")
            return 1
    async with running_server(folder, SCHEDULER) as address:
        hosts = Hosts(address)
        try:
            async with asyncio.timeout(SCENARIO_SECS):
                return await _work(languages, hosts)
        except TimeoutError:
            print(f"not through after {SCENARIO_SECS} s")
            return 1
        finally:
            for process in hosts.processes.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()


async def _work(languages: list[Language], hosts: Hosts) -> int:
    async with Client(hosts.address, namespace=NAMESPACE) as client:
        seen = Seen(BATCHES * BATCH_TASKS)
        watching = asyncio.create_task(seen.follow(client))
        for language in languages:
            for number in range(HOSTS_PER_LANGUAGE):
                await hosts.start(language, number)
        task_ids: list[str] = []
        for batch in range(BATCHES):
            tasks = [NewTask("work", params={"ms": TASK_MS}) for _ in range(BATCH_TASKS)]
            submitted = await client.submit_batch(tasks, agent=AGENTS[batch % len(AGENTS)])
            task_ids += submitted.task_ids
        # Each must have work in its hands, or its death would prove nothing.
        kills = await _kill_and_restart(languages, hosts, client)
        ended = [await client.wait(task_id) for task_id in task_ids]
        await _told(seen)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        bad = await hosts.drain()
    return _judge(languages, ended, seen, kills, bad)


async def _kill_and_restart(languages: list[Language], hosts: Hosts, client: Client) -> dict[str, int]:
    """Kill a host of each language in turn, and start it again; how many were killed with tasks in their hands."""
    kills = dict.fromkeys((language.name for language in languages), 0)
    await asyncio.sleep(FIRST_KILL_SECS)
    for _ in range(KILLS_PER_LANGUAGE):
        for language in languages:
            running = [task.host_id async for task in client.list(states=["running"])]
            if await hosts.kill(language, 0) and f"{language.name}-0" in running:
                kills[language.name] += 1
            await asyncio.sleep(KILL_EVERY_SECS)
            await hosts.start(language, 0)
    return kills


async def _told(seen: Seen) -> None:
    """Until the watch has told of every end; one that never does is found by the judge."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(seen.has_all.wait(), 5)
    # A second end of a task would come soon after the first.
    await asyncio.sleep(1)


def _judge(languages: list[Language], ended: list[Task], seen: Seen, kills: dict[str, int], bad: list[str]) -> int:
    def language_of(result: Any) -> str:
        return str(result.get("language")) if isinstance(result, dict) else "nobody"

    done = Counter(language_of(task.result) for task in ended if task.state == "done")
    again = sum(count > 1 for count in seen.hand_outs.values())
    print(f"{len(ended)} tasks, {sum(done.values())} done, {again} of them handed out more than once")
    for language in languages:
        print(f"  {language.name.ljust(12)} {done[language.name]:5} tasks, {kills[language.name]} kills amid work")
    faults = list(bad)
    faults += [f"{task.id} is {task.state}: {task.error}" for task in ended if task.state != "done"]
    faults += [f"{task_id} ended {count} times" for task_id, count in seen.ends.items() if count != 1]
    faults += [f"the watch told of no end of {task.id}" for task in ended if task.id not in seen.ends]
    for language in languages:
        if not done[language.name]:
            faults.append(f"{language.name} did no task")
        if not kills[language.name]:
            faults.append(f"no host of {language.name} was killed amid its work")
    for fault in faults[:20]:
        print(f"FAIL {fault}")
    print("every task ended once" if not faults else f"{len(faults)} faults")
    return 1 if faults else 0
