"""Hosts of several languages work on one queue, while some are killed and started again.

Every task must end once, as done, and each language must have done some.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
from control_plane import free_port, running_server
from languages import Language

from taskyard import Client, EventKind, NewTask, Task
from taskyard.v1.step_pb2 import ListStepsRequest
from taskyard.v1.step_pb2_grpc import StepServiceStub

NAMESPACE: Final = "mixed"
AGENTS: Final = ("ann", "bob", "cid")
BATCHES: Final = 50
BATCH_TASKS: Final = 50
TASK_MS: Final = 100
PAD: Final = "ä" * 150_000
"""A text in the params and the result of some tasks, which makes artifacts of both."""
TAKERS: Final = 2
"""How many tasks of a batch are handed the results of others, a small one and one with a `PAD`."""
STEPS: Final = ("fetch page", "sum")
"""What the tasks of every other batch do once and for all before they work."""
ASKERS: Final = 2
"""How many tasks of a batch ask, after their steps."""
ANSWER_EVERY_SECS: Final = 0.1
SLOTS: Final = 4
HOSTS_PER_LANGUAGE: Final = 2
FIRST_KILL_SECS: Final = 1.5
KILL_EVERY_SECS: Final = 0.7
LOOKS: Final = 100
LOOK_SECS: Final = 0.1
"""How often to look whether a host runs a task: a JVM on a busy machine takes seconds to start."""
KILLS_PER_LANGUAGE: Final = 2
SCENARIO_SECS: Final = 90
SCHEDULER: Final = {
    "maxQueueSize": 10_000,
    "maxPerAgent": 10_000,
    "maxInflight": 1_000,
    "maxPerAgentInflight": 1_000,
    # Shorter than a killed host stays away, so that others have gone on with its tasks by then.
    "reconnectGraceSecs": 1,
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
        """Kill a host. Returns False if it had exited by itself."""
        process = self.processes[f"{language.name}-{number}"]
        if process.returncode is not None:
            return False
        process.kill()
        await process.wait()
        return True

    async def drain(self) -> list[str]:
        """Have all hosts leave by SIGTERM. Returns a text for each that did not, or exited with an error."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        failures = []
        for host, process in self.processes.items():
            try:
                code = await asyncio.wait_for(process.wait(), 20)
                if code != 0:
                    failures.append(f"{host} exited with {code}")
            except TimeoutError:
                process.kill()
                await process.wait()
                failures.append(f"{host} did not leave within 20 s of SIGTERM")
        return failures


@dataclass(slots=True)
class Observed:
    """What a watch has shown of the tasks. `has_all` is set once `expected` tasks have ended."""

    expected: int
    has_all: asyncio.Event = field(default_factory=asyncio.Event)
    ends: Counter[str] = field(default_factory=Counter)
    assignments: Counter[str] = field(default_factory=Counter)

    async def follow(self, client: Client) -> None:
        """Count the events, until cancelled."""
        async for event in client.watch(include_current=True):
            if event.kind in (EventKind.CURRENT, EventKind.CHANGED) and event.task.state.ended:
                self.ends[event.task.id] += 1
                if len(self.ends) >= self.expected:
                    self.has_all.set()
            if event.kind is EventKind.CHANGED and event.task.state == "assigned":
                self.assignments[event.task.id] += 1


async def work_one_queue(languages: list[Language], folder: Path) -> int:
    """Run it and print the result. Returns 0 if everything passed."""
    for language in languages:
        if (missing := language.missing()) is not None:
            print(f"{language.name}: {missing}")
            return 1
    rest_port = free_port()
    async with running_server(folder, SCHEDULER, rest_port=rest_port) as address:
        hosts = Hosts(address)
        answering = asyncio.create_task(_answer(f"http://127.0.0.1:{rest_port}"))
        try:
            async with asyncio.timeout(SCENARIO_SECS):
                return await _work(languages, hosts)
        except TimeoutError:
            print(f"not through after {SCENARIO_SECS} s")
            return 1
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
            for process in hosts.processes.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()


