"""CancelTask with children, ends of children with their parents, and ListTasks by parent (docs/rules.md, Parents)."""

import pytest

from taskyard.v1.task_pb2 import CancelTaskRequest, Parent, Task


def cancel(api, task_id):
    return api.tasks.CancelTask(CancelTaskRequest(task_id=task_id, cancel_children=True))


async def family(api):
    """A task, its child, and the child of that."""
    ids = [(await api.submit()).task_id]
    for _ in range(2):
        ids.append((await api.submit(parent_id=ids[-1])).task_id)
    return ids


async def states(api, ids):
    return [Task.State.Name((await api.get(task_id)).state) for task_id in ids]


async def test_the_answer_counts_the_further_tasks(api):
    ids = await family(api)
    answer = await cancel(api, ids[0])
    assert (answer.task_id, answer.status, answer.children_cancelled) == (ids[0], Task.cancelled, 2)
    assert await states(api, ids) == ["cancelled"] * 3


async def test_without_being_asked_for_they_live_on_and_are_not_counted(api):
    ids = await family(api)
    answer = await api.cancel(ids[0])
    assert not answer.HasField("children_cancelled")
    assert await states(api, ids) == ["cancelled", "queued", "queued"]


async def test_of_none_the_count_is_zero(api):
    answer = await cancel(api, (await api.submit()).task_id)
    assert answer.HasField("children_cancelled")
    assert answer.children_cancelled == 0


async def test_a_parent_that_has_ended_shows_how(api):
    parent = (await api.submit()).task_id
    lease = await api.run_one()
    child = (await api.submit(parent_id=parent)).task_id
    await api.complete(lease)
    answer = await cancel(api, parent)
    assert (answer.status, answer.children_cancelled) == (Task.done, 1)
    assert await states(api, [child]) == ["cancelled"]


async def test_a_repeat_is_a_conflict(api, refused):
    parent, *_ = await family(api)
    await cancel(api, parent)
    assert (await refused(cancel(api, parent))).code == "conflict"


async def test_a_child_says_whether_it_ends_with_its_parent_and_does(api, refused):
    parent = (await api.submit()).task_id
    policies = (None, Parent.keep, Parent.cancel)
    ids = [(await api.submit(parent_id=parent, on_parent_end=policy)).task_id for policy in policies]
    shown = [await api.get(task_id) for task_id in ids]
    assert [task.HasField("on_parent_end") for task in shown] == [False, True, True]
    assert [task.on_parent_end for task in shown[1:]] == [Parent.keep, Parent.cancel]
    await api.cancel(parent)
    assert await states(api, ids) == ["queued", "queued", "cancelled"]
    assert (await api.get(ids[2])).error == f"parent {parent} ended"
    refusal = await refused(api.submit(parent_id=parent, on_parent_end=Parent.cancel))
    assert (refusal.code, refusal.message) == ("conflict", "parentId: the task has ended")


async def test_a_listing_names_the_children_and_not_theirs(api):
    parent, child, _ = await family(api)
    listed = (await api.list_tasks(parent_id=parent)).tasks
    assert [(task.task_id, task.parent_id) for task in listed] == [(child, parent)]
    assert not (await api.list_tasks(parent_id="tsk_none")).tasks


async def test_a_page_token_belongs_to_its_parent(api, refused):
    parent = (await api.submit()).task_id
    ids = [(await api.submit(parent_id=parent)).task_id for _ in range(2)]
    first = await api.list_tasks(parent_id=parent, page_size=1)
    second = await api.list_tasks(parent_id=parent, page_size=1, page_token=first.next_page_token)
    assert [task.task_id for page in (first, second) for task in page.tasks] == ids
    for other in ("tsk_other", ""):
        refusal = await refused(api.list_tasks(parent_id=other, page_token=first.next_page_token))
        assert refusal.code == "bad_request"


@pytest.mark.parametrize("newest_first", [False, True])
async def test_parents_and_other_filters_must_all_match(api, newest_first):
    parent, child, _ = await family(api)
    await api.cancel(child)
    other = (await api.submit(agent_id="bob", parent_id=parent)).task_id

    async def ids(**fields):
        return [task.task_id for task in (await api.list_tasks(newest_first=newest_first, **fields)).tasks]

    assert sorted(await ids(parent_id=parent)) == sorted([child, other])
    assert await ids(parent_id=parent, state="queued") == [other]
    assert await ids(parent_id=parent, agent_id="ann") == [child]
