"""Rules of attempts, claims and families are broken one by one, as in `test_mutations`, and each breach is caught."""

from __future__ import annotations

import pytest

from taskyard_server.core import grants
from taskyard_server.core.attempts import Attempts
from taskyard_server.core.children import Children
from taskyard_server.core.grants import Grants
from taskyard_server.core.runs.run_timeouts import RunTimeouts

from .simulator import Mismatch
from .test_mutations import HISTORIES, Edit, mutate

# They rewrite the core.
pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

MUTATIONS: dict[str, list[Edit]] = {
    "a host that fails is not asked when to try again": [
        (Attempts, "fail", "if retry_after_secs is None:", "if policy is not None:"),
    ],
    "a task that is set back is an attempt": [
        (Attempts, "set_back", "self.note_failure(task, code, None)", "self.record(now, task, '', code)"),
    ],
    "why a task is set back is not told": [(Attempts, "set_back", "self.note_failure(task, code, None)", "pass")],
    "a task that is set back counts as delivered": [(Grants, "release", "task.deliveries -= 1", "pass")],
    "what a host asks for gives no attempt to a task without retries": [
        (Attempts, "fail", "retry_after_secs is None or ", "True or "),
    ],
    "what hosts ask for gives a task attempts without end": [
        (Attempts, "fail", "task.deliveries >= life.limits.max_deliveries", "False"),
    ],
    "a run timeout never ends": [
        (RunTimeouts, "begin", "self._timers.add(at, lease)", "pass"),
    ],
    "a run timeout outlives its attempt": [
        (RunTimeouts, "end", "self._timers.remove(at, lease)", "pass"),
    ],
    "children of children are not cancelled": [
        (Children, "live_below", "names.append(name)", "pass"),
    ],
    "what lives below a task that has ended is not cancelled": [
        (Children, "ended", "self._below[parent_id][task.id] = None", "self._below[parent_id].pop(task.id)"),
    ],
    "a claim is forgotten with the first of its leases": [
        (grants, "_forget_claim", "if not leases", "if True"),
    ],
    "a lease is granted under no claim": [
        (
            Grants,
            "grant",
            "lease = Lease(task, host, token, now, secs, claim_id)",
            "lease = Lease(task, host, token, now, secs)",
        ),
    ],
    "an attempt follows too soon": [
        (Attempts, "fail", "policy.delay_secs(", "0.4 * policy.delay_secs("),
    ],
    "an attempt follows after the deadline": [
        (Attempts, "fail", "due >= task.deadline", "False"),
    ],
}


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Mismatch) as caught:
        HISTORIES.play(breach)
    print(caught.value.__notes__[0], caught.value.why)
