"""Rules of figures: the counters are what the listing and the callers say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .evidence import Evidence
from .history import ENDED_STATES

COUNTERS = {"done": "Completed", "failed": "Failed", "cancelled": "Cancelled"}
"""The end of each counter's name, by the state that it counts."""


def the_counters_add_up(evidence: Evidence) -> Iterator[str]:
    metrics, queue = evidence.final.stats["metrics"], evidence.final.stats.get("queue", {})
    ended = sum(metrics.get(f"tasks{name}", 0) for name in COUNTERS.values())
    live = sum(queue.get(name, 0) for name in ("totalQueued", "totalInflight", "totalPaused"))
    if metrics.get("tasksSubmitted", 0) != ended + live:
        yield f"{metrics.get('tasksSubmitted', 0)} were submitted, {ended} have ended and {live} are live"


def the_counters_are_those_of_the_listing(evidence: Evidence) -> Iterator[str]:
    metrics, queue = evidence.final.stats["metrics"], evidence.final.stats.get("queue", {})
    states = Counter(task["state"] for task in evidence.final.tasks)
    expected = {f"tasks{name}": states[state] for state, name in COUNTERS.items()}
    expected["tasksSubmitted"] = states.total() - states["rejected"]
    for name, count in expected.items():
        if metrics.get(name, 0) != count:
            yield f"{name} is {metrics.get(name, 0)}, listed are {count}"
    live = sum(count for state, count in states.items() if state not in ENDED_STATES | {"rejected"})
    counted = sum(queue.get(name, 0) for name in ("totalQueued", "totalInflight", "totalPaused"))
    if counted != live:
        yield f"{counted} tasks are counted as live, listed are {live}"


def the_counters_are_between_what_was_acknowledged_and_what_was_asked_for(evidence: Evidence) -> Iterator[str]:
    acknowledged = sum(bool(intent.acknowledged) for intent in evidence.intents.values()) + len(evidence.trigger_tasks)
    possible = sum(intent.may_exist for intent in evidence.intents.values()) + len(evidence.trigger_tasks)
    submitted = evidence.final.stats["metrics"].get("tasksSubmitted", 0)
    if not acknowledged <= submitted <= possible:
        yield f"{submitted} were submitted, acknowledged {acknowledged}, asked for {possible}"


def the_counters_of_agents_are_those_of_the_listing(evidence: Evidence) -> Iterator[str]:
    agents = evidence.final.stats["metrics"].get("agents", {})
    states = Counter((task["agentId"], task["state"]) for task in evidence.final.tasks)
    for agent in {agent for agent, _ in states}:
        counted = agents.get(agent, {})
        for state, name in COUNTERS.items():
            if counted.get(name.lower(), 0) != states[agent, state]:
                yield f"{agent}: {name.lower()} is {counted.get(name.lower(), 0)}, listed are {states[agent, state]}"
