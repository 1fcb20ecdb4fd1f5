"""The simulation of owners finds what it is for: rules of the replicas and of their store are broken one by one.

Where the store that is broken is the one in memory, the rule is one of `store/postgres_commit.py` and its like, too.
"""

import pytest

from taskyard_server.engine.memory.tenures import Tenures
from taskyard_server.replicas.door import OwnersDoor
from taskyard_server.replicas.membership import Membership
from taskyard_server.replicas.ownership import Ownership
from taskyard_server.replicas.serving import ReplicaServing
from taskyard_server.replicas.trust import Trust
from taskyard_server.store.committer import Committer
from tests.replicas.shared_rows import SharedRows
from tests.simulation.test_mutations import Edit, mutate

from .simulation import Failure, OwnersSimulation

pytestmark = [pytest.mark.python_core, pytest.mark.mutation]

SEEDS = range(1000, 1200)
"""A breach must be seen within as many histories as CI runs."""

MUTATIONS: dict[str, list[Edit]] = {
    "a commit needs no term": [
        (SharedRows, "commit", "(owner.instance, owner.term) != (instance, fence.term)", "owner.instance != instance"),
    ],
    "a commit needs no owner": [
        (SharedRows, "commit", "(owner.instance, owner.term) != (instance, fence.term)", "owner.term != fence.term"),
    ],
    "a commit needs no number": [
        (SharedRows, "commit", "owner.commit_no == fence.number - 1", "True"),
    ],
    "a commit that was written before is lost": [
        (SharedRows, "commit", "owner.commit_no < fence.number", "True"),
    ],
    "a commit that is lost counts as written": [
        (
            SharedRows,
            "commit",
            "lost.add(number)\n            elif owner.commit_no ==",
            "pass\n            elif owner.commit_no ==",
        ),
    ],
    "who is dead renews itself": [
        (SharedRows, "renew", "known is None or known.died_at is not None", "known is None"),
    ],
    "a take keeps the term": [(SharedRows, "take", "owner.term + 1", "owner.term")],
    "what a living replica owns is taken": [
        (SharedRows, "take", "owner.instance != instance and self.lives(owner.instance)", "False"),
    ],
    "others are found dead at once": [
        (Membership, "renew", "DEAD_AFTER * self._failover_secs", "0.2 * self._failover_secs"),
    ],
    "trust never ends": [(Trust, "__init__", "self._secs = secs", "self._secs = 1e9")],
    "trust counts from the answer": [
        (Membership, "renew", "self._trust.renewed(began_at)", "self._trust.renewed(self._trust.now())")
    ],
    "answers need no trust": [
        (OwnersDoor, "may_tell", "life == self._trust.life and self._trust.holds", "True"),
    ],
    "what was begun in a life is told in the next": [
        (OwnersDoor, "may_tell", "life == self._trust.life and self._trust.holds", "self._trust.holds"),
        (OwnersDoor, "_trusted", "life == self._trust.life and ", ""),
    ],
    "what is published needs no trust": [
        (ReplicaServing, "_may_tell", "None if trust.holds else asyncio.ensure_future(trust.regained())", "None"),
    ],
    "what is lost is told": [(Committer, "_keep", "self.forget(source)", "pass")],
    "who is found dead serves on": [(Ownership, "_died", "self._lost(name)", "pass")],
    "what is being given up is taken meanwhile": [
        (Ownership, "_take_or_create", "self._tenures.is_leaving(name)", "False"),
    ],
    "what is given up takes commands": [(Tenures, "give_up", "state.is_leaving = True", "pass")],
    "what is given up is not committed before": [(Tenures, "give_up", "await self._settle(state)", "pass")],
    "a namespace begins before it is committed": [
        (Tenures, "begin", "await self._keeper.committer.wait(state, patient=True)", "pass"),
    ],
}


def run() -> int:
    """Histories, until one fails; how many there were."""
    for count, seed in enumerate(SEEDS):
        try:
            OwnersSimulation(seed).run()
        except Failure as failure:
            failure.add_note(f"caught by the history {count + 1}")
            raise
    return len(SEEDS)


@pytest.mark.parametrize("breach", MUTATIONS)
def test_a_broken_rule_is_caught(monkeypatch, breach):
    for edit in MUTATIONS[breach]:
        mutate(monkeypatch, *edit)
    with pytest.raises(Failure) as caught:
        run()
    print(caught.value.__notes__[0], caught.value.why)
