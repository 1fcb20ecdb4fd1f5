"""Parents that have left memory: what would end with one is refused as the history says (docs/rules.md, Parents)."""

import pytest

from taskyard_server.core.errors import Conflict, NotFound
from taskyard_server.core.names import names
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import OnParentEnd, TaskExtras, TaskOptions

from .history_yard import NS, state

ENDED = "^parentId: the task has ended$"


def of(parent_id, policy=OnParentEnd.CANCEL):
    return {"parent_id": parent_id, "extras": TaskExtras(on_parent_end=policy)}


async def test_a_parent_in_the_history_has_ended(yard):
    first = await yard.past()
    with pytest.raises(Conflict, match=ENDED):
        await yard.submit(**of(first))
    submission = Submission("ann", "click", options=TaskOptions(**of(first)))
    batch = await yard.tasks.submit_batch(NS, [submission], show=lambda each: [str(it) for it in each.outcomes])
    assert batch == ["parentId: the task has ended"]
    known = await yard.tasks.known(NS, [submission])
    (told,) = yard.tasks.submit_each(NS, [submission], known=known, show=lambda each: [str(it) for it in each]).value
    assert told == "parentId: the task has ended"
    assert yard.in_memory(first) is None
    assert yard.in_memory(await yard.submit(**of(first, OnParentEnd.KEEP))) == "queued"


async def test_one_that_blocks_its_target_from_the_history_has_ended_until_it_is_resumed(yard):
    first = await yard.past(target="till")
    with pytest.raises(Conflict, match=ENDED):
        await yard.submit(**of(first))
    await yard.tasks.resume(NS, first, show=state)
    child = await yard.submit(**of(first))
    await yard.tasks.cancel(NS, first, show=state)
    await yard.clock.run_pending()
    assert yard.in_memory(child) == "cancelled"


async def test_a_name_that_is_in_no_store_may_be_named(yard):
    for name in ("job 7", "tsk_nope", f"tsk_{'0' * 32}"):
        assert yard.in_memory(await yard.submit(**of(name))) == "queued"


async def test_of_other_agents_than_the_callers_the_history_tells_nothing(yard):
    first = await yard.past()
    submission = Submission("bob", "click", options=TaskOptions(**of(first)))
    with pytest.raises(NotFound, match=f"^parentId: task {first} not found$"):
        await yard.tasks.submit(NS, submission, agents=names(["bob"]), show=state)


async def test_a_child_is_cancelled_in_the_commit_of_its_parents_end(yard):
    parent = await yard.submit()
    children = [await yard.submit(hold=True, **of(parent)) for _ in range(3)]
    await yard.done(parent)
    ends = [await yard.tasks.get(NS, each, show=lambda task: (task.state, task.commit)) for each in [parent, *children]]
    assert [each[0] for each in ends] == ["done", "cancelled", "cancelled", "cancelled"]
    assert len({each[1] for each in ends}) == 1


async def test_what_is_left_after_the_end_of_a_process_is_cancelled_by_the_next(yard):
    parent = await yard.submit()
    children = [await yard.submit(hold=True, **of(parent)) for _ in range(1_500)]
    await yard.done(parent)
    left = [each for each in children if yard.in_memory(each) == "pending"]
    again = await yard.restarted()
    await again.clock.run_pending()
    found = {await again.tasks.get(NS, each, show=state) for each in children}
    assert found == {"cancelled"}
    assert 0 < len(left) < len(children)
    await again.engine.admin.close()
