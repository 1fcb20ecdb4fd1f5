"""What writers submit: tasks of every kind, each with a number of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from .history import Json

AGENTS: Final = ("ann", "bob", "cid")
TARGETS: Final = 10
RETRIES: Final = {"maxAttempts": 4, "firstDelayMs": 100, "multiplier": 1.5, "maxDelayMs": 500}
FAILS_ALWAYS: Final = 99


@dataclass
class Mixture:
    """Tasks at random. `params` says how a host runs one: it takes `secs`, and fails in its first `fails` attempts of
    the first run.

    `callback_url` is where ends are posted; every third task asks for it.
    """

    chance: random.Random
    prefix: str
    callback_url: str
    _count: int = 0

    def task(self, *, keyed: bool = True) -> dict[str, Json]:
        """The JSON of one task."""
        chance = self.chance
        self._count += 1
        params: dict[str, Json] = {"n": f"{self.prefix}-{self._count}", "secs": round(chance.expovariate(8), 3)}
        asked: dict[str, Json] = {
            "agentId": chance.choice(AGENTS),
            "action": "work",
            "priority": chance.randint(-5, 5),
            "labels": {"made-by": self.prefix},
            "params": params,
        }
        if chance.random() < 0.2:
            params["text"] = "x" * int(chance.paretovariate(0.7) * 50 % 20_000)
            params["nested"] = {"list": [1.5, True, None, "ä"], "deep": {"er": {}}}
        if chance.random() < 0.25:
            asked["target"] = f"target-{chance.randrange(TARGETS)}"
        match chance.random():
            case draw if draw < 0.06:
                params["fails"] = FAILS_ALWAYS
            case draw if draw < 0.12:
                asked["retryPolicy"] = RETRIES
                params["fails"] = chance.randint(1, 2)
            case draw if draw < 0.15:
                asked["hold"] = True
            case draw if draw < 0.19:
                due = datetime.now(UTC) + timedelta(seconds=chance.uniform(0.5, 4))
                asked["notBefore"] = due.isoformat().replace("+00:00", "Z")
            case draw if draw < 0.23:
                asked["tokenLimit"] = 1_000_000
        if chance.random() < 0.33:
            asked["callbackUrl"] = self.callback_url
        if keyed:
            asked["idempotencyKey"] = uuid4().hex
        return asked

    def tasks(self, count: int, *, keyed: bool = True) -> list[dict[str, Json]]:
        """Several tasks."""
        return [self.task(keyed=keyed) for _ in range(count)]

    def batch(self, count: int, *, keyed: bool = True) -> list[dict[str, Json]]:
        """Several tasks that a batch can hold: they share their agent and where their ends are posted."""
        tasks = self.tasks(count, keyed=keyed)
        for task in tasks:
            task.pop("callbackUrl", None)
            task["agentId"] = tasks[0]["agentId"]
            if count % 2:
                task["callbackUrl"] = self.callback_url
        return tasks

    def pauses(self, mean_secs: float) -> Iterator[float]:
        """How long to wait before each call, in seconds."""
        while True:
            yield self.chance.expovariate(1 / mean_secs)
