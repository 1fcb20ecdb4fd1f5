"""The conformance program of the Python SDK: performs a scenario and prints the outcome of each step.

clients/conformance/README.md documents the operations and the output. The runner there compares.
"""

from __future__ import annotations

import argparse
import asyncio
import builtins
import json
import logging
import os
import sys
import urllib.request
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
from conformance_hosts import RunningHost
from conformance_queueing import Queueing
from conformance_workers import Outcome, Workers

from taskyard import Client, Host, NewTask, RetryPolicy, RunningTask, Task, TaskEvent, TaskState, TaskyardError
from taskyard.connection.channel import open_channel
from taskyard.connection.credentials import Credentials, find_credentials
from taskyard.records.output import OutputChunk
from taskyard.records.tasks import STATE_OF_NUMBER
from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard.values.payloads import Payload

Arguments = dict[str, Any]


class OpenWatch:
    """A watch that is read in the background, so that a step that times out does not end it."""

    def __init__(self, step: str, events: AsyncGenerator[TaskEvent, None]) -> None:
        self._step = step
        self._events = events
        self._items: asyncio.Queue[TaskEvent | Exception | None] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read())

    async def take(self, count: int, ms: float, keep: bool) -> Outcome:
        """Read up to `count` events as the outcome of a step; 0 reads until the end."""
        taken: list[TaskEvent] = []
        ended = False
        try:
            async with asyncio.timeout(ms / 1000):
                while not ended and (count == 0 or len(taken) < count):
                    item = await self._items.get()
                    if isinstance(item, Exception):
                        raise item
                    if item is None:
                        ended = True
                    else:
                        taken.append(item)
        except TimeoutError:
            pass
        outcome: Outcome = {
            "events": [f"{event.kind} {event.task.state}" for event in taken],
            "cursor": taken[-1].cursor if taken else None,
            "ended": ended,
        }
        if keep:
            return outcome | {"watch": self._step}
        await self.close()
        return outcome

    async def close(self) -> None:
        """Close the watch."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._events.aclose()

    async def _read(self) -> None:
        try:
            async for event in self._events:
                self._items.put_nowait(event)
        except TaskyardError as error:
            self._items.put_nowait(error)
        else:
            self._items.put_nowait(None)


class Program(Workers, Queueing):
    """Performs steps. Each public method is an operation of the scenario, and returns the outcome of the step."""

    def __init__(self, credentials: Credentials, channel: grpc.aio.Channel, client: Client) -> None:
        Workers.__init__(self, credentials, channel)
        Queueing.__init__(self, client)
        self._tasks = task_pb2_grpc.TaskServiceStub(channel)
        self._watches: dict[str, OpenWatch] = {}
        self._hosts: dict[str, RunningHost] = {}
        self.step = ""

    async def close(self) -> None:
        """End the watches and hosts that the steps have left open."""
        for watch in self._watches.values():
            await watch.close()
        for host in self._hosts.values():
            if host.run is not None:
                host.run.cancel()
                await asyncio.gather(host.run, return_exceptions=True)

    # Clients

    async def submit(
        self,
        agent: str,
        action: str,
        key: str | None = None,
        retry: Arguments | None = None,
        run_timeout_ms: int | None = None,
        parent: str | None = None,
        input: str | None = None,  # noqa: A002
        input_encoding: str | None = None,
        keys: Sequence[str] = (),
        pad: int | None = None,
        **fields: Any,
    ) -> Outcome:
        if pad is not None:
            fields["params"] = {**fields.get("params", {}), "pad": "x" * pad}
        task = NewTask(
            action,
            agent_id=agent,
            idempotency_key=key,
            retry_policy=None if retry is None else RetryPolicy(**retry),
            run_timeout=None if run_timeout_ms is None else timedelta(milliseconds=run_timeout_ms),
            parent_id=parent,
            concurrency_keys=keys,
            input=None if input is None else Payload(input.encode(), input_encoding),
            **fields,
        )
        submitted = await self._client.submit(task)
        return {"task": submitted.id, "state": submitted.state, "existing": submitted.existing}

    async def submit_inexact(self, agent: str, action: str, number: str) -> Outcome:
        try:
            submitted = await self._client.submit(NewTask(action, agent_id=agent, params={"id": int(number)}))
        except ValueError as error:
            if "id" not in str(error):
                raise
            return {"refused": True}
        return {"task": submitted.id, "state": submitted.state}

    async def submit_batch(
        self, agent: str, action: str, count: int, chain: bool = False, handed: bool = False, **fields: Any
    ) -> Outcome:
        tasks: builtins.list[NewTask] = []
        for n in range(count):
            before = {"before": tasks[-1]} if handed and tasks else {}
            after = tasks[-1:] if chain else ()
            tasks.append(NewTask(action, params={"n": n}, after=after, inputs=before, **fields))
        batch = await self._client.submit_batch(tasks, agent_id=agent)
        errors = [outcome.error for outcome in batch.outcomes if outcome.error is not None]
        return {
            "batch": batch.id,
            "tasks": batch.task_ids,
            "accepted": len(batch.task_ids),
            "refused": [error.code for error in errors],
            "retry_after_ms": [_retry_after_ms(error) for error in errors],
        }

    async def get(self, task: str) -> Outcome:
        return _task_outcome(await self._client.get(task))

    async def list(
        self,
        batch: str | None = None,
        states: tuple[str, ...] = (),
        parent: str | None = None,
        selector: str | None = None,
        **filters: Any,
    ) -> Outcome:
        listing = self._client.list(batch_id=batch, states=states, parent_id=parent, labels=selector, **filters)
        tasks = [task async for task in listing]
        return {"count": len(tasks), "tasks": [task.id for task in tasks], "states": [task.state for task in tasks]}

    async def wait(self, task: str, ms: float) -> Outcome:
        try:
            ended = await self._client.wait(task, timeout=ms / 1000)
        except TimeoutError:
            return {"ended": False}
        return _task_outcome(ended) | {"ended": True}

    async def cancel(self, task: str, children: bool = False, wait_ms: int | None = None) -> Outcome:
        if wait_ms is not None:
            stopping = await self._client.cancel(task, wait=wait_ms / 1000)
            return {"state": TaskState.CANCELLED, "children_cancelled": None, "stopping": stopping}
        if not children:
            return {"state": await self._client.cancel(task), "children_cancelled": None, "stopping": None}
        answer = await self._call(
            self._tasks.CancelTask, task_pb2.CancelTaskRequest(task_id=task, cancel_children=True)
        )
        return {"state": STATE_OF_NUMBER[answer.status], "children_cancelled": answer.children_cancelled}

    async def pause(self, task: str) -> Outcome:
        return {"state": await self._client.pause(task)}

    async def resume(self, task: str, token_limit: int | None = None) -> Outcome:
        return {"state": await self._client.resume(task, token_limit=token_limit)}

    async def resolve(self, task: str, result: Any = None) -> Outcome:
        return {"state": await self._client.resolve(task, result)}

    async def get_batch(self, batch: str) -> Outcome:
        details = await self._client.get_batch(batch)
        return {"ended": details.ended, "count": len(details.tasks), "states": details.states}

    async def cancel_batch(self, batch: str) -> Outcome:
        return {"cancelled": await self._client.cancel_batch(batch)}

    async def stats(self) -> Outcome:
        queue = (await self._client.stats()).queue
        return {"queued": queue.total_queued, "paused": queue.total_paused, "agents": queue.agent_counts}

    async def watch(
        self,
        count: int,
        ms: float,
        keep: bool = False,
        task: str | None = None,
        batch: str | None = None,
        **filters: Any,
    ) -> Outcome:
        events = self._client.watch(task_ids=() if task is None else (task,), batch_id=batch, **filters)
        self._watches[self.step] = OpenWatch(self.step, events)
        return await self._watches[self.step].take(count, ms, keep)

    async def watch_more(self, watch: str, count: int, ms: float, keep: bool = False) -> Outcome:
        return await self._watches[watch].take(count, ms, keep)

    async def read_output(self, task: str, ms: float, after_chunk: int = 0, channels: Sequence[str] = ()) -> Outcome:
        async with asyncio.timeout(ms / 1000):
            chunks = self._client.output(task, after=after_chunk, channels=channels, follow=True)
            return {"chunks": [f"{each.sequence} {each.channel} {_said(each)}" async for each in chunks]}

    async def read_artifact(self, task: str, name: str) -> Outcome:
        data = await self._client.read_artifact(task, name)
        return {"size": len(data), "sha256": sha256(data).hexdigest()}

    async def list_steps(self, task: str) -> Outcome:
        return {"steps": [f"{each.name} {each.run} {each.attempt}" for each in await self._client.steps(task)]}

    async def list_questions(self, task: str) -> Outcome:
        open_ones = [each async for each in self._client.questions() if each.task_id == task]
        return {"questions": [f"{each.question_id} {each.question.text}" for each in open_ones if each.question]}

    async def answer(self, task: str, question: str, answer: Any) -> Outcome:
        return {"state": await self._client.answer(task, question, answer)}

    async def send_event(self, name: str, payload: Any = None) -> Outcome:
        return {"waiting": await self._client.send_event(name, payload)}

    async def result(self, task: str, ms: float) -> Outcome:
        async with asyncio.timeout(ms / 1000):
            value = dict(await self._client.handle(task).result())
        return {"pad": len(value.pop("pad")), "value": value}

    async def cut(self, url: str) -> Outcome:
        await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).close())
        return {}

    async def sleep(self, ms: float) -> Outcome:
        await asyncio.sleep(ms / 1000)
        return {}

    # Hosts

    async def host_start(self, host: str, slots: int, lease_secs: int | None = None) -> Outcome:
        new_host = Host(
            self._credentials.address,
            host,
            slots=slots,
            lease=lease_secs,
            namespace=self._credentials.namespace,
        )
        self._hosts[host] = RunningHost(new_host, self._client)
        await self._hosts[host].start()
        return {}

    async def host_wait(self, host: str, ms: float, left: bool = False, **minimums: int) -> Outcome:
        return await self._hosts[host].wait(ms, left, **minimums)

    async def host_stop(self, host: str, ms: float) -> Outcome:
        self._hosts[host].host.drain()
        return await self._hosts[host].wait(ms, left=True)


def _task_outcome(task: Task) -> Outcome:
    progress = task.progress
    return {
        "task": task.id,
        "agent": task.agent_id,
        "action": task.action,
        "state": task.state,
        "params": task.params,
        "labels": task.labels,
        "result": task.result,
        "error_text": task.error,
        "run": task.run,
        "attempts": len(task.attempts),
        "codes": [attempt.code for attempt in task.attempts],
        "progress": None if progress is None else {"fraction": progress.fraction, "message": progress.message},
        "tokens": task.tokens_used,
        "token_limit": task.token_limit,
        "run_timeout_ms": None if task.run_timeout is None else round(task.run_timeout / timedelta(milliseconds=1)),
        "parent": task.parent_id,
        **_payload("input", task.input),
        **_payload("output", task.output),
        "code": task.code,
        "traceback": task.traceback,
        "keys": task.concurrency_keys,
        "after": task.after,
        "inputs": task.inputs,
        "unique_key": task.unique_key,
        "on_target_failure": task.on_target_failure,
    }


def _payload(name: str, payload: Payload | None) -> Outcome:
    if payload is None:
        return {name: None, f"{name}_encoding": None}
    return {name: payload.data.decode(), f"{name}_encoding": payload.encoding}


def _said(chunk: OutputChunk) -> str:
    data = chunk.data
    if isinstance(data, bytes):
        return data.decode()
    return data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))


def _retry_after_ms(error: TaskyardError) -> int | None:
    return None if error.retry_after_secs is None else round(error.retry_after_secs * 1000)


def _resolved(value: Any, outcomes: dict[str, Any]) -> Any:
    """Replace the references of an argument with the earlier outcomes that they name."""
    if isinstance(value, str) and value.startswith("$"):
        found: Any = outcomes
        for part in value[1:].split("."):
            found = found[int(part)] if isinstance(found, list | tuple) else found[part]
        return found
    if isinstance(value, dict):
        return {key: _resolved(item, outcomes) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, outcomes) for item in value]
    return value


async def perform(arguments: argparse.Namespace, steps: list[Arguments]) -> None:
    """Perform the steps in order, and print a line for each."""
    outcomes: dict[str, Any] = {"run": json.loads(arguments.run)}
    credentials = find_credentials(arguments.server, arguments.namespace)
    async with (
        open_channel(credentials, credentials.address) as channel,
        Client(arguments.server, namespace=arguments.namespace) as client,
    ):
        program = Program(credentials, channel, client)
        for step in steps:
            program.step = step["id"]
            line: dict[str, Any] = {"step": step["id"]}
            try:
                step_arguments = _resolved(step["with"], outcomes)
                line["outcome"] = await getattr(program, step["do"])(**step_arguments)
            except TaskyardError as error:
                line["outcome"] = {
                    "error": error.code,
                    "retryable": error.retryable,
                    "retry_after_ms": _retry_after_ms(error),
                    "message": error.reason,
                    "details": sorted(error.details),
                }
            except Exception as error:
                line["crashed"] = f"{type(error).__name__}: {error}"
            outcomes[step["id"]] = line.get("outcome", {})
            print(json.dumps(line), flush=True)
        await program.close()


async def serve(arguments: argparse.Namespace) -> None:
    """Run a host with the one action `work` until a signal drains it."""
    host = Host(arguments.server, arguments.host_id, namespace=arguments.namespace, slots=arguments.slots)

    @host.action("work")
    async def work(task: RunningTask) -> dict[str, Any]:
        here = {"language": "python", "process": os.getpid()}
        steps = [await task.step(name, dict, here) for name in task.params.get("steps", ())]
        said = {"answer": await task.ask("go", task.params["asks"])} if "asks" in task.params else {}
        await asyncio.sleep(task.params["ms"] / 1000)
        pad = {"pad": task.params["pad"]} if "pad" in task.params else {}
        handed = {name: each.value for name, each in task.inputs.items()}
        return {**here, "steps": steps, "attempt": task.attempt, **pad, **handed, **said}

    await host.run(handle_signals=True)


def main() -> None:
    """Read the command line, and perform a scenario or run a host."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--scenario")
    parser.add_argument("--run", default="{}")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--host-id")
    parser.add_argument("--slots", type=int, default=4)
    arguments = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    if arguments.serve:
        asyncio.run(serve(arguments))
    else:
        scenario = json.loads(Path(arguments.scenario).read_text(encoding="utf-8"))
        asyncio.run(perform(arguments, scenario["steps"]))


if __name__ == "__main__":
    main()
