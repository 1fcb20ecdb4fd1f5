"""A yard for tests of targets: two hosts, and deadlines and leases that a test meets only if it lets much time pass."""

from typing import Any

from taskyard_server.core.targets import TargetStatus
from taskyard_server.core.task import Task
from tests.core.yard import Yard


class TargetYard(Yard):
    """A yard with the hosts "host" and "other", and the target "t"."""

    def __init__(self, **limits: Any) -> None:
        long = {"default_deadline_secs": 100_000.0, "lease_secs": 100.0, "heartbeat_timeout_secs": 10_000.0}
        super().__init__(**{**long, **limits})
        self.register()
        self.register("other")

    def serial(self, agent: str = "ann", action: str = "click", **fields: Any) -> Task:
        """Submit a task of the target "t"."""
        return self.submit(agent, action, target="t", **fields)

    def claimed(self, count: int = 10) -> list[Task]:
        """Let the other host claim all that may be claimed now."""
        return [lease.task for lease in self.claim("other", count)]

    def standing(self, name: str = "t") -> tuple[TargetStatus, Task | None] | None:
        """The status of a target and the task that it is about; None if there is no such target."""
        targets = self.scheduler.targets.after("")
        return next((target.standing for target in targets if target.name == name), None)