async def _work(languages: list[Language], hosts: Hosts) -> int:
    async with Client(hosts.address, namespace=NAMESPACE) as client:
        slots = SLOTS * HOSTS_PER_LANGUAGE * len(languages)
        observed = Observed(BATCHES * (BATCH_TASKS + 1 + TAKERS + ASKERS) + slots * (2 + TAKERS))
        watching = asyncio.create_task(observed.follow(client))
        for language in languages:
            for number in range(HOSTS_PER_LANGUAGE):
                await hosts.start(language, number)
        task_ids: list[str] = []
        large_ids: list[str] = []
        taker_ids: list[str] = []
        asker_ids: list[str] = []
        for batch in range(BATCHES):
            steps = {"steps": list(STEPS)} if batch % 2 else {}
            tasks = [NewTask("work", params={"ms": TASK_MS, **steps}) for _ in range(BATCH_TASKS)]
            agent = AGENTS[batch % len(AGENTS)]
            submitted = await client.submit_batch(tasks, agent=agent)
            task_ids += submitted.task_ids
            asker_ids += [await _submit_asker(client, agent) for _ in range(ASKERS)]
            large_ids.append(await _submit_large(client, agent))
            for small in submitted.task_ids[:TAKERS]:
                taker_ids.append(await _submit_taker(client, small, large_ids[-1], agent))
        # Each killed host must have been running tasks, or the kill would prove nothing.
        kills = await _kill_and_restart(languages, hosts, client)
        ended = [await client.wait(task_id) for task_id in task_ids + large_ids + taker_ids + asker_ids]
        # As many at once as there are slots, which are all free now: so each language has some, however slow it was.
        more = await asyncio.gather(*(_submit_large(client) for _ in range(slots)))
        ended += [await client.wait(task_id) for task_id in more]
        more_takers = await asyncio.gather(
            *(_submit_taker(client, small, large) for small in task_ids[:TAKERS] for large in more)
        )
        ended += [await client.wait(task_id) for task_id in more_takers]
        more_askers = await asyncio.gather(*(_submit_asker(client) for _ in range(slots)))
        ended += [await client.wait(task_id) for task_id in more_askers]
        asker_ids += more_askers
        large_ids += more
        taker_ids += more_takers
        done = {task.id for task in ended if task.state == "done"}
        large_results = [await client.handle(task_id).result() for task_id in large_ids if task_id in done]
        taken = [await client.handle(task_id).result() for task_id in taker_ids if task_id in done]
        await _watch_ends(observed)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        failures = await hosts.drain()
        failures += _check_large(languages, large_results)
        failures += _check_taken(languages, taken)
        failures += _check_answers(languages, asker_ids, ended)
        failures += await _check_steps(
            languages, hosts.address, [task for task in ended if task.id in done.difference(asker_ids)]
        )
    return _check(languages, ended, observed, kills, failures)


async def _submit_large(client: Client, agent: str = AGENTS[0]) -> str:
    return (await client.submit("work", params={"ms": TASK_MS, "pad": PAD}, agent_id=agent)).id


async def _submit_taker(client: Client, small: str, large: str, agent: str = AGENTS[0]) -> str:
    inputs = {"small": small, "large": large}
    return (await client.submit("work", params={"ms": TASK_MS}, agent_id=agent, inputs=inputs)).id


async def _submit_asker(client: Client, agent: str = AGENTS[0]) -> str:
    params = {"ms": TASK_MS, "steps": list(STEPS), "asks": "Go on?"}
    return (await client.submit("work", params=params, agent_id=agent)).id


async def _answer(rest: str) -> None:
    """Answer what tasks ask, over REST, until cancelled."""
    while True:
        await asyncio.sleep(ANSWER_EVERY_SECS)
        # The gateway may take a moment longer than the server to start, and a question may be over by now.
        with contextlib.suppress(OSError):
            for asked in (await asyncio.to_thread(_called, f"{rest}/questions")).get("questions", []):
                task_id = asked["taskId"]
                url = f"{rest}/tasks/{task_id}/questions/{asked['questionId']}:answer"
                await asyncio.to_thread(_called, url, {"answer": {"to": task_id}})


