"""TargetService, and targets in the stats and in listings of tasks."""

import pytest

from taskyard.v1.target_pb2 import Target
from taskyard.v1.task_pb2 import Task
from tests import reporting

ELSEWHERE = (("taskyard-namespace", "elsewhere"),)


async def blocked(api, target="t"):
    """The ids of a task that blocks a target, and of the next one of the target."""
    task_id = (await api.submit(target=target)).task_id
    behind = (await api.submit(target=target)).task_id
    await api.fail(await api.run_one())
    return task_id, behind


async def test_without_targets_the_listing_is_empty(api):
    assert not (await api.list_targets()).targets
    await api.submit()
    assert not (await api.list_targets()).targets


async def test_a_target_shows_its_status_its_current_task_and_what_it_waits_for(api):
    first = (await api.submit(target="t")).task_id
    second = (await api.submit(target="t")).task_id

    async def target_fields():
        (target,) = (await api.list_targets()).targets
        assert target.target == "t"
        assert target.since.seconds
        return Target.Status.Name(target.status), target.queued, target.task_id, target.waits_for

    assert await target_fields() == ("ready", 2, first, "")
    lease = await api.run_one()
    assert await target_fields() == ("running", 1, first, f"{first} to end")
    await api.pause(first)
    assert await target_fields() == ("blocked", 1, first, f"{first} to be resumed, resolved or cancelled")
    await api.resume(first)
    assert await target_fields() == ("stopping", 2, first, f"{first} to stop at its host")
    await reporting.release(api.engine, "default", "host", first, lease.token)
    assert await target_fields() == ("ready", 2, first, "")
    await api.cancel(first)
    assert await target_fields() == ("ready", 1, second, "")
    await api.cancel(second)
    assert not (await api.list_targets()).targets


async def test_a_target_is_listed_while_its_only_task_is_held_or_blocks(api):
    held = (await api.submit(target="a", hold=True)).task_id
    task_id, behind = await blocked(api, "b")
    await api.cancel(behind)
    waiting, blocking = (await api.list_targets()).targets
    assert (waiting.status, waiting.queued, waiting.task_id) == (Target.waiting, 1, held)
    assert waiting.waits_for == f"{held} to come due or to be released"
    assert (blocking.status, blocking.queued, blocking.task_id) == (Target.blocked, 0, task_id)


async def test_targets_are_filtered_by_status(api, refused):
    await blocked(api, "b")
    await api.submit(target="r")
    for status, names in (("blocked", ["b"]), ("ready", ["r"]), ("running", []), ("unspecified", ["b", "r"])):
        response = await api.list_targets(status=Target.Status.Value(status))
        assert [target.target for target in response.targets] == names
    refusal = await refused(api.list_targets(status=99))
    assert (refusal.code, refusal.message) == (
        "bad_request",
        "status: must be among ready, running, stopping, blocked, waiting",
    )


