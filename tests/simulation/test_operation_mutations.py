"""The histories find what is done wrongly to many tasks at once, and what of it a restart loses.

As in `test_mutations`, a few words of the source are replaced for the length of a test.
"""

from __future__ import annotations

import pytest

from taskyard_server.core.operations import operations
from taskyard_server.core.operations.operations import Operations
from taskyard_server.store import rows

from . import model_operations, operation_commands
from .breach_histories import Histories
from .restarts import RestartingSimulation
from .simulator import Mismatch
from .test_mutations import Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

SEEDS, STEPS = [755, *range(700, 716)], 500
HISTORIES = Histories(RestartingSimulation, SEEDS, STEPS)

MUTATIONS: dict[str, list[Edit]] = {
    "another priority is not kept": [(rows, "_add_tasks", "elif task in rewritten:", "elif False:")],
    "an operation gives no reason": [
        (Operations, "_do", "life.cancel(now, task, request.reason)", "life.cancel(now, task, None)")
    ],
    "the reason of an operation is not kept": [(rows, "encode_operation", "request.reason", "None")],
    "a slice is not kept": [(Operations, "step", "self._note(operation)", "pass")],
    "an operation that has begun is not kept": [(Operations, "begin", "self._note(operation)", "pass")],
    "the end of an operation is not kept": [(Operations, "_end", "self._note(operation)", "pass")],
    "what was submitted later is touched": [(Operations, "_next", "task.seq > operation.until or", "")],
    "a task stays at its old place": [(Operations, "_reprioritize", "life.ready.remove(task)", "is_ready = False")],
    "a resume waits for no room": [
        (Operations, "_has_room", "return life.counts.queued <", "return True or life.counts.queued <")
    ],
    "what may wait never goes on": [(Operations, "_can_go_on", "task is None or self._has_room(task)", "task is None")],
    "the filter is looked at once": [(Operations, "is_about", "can_be and task_filter.matches(task)", "can_be")],
    "a blocker cannot be cancelled": [(Operations, "is_about", " or self._life.targets.blocks(task)", "")],
    "an id can be used twice": [
        (Operations, "begin", "not known.request.asks_the_same(request)", "known is None"),
    ],
    "no turns are taken": [(Operations, "step", "del self._live[operation]", "pass")],
    "one that is cancelled goes on": [(Operations, "_end", "del self._live[operation]", "pass")],
    "what is skipped is not told": [
        (Operations, "_treat_some", "max(0, operation.matched - operation.done - operation.failed)", "0"),
    ],
    "what is refused counts as done": [(Operations, "_treat", "operation.failed += 1", "operation.done += 1")],
}


@pytest.fixture(autouse=True)
def many_and_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many operations are begun, each of several slices."""
    monkeypatch.setattr(operation_commands, "BEGUN", 0.25)
    monkeypatch.setattr(operations, "MAX_TREATED", 2)
    monkeypatch.setattr(model_operations, "TREATED", 2)


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch) as caught:
        HISTORIES.play(breach)
    print(caught.value.__notes__[0], caught.value.why)


def test_the_same_histories_pass_with_no_rule_broken(monkeypatch):
    rewritten = {(owner, name): words for edits in MUTATIONS.values() for owner, name, words, _ in edits}
    for (owner, name), words in rewritten.items():
        mutate(monkeypatch, owner, name, words, words)
    assert HISTORIES.play() == len(SEEDS) * STEPS