def _called(url: str, body: Any = None) -> Any:
    headers = {"taskyard-namespace": NAMESPACE, "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10) as answer:
        return json.load(answer)


async def _kill_and_restart(languages: list[Language], hosts: Hosts, client: Client) -> dict[str, int]:
    """Kill a host of each language in turn, and start it again. Returns how many were killed while they ran tasks."""
    kills = dict.fromkeys((language.name for language in languages), 0)
    await asyncio.sleep(FIRST_KILL_SECS)
    down: Language | None = None
    for language in languages * KILLS_PER_LANGUAGE:
        if down is language:
            await hosts.start(language, 0)
            down = None
        is_at_work = await _runs_a_task(client, f"{language.name}-0")
        if await hosts.kill(language, 0) and is_at_work:
            kills[language.name] += 1
        await asyncio.sleep(KILL_EVERY_SECS)
        # Hosts of other languages have gone on with its tasks.
        if down is not None:
            await hosts.start(down, 0)
        down = language
    if down is not None:
        await asyncio.sleep(KILL_EVERY_SECS)
        await hosts.start(down, 0)
    return kills


async def _runs_a_task(client: Client, host: str) -> bool:
    """Wait until a host runs a task. Returns False if it takes too long."""
    for _ in range(LOOKS):
        if host in [task.host_id async for task in client.list(states=["running"])]:
            return True
        await asyncio.sleep(LOOK_SECS)
    return False


async def _watch_ends(observed: Observed) -> None:
    """Wait until the watch has shown every end. `_check` reports the ends that it never shows."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(observed.has_all.wait(), 5)
    # A second end of a task would come soon after the first.
    await asyncio.sleep(1)


def _check_large(languages: list[Language], results: list[Any]) -> list[str]:
    """Count the results that are artifacts by language. Returns a text for each that is wrong."""
    whole = Counter(result["language"] for result in results if result.get("pad") == PAD)
    told = ", ".join(f"{language.name} {whole[language.name]}" for language in languages)
    print(f"{len(results)} tasks with large params and results: {told}")
    failures = [f"{language.name} brought no large params back" for language in languages if not whole[language.name]]
    lost = len(results) - sum(whole.values())
    return failures + ([f"{lost} large results are not what was submitted"] if lost else [])


def _check_taken(languages: list[Language], results: list[Any]) -> list[str]:
    """Count by language the inputs that a host of another language had made. Returns a text for what is wrong."""
    handed: Counter[tuple[str, str]] = Counter()
    lost = 0
    for result in results:
        lost += result["large"].get("pad") != PAD
        for name in ("small", "large"):
            handed[result["language"], name] += result[name]["language"] != result["language"]
    counts = {language.name: [handed[language.name, name] for name in ("small", "large")] for language in languages}
    told = ", ".join(f"{name} {small} and {large}" for name, (small, large) in counts.items())
    print(f"{len(results)} tasks with inputs, small and large ones of other languages: {told}")
    missing = [name for name, found in counts.items() if len(languages) > 1 and not all(found)]
    failures = [f"{name} was handed no result of another language" for name in missing]
    return failures + ([f"{lost} large inputs are not what was handed on"] if lost else [])


def _check_answers(languages: list[Language], asker_ids: list[str], ended: list[Task]) -> list[str]:
    """Count by language the tasks that asked and were done. Returns a text for each that has not its own answer."""
    failures = []
    done: Counter[str] = Counter()
    others = 0
    for task in ended:
        if task.id not in asker_ids or not isinstance(task.result, dict):
            continue
        result: Any = task.result
        done[result["language"]] += 1
        others += any(step["process"] != result["process"] for step in result["steps"])
        if result.get("answer") != {"to": task.id}:
            failures.append(f"{task.id} was answered {result.get('answer')}")
    told = ", ".join(f"{language.name} {done[language.name]}" for language in languages)
    print(f"{len(asker_ids)} tasks that asked, {others} of them gone on with elsewhere: {told}")
    return failures + [f"{each.name} went on after no answer" for each in languages if not done[each.name]]


async def _check_steps(languages: list[Language], address: str, tasks: list[Task]) -> list[str]:
    """Count the tasks whose steps another process had done than their ends. Returns a text for what is wrong."""
    pairs: Counter[tuple[str, str]] = Counter()
    failures = []
    async with grpc.aio.insecure_channel(address) as channel:
        stub = StepServiceStub(channel)
        for task in tasks:
            result: Any = task.result
            steps = result.get("steps") if isinstance(result, dict) else None
            if not steps or all(step["process"] == result["process"] for step in steps):
                continue
            pairs[steps[0]["language"], result["language"]] += 1
            metadata = (("taskyard-namespace", NAMESPACE),)
            listed = (await stub.ListSteps(ListStepsRequest(task_id=task.id), metadata=metadata)).steps
            told = [(step.name, step.result.struct_value["process"]) for step in listed]
            if told != [(name, step["process"]) for name, step in zip(STEPS, steps, strict=True)]:
                failures.append(f"the steps of {task.id} are {told}, and {steps} in its result")
    handed_on = sum(count for (first, second), count in pairs.items() if first != second)
    print(f"{sum(pairs.values())} tasks gone on with after their steps, {handed_on} of them by another language")
    if not (handed_on if len(languages) > 1 else pairs):
        failures.append("no task was gone on with after its steps")
    return failures


def _check(
    languages: list[Language], ended: list[Task], observed: Observed, kills: dict[str, int], failures: list[str]
) -> int:
    def language_of(result: Any) -> str:
        return str(result.get("language")) if isinstance(result, dict) else "nobody"

    done = Counter(language_of(task.result) for task in ended if task.state == "done")
    repeated = sum(count > 1 for count in observed.assignments.values())
    print(f"{len(ended)} tasks, {sum(done.values())} done, {repeated} of them assigned more than once")
    for language in languages:
        print(f"  {language.name.ljust(12)} {done[language.name]:5} tasks, {kills[language.name]} kills while at work")
    failures = list(failures)
    failures += [f"{task.id} is {task.state}: {task.error}" for task in ended if task.state != "done"]
    failures += [f"{task_id} ended {count} times" for task_id, count in observed.ends.items() if count != 1]
    failures += [f"the watch did not show the end of {task.id}" for task in ended if task.id not in observed.ends]
    for language in languages:
        if not done[language.name]:
            failures.append(f"{language.name} did no task")
        if not kills[language.name]:
            failures.append(f"no host of {language.name} was killed while it ran tasks")
    for failure in failures[:20]:
        print(f"FAIL {failure}")
    print("every task ended once" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0
