"""The hosts that the conformance scenario starts, and their actions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

from conformance_workers import Outcome

from taskyard import ActionFailed, Child, ChildFailed, Client, Host, NotFound, RunningTask
from taskyard.action import Action
from taskyard.hosting.failing import Retry

TYPED: Final = Action[dict[str, int], dict[str, int]]("typed")


@dataclass(slots=True)
class RunningHost:
    """A host in the background, and the counts of its handlers."""

    host: Host
    client: Client
    begun: int = 0
    ended: int = 0
    stopped: int = 0
    run: asyncio.Task[None] | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def start(self) -> None:
        """Run the host, with the actions of the scenario."""
        for name, handler in ACTIONS.items():
            self.host.action(name)(self._counted(handler))
        self.host.action("parks")(self._counted(self._parks))
        self.host.handles(TYPED)(self._typed)
        self.run = asyncio.create_task(self.host.run())
        self.run.add_done_callback(lambda _: asyncio.ensure_future(self._count()))

    async def wait(self, ms: float, left: bool, **minimums: int) -> Outcome:
        """Wait until the counts reach these minimums, or the time is over. Returns the counts then."""
        async with self.changed:
            try:
                async with asyncio.timeout(ms / 1000):
                    await self.changed.wait_for(
                        lambda: (
                            all(getattr(self, name) >= count for name, count in minimums.items())
                            and (self.has_left or not left)
                        )
                    )
            except TimeoutError:
                pass
        return {"begun": self.begun, "ended": self.ended, "stopped": self.stopped, "left": self.has_left}

    @property
    def has_left(self) -> bool:
        """True if its run has ended. Raises the error that it ended with."""
        if self.run is None or not self.run.done():
            return False
        self.run.result()
        return True

    def _counted(self, handler: Callable[[RunningTask], Awaitable[Any]]) -> Callable[[RunningTask], Awaitable[Any]]:
        async def counted(task: RunningTask) -> Any:
            await self._count(begun=1)
            try:
                result = await handler(task)
            except asyncio.CancelledError:
                await self._count(stopped=1)
                raise
            except Exception:
                await self._count(ended=1)
                raise
            await self._count(ended=1)
            return result

        return counted

    async def _typed(self, value: dict[str, int]) -> dict[str, int]:
        await self._count(begun=1, ended=1)
        return {"id": value["id"], "next": value["id"] + 1}

    async def _parks(self, task: RunningTask) -> Any:
        params = task.params
        found: dict[str, Any] = {"before": await task.step("before", lambda: task.attempt)}
        if "ask" in params:
            found["answer"] = await task.ask("go", params["ask"], choices=params.get("choices"))
        if "sleep_ms" in params:
            await task.sleep(timedelta(milliseconds=params["sleep_ms"]), name="nap")
        if "join" in params:
            await task.join(params["join"], name="all")
            found["ends"] = [(await self.client.get(each)).state for each in params["join"]]
        if "event" in params:
            found["event"] = await task.event(params["event"])
        return found

    async def _count(self, begun: int = 0, ended: int = 0, stopped: int = 0) -> None:
        self.begun += begun
        self.ended += ended
        self.stopped += stopped
        async with self.changed:
            self.changed.notify_all()


async def _echo(task: RunningTask) -> Any:
    return task.params


async def _work(task: RunningTask) -> Any:
    await asyncio.sleep(task.params["ms"] / 1000)
    return {"attempt": task.attempt}


async def _fail(task: RunningTask) -> Any:
    params = task.params
    if "until" in params and task.attempt >= params["until"]:
        return {"attempt": task.attempt}
    if "retry_after_ms" in params:
        raise Retry(params["error"], after=timedelta(milliseconds=params["retry_after_ms"]))
    raise ActionFailed(params["error"], code=params.get("code"), retryable=params.get("retryable", True))


async def _progress(task: RunningTask) -> Any:
    task.tokens_used = task.params["tokens"]
    await task.progress(task.params["fraction"], task.params["message"])


async def _say(task: RunningTask) -> Any:
    texts = task.params["texts"]
    for text in texts:
        await task.emit(text)
    await task.emit({"said": len(texts)}, "log")
    await task.emit(b"end", "bytes")


async def _artifact(task: RunningTask) -> Any:
    name = task.params["name"]
    await task.put_artifact(name, bytes(place % 251 for place in range(int(task.params["bytes"]))))
    return {"sha256": sha256(await task.read_artifact(name)).hexdigest()}


async def _take(task: RunningTask) -> Any:
    name = task.params.get("name")
    found = {}
    for key, each in task.inputs.items():
        value = dict(each.value) if each.state == "done" else None
        pad = (value or {}).pop("pad", None)
        found[key] = {
            "state": each.state,
            "error": each.error,
            "value": value,
            "pad": None if pad is None else len(pad),
            "sha256": None if name is None else await _hash_of_artifact(task, key, name),
        }
    return found


async def _hash_of_artifact(task: RunningTask, key: str, name: str) -> str | None:
    try:
        return sha256(await task.read_artifact(name, of=key)).hexdigest()
    except NotFound:
        return None


async def _steps(task: RunningTask) -> Any:
    params, done = task.params, 0

    def do_step() -> dict[str, Any]:
        nonlocal done
        done += 1
        return {"attempt": task.attempt, "pad": "x" * int(params["bytes"])}

    found = [await task.step(name, do_step) for name in params["names"]]
    if task.attempt < params.get("until", 0):
        raise ActionFailed("again")
    attempts, sizes = [each["attempt"] for each in found], [len(each["pad"]) for each in found]
    return {"done": done, "attempts": attempts, "bytes": sizes}


async def _children(task: RunningTask) -> Any:
    params = task.params
    action = params.get("action", "echo")
    children = [await task.child(name, action, params={"n": place}) for place, name in enumerate(params["names"])]
    ids = [each.id for each in children]
    first = await task.step("ids", lambda: ids)
    if params.get("fail") and task.attempt == 1:
        raise ActionFailed("again")
    if params.get("join"):
        await task.join(children, name="all")
    return {"results": [await _result_of(each) for each in children], "ids_differ": len({*first, *ids})}


async def _result_of(child: Child[Any]) -> Any:
    try:
        return await child.result()
    except ChildFailed as failed:
        return {"child": failed.name, "state": failed.state}


async def _crash(task: RunningTask) -> Any:
    raise RuntimeError(task.params["text"])


ACTIONS: Final = {
    "echo": _echo,
    "work": _work,
    "fail": _fail,
    "say": _say,
    "artifact": _artifact,
    "take": _take,
    "steps": _steps,
    "children": _children,
    "crash": _crash,
    "progress": _progress,
}
