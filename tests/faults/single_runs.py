"""Checks in the diaries of the hosts that tasks of one target never ran at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def assert_one_at_a_time(
    diaries: list[dict[str, Any]], target_of: Mapping[str, str], killed: Mapping[str, Sequence[float]]
) -> int:
    """Assert that each run of a target began after the run before it had ended, or its host had been killed.

    `target_of` names the target of each task, `killed` the times at which each host was killed. Returns the number of
    runs.
    """
    running: dict[str, dict[str, Any]] = {}
    runs = 0
    for entry in diaries:
        target = target_of[entry["task"]]
        before = running.get(target)
        if entry["what"] != "start":
            if before is not None and (before["task"], before["token"]) == (entry["task"], entry["token"]):
                del running[target]
            continue
        runs += 1
        if before is not None:
            died = any(before["at"] <= at <= entry["at"] for at in killed.get(before["host"], ()))
            assert died, f"{entry} began while {before} was at work"
        running[target] = entry
    return runs