@pytest.mark.parametrize(("size", "pages"), [(0, [7]), (1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (1000, [7])])
async def test_the_pages_of_targets_are_complete_and_ordered_by_name(api, size, pages):
    names = ["", "a:b", "b", "ä 工/?%", "z", "Z", "0", ":"][1:]
    for name in names:
        await api.submit(target=name)
    listed, token = [], None
    while True:
        response = await api.list_targets(page_size=size, page_token=token)
        listed.append([target.target for target in response.targets])
        if not response.HasField("next_page_token"):
            break
        token = response.next_page_token
    assert [len(page) for page in listed] == pages
    assert [name for page in listed for name in page] == sorted(names)


async def test_a_page_with_long_names_fits_into_a_message(api):
    for number in range(1_000):
        await api.submit(target=f"{number:04}" + "\U0001f642" * 1_020, agent_id=f"agent {number % 20}")
    response = await api.list_targets()
    assert response.ByteSize() < 3_500_000
    second = await api.list_targets(page_token=response.next_page_token)
    assert len(response.targets) + len(second.targets) == 1_000


@pytest.mark.parametrize("token", ["nonsense", "!", "\u00e4", "x" * 10_000])
async def test_an_invalid_page_token_is_refused(api, refused, token):
    refusal = await refused(api.list_targets(page_token=token))
    assert (refusal.code, refusal.message) == ("bad_request", "pageToken: is not a token of this listing")


async def test_a_page_token_of_another_filter_or_listing_is_refused(api, refused):
    for _ in range(2):
        await api.submit(target="t")
        await api.submit(target="u")
    by_name = (await api.list_targets(page_size=1)).next_page_token
    assert (await refused(api.list_targets(page_token=by_name, status=Target.ready))).code == "bad_request"
    assert (await refused(api.list_tasks(page_token=by_name))).code == "bad_request"
    by_number = (await api.list_tasks(page_size=1)).next_page_token
    assert (await refused(api.list_targets(page_token=by_number))).code == "bad_request"


# Resume


async def test_a_task_is_resumed_by_its_target(api):
    task_id, behind = await blocked(api)
    response = await api.resume_target_task("t", task_id)
    assert (response.status, response.task_id) == (Task.queued, task_id)
    assert (await api.run_one()).task.id == task_id
    assert (await api.get(behind)).state == Task.queued


@pytest.mark.parametrize("target", ["u", "", "T", "t "])
async def test_a_task_is_not_found_under_another_target(api, refused, target):
    task_id, _ = await blocked(api)
    refusal = await refused(api.resume_target_task(target, task_id))
    assert (refusal.code, refusal.message) == ("not_found", "task not found")
    assert (await api.get(task_id)).state == Task.failed


async def test_a_task_without_a_target_is_not_found_under_an_empty_target(api, refused):
    task_id = (await api.submit()).task_id
    await api.fail(await api.run_one())
    assert (await refused(api.resume_target_task("", task_id))).code == "not_found"


async def test_resuming_a_queued_task_is_a_conflict(api, refused):
    _, behind = await blocked(api)
    assert (await refused(api.resume_target_task("t", behind))).code == "conflict"


# Targets in other responses


async def test_the_stats_show_what_each_target_waits_for(api):
    assert not (await api.stats()).queue.HasField("targets")
    await api.submit(target="free")
    assert not (await api.stats()).queue.HasField("targets"), "it waits for a host"
    await api.run_one()
    task_id, behind = await blocked(api)
    queue = (await api.stats()).queue
    assert queue.targets.waiting == 1
    assert dict(queue.targets.waits_for) == {"t": f"{task_id} to be resumed, resolved or cancelled"}
    await api.cancel(behind)
    assert not (await api.stats()).queue.HasField("targets")


async def test_a_task_shows_its_target_and_can_be_listed_by_it(api):
    task_id = (await api.submit(target="t")).task_id
    await api.submit(target="u")
    assert (await api.get(task_id)).target == "t"
    assert [task.task_id for task in (await api.list_tasks(target="t")).tasks] == [task_id]


async def test_a_deadline_that_has_not_started_is_not_shown(api):
    first, second = [(await api.submit(target="t")).task_id for _ in range(2)]
    assert (await api.get(first)).HasField("deadline")
    assert not (await api.get(second)).HasField("deadline")


async def test_targets_of_the_same_name_in_two_namespaces_are_independent(api, refused):
    task_id, _ = await blocked(api)
    assert not (await api.list_targets(metadata=ELSEWHERE)).targets
    await api.submit(target="t", metadata=ELSEWHERE)
    (target,) = (await api.list_targets(metadata=ELSEWHERE)).targets
    assert (target.status, target.queued) == (Target.ready, 1)
    assert not (await api.stats(metadata=ELSEWHERE)).queue.HasField("targets")
    assert (await refused(api.resume_target_task("t", task_id, metadata=ELSEWHERE))).code == "not_found"
