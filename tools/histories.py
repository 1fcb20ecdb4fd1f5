"""Records what the simulation's histories are, as one hash per seed, and compares them with an earlier record.

    python tools/histories.py record FILE
    python tools/histories.py compare FILE

A change that claims to leave behaviour alone keeps every hash: each event of a task or a trigger, each time, and from
time to time every field of every task and schedule goes into it, as plain values without the names of the code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.simulation import simulator
from tests.simulation.plain_values import of_event, of_task
from tests.simulation.schedules import schedule_world
from tests.simulation.schedules.schedule_agreement import of_schedule, of_trigger

TASK_SEEDS, TASK_STEPS = range(100, 124), 1500
SCHEDULE_SEEDS, SCHEDULE_STEPS = range(100, 112), 1000
SNAPSHOT_STEPS = 25
"""Steps between two snapshots of everything."""


class Digest:
    """A hash over plain values."""

    def __init__(self) -> None:
        self._hash = sha256()
        self.entries = 0

    def add(self, kind: str, values: Iterable[object]) -> None:
        self.entries += 1
        self._hash.update(repr((kind, *(_plain(value) for value in values))).encode())

    def __str__(self) -> str:
        return f"{self._hash.hexdigest()[:32]} {self.entries}"


class TaskHistory(simulator.Simulation):
    """The history of tasks and hosts of one seed, with its digest."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.digest = Digest()

    def _take_events(self, *args: Any) -> Any:
        events = super()._take_events(*args)
        for event in events:
            self.digest.add("event", (*of_event(event), event.deadline, event.history))
        return events

    def step(self) -> None:
        super().step()
        self.digest.add("time", (self.now, self.core.next_due()))
        if self.steps % SNAPSHOT_STEPS == 0:
            for task in self.core.tasks_after(0):
                self.digest.add("task", of_task(task))


class ScheduleHistory(schedule_world.Simulation):
    """The history of schedules of one seed, with its digest."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.digest = Digest()

    def _both(self, *args: Any, **kwargs: Any) -> Any:
        answer = super()._both(*args, **kwargs)
        for trigger in self._triggers.values():
            self.digest.add("trigger", of_trigger(trigger))
        self.digest.add("time", (self.now, self.core.next_due()))
        if self.steps % SNAPSHOT_STEPS == 0:
            for schedule in self.core.schedules.after(0):
                self.digest.add("schedule", of_schedule(schedule))
            for task in self.core.tasks_after(0):
                self.digest.add("task", of_task(task))
        return answer


def histories() -> dict[str, str]:
    """The digest of every seed."""
    found = {}
    for seed in TASK_SEEDS:
        tasks = TaskHistory(seed)
        tasks.run(TASK_STEPS)
        found[f"tasks {seed}"] = str(tasks.digest)
    for seed in SCHEDULE_SEEDS:
        schedules = ScheduleHistory(seed)
        schedules.run(SCHEDULE_STEPS)
        found[f"schedules {seed}"] = str(schedules.digest)
    return found


def _plain(value: object) -> object:
    if isinstance(value, (frozenset, set)):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, str) else value


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "compare"):
        print(__doc__, file=sys.stderr)
        return 2
    file, found = Path(sys.argv[2]), histories()
    if sys.argv[1] == "record":
        file.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{len(found)} histories recorded: {sha256(repr(found).encode()).hexdigest()[:32]}")
        return 0
    before = json.loads(file.read_text())
    changed = [seed for seed in {**before, **found} if before.get(seed) != found.get(seed)]
    print(f"{len(found)} histories, {len(changed)} differ: {sha256(repr(found).encode()).hexdigest()[:32]}", *changed)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
