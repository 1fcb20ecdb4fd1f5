"""The operations of the conformance program on the queue: limits, weights, explanations, operations on many tasks."""

from __future__ import annotations

from conformance_workers import Outcome

from taskyard import Client


class Queueing:
    """Performs the steps that are about more than one task."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def explain(self, task: str) -> Outcome:
        found = await self._client.explain(task)
        return {
            "runnable": found.runnable,
            "kinds": [reason.kind for reason in found.reasons],
            "names": [reason.name for reason in found.reasons],
        }

    async def put_limit(self, pattern: str, max_inflight: int) -> Outcome:
        limit = await self._client.limits.put(pattern, max_inflight=max_inflight)
        return {"pattern": limit.pattern, "max_inflight": limit.max_inflight, "per_second": limit.per_second}

    async def limits(self) -> Outcome:
        return {
            "limits": {limit.pattern: limit.max_inflight for limit in await self._client.limits.list()},
            "keys": {each.key: [each.inflight, each.waiting] async for each in self._client.limits.usage()},
        }

    async def delete_limit(self, pattern: str) -> Outcome:
        await self._client.limits.delete(pattern)
        return {}

    async def put_weight(self, pattern: str, weight: int) -> Outcome:
        found = await self._client.agents.put(pattern, weight)
        return {"pattern": found.pattern, "weight": found.weight}

    async def weights(self) -> Outcome:
        return {"weights": {each.pattern: each.weight for each in await self._client.agents.list()}}

    async def delete_weight(self, pattern: str) -> Outcome:
        await self._client.agents.delete(pattern)
        return {}

    async def cancel_tasks(self, operation: str, ms: float, selector: str | None = None) -> Outcome:
        begun = await self._client.cancel_tasks(operation_id=operation, labels=selector)
        ended = await begun.wait(timeout=ms / 1000)
        return {
            "kind": ended.kind,
            "status": ended.status,
            "matched": ended.matched,
            "done": ended.done,
            "skipped": ended.skipped,
            "failed": ended.failed,
        }
