"""TargetService, and the targets as the stats and the listing of tasks show them."""

import pytest

from taskyard.v1.target_pb2 import Target
from taskyard.v1.task_pb2 import Task
from tests import reporting

ELSEWHERE = (("taskyard-namespace", "elsewhere"),)


async def blocked(api, target="t"):
    """The id of a task that blocks a target, and that of the one behind it."""
    task_id = (await api.submit(target=target)).task_id
    behind = (await api.submit(target=target)).task_id
    await api.fail(await api.run_one())
    return task_id, behind


async def test_without_targets_the_list_is_empty(api):
    assert not (await api.list_targets()).targets
    await api.submit()
    assert not (await api.list_targets()).targets


async def test_a_target_shows_how_it_stands_which_task_that_is_about_and_what_it_waits_for(api):
    first = (await api.submit(target="t")).task_id
    second = (await api.submit(target="t")).task_id

    async def shown():
        (target,) = (await api.list_targets()).targets
        assert target.target == "t"
        assert target.since.seconds
        return Target.Status.Name(target.status), target.queued, target.task_id, target.waits_for

    assert await shown() == ("ready", 2, first, "")
    lease = await api.run_one()
    assert await shown() == ("running", 1, first, f"{first} to end")
    await api.pause(first)
    assert await shown() == ("blocked", 1, first, f"{first} to be resumed, resolved or cancelled")
    await api.resume(first)
    assert await shown() == ("stopping", 2, first, f"{first} to stop at its host")
    await reporting.release(api.engine, "default", "host", first, lease.token)
    assert await shown() == ("ready", 2, first, "")
    await api.cancel(first)
    assert await shown() == ("ready", 1, second, "")
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
        answer = await api.list_targets(status=Target.Status.Value(status))
        assert [target.target for target in answer.targets] == names
    refusal = await refused(api.list_targets(status=99))
    assert (refusal.code, refusal.message) == (
        "bad_request",
        "status: must be among ready, running, stopping, blocked, waiting",
    )


@pytest.mark.parametrize(("size", "pages"), [(0, [7]), (1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (1000, [7])])
async def test_pages_of_targets_are_whole_and_by_name(api, size, pages):
    names = ["", "a:b", "b", "ä 工/?%", "z", "Z", "0", ":"][1:]
    for name in names:
        await api.submit(target=name)
    found, token = [], None
    while True:
        answer = await api.list_targets(page_size=size, page_token=token)
        found.append([target.target for target in answer.targets])
        if not answer.HasField("next_page_token"):
            break
        token = answer.next_page_token
    assert [len(page) for page in found] == pages
    assert [name for page in found for name in page] == sorted(names)


async def test_a_page_fits_a_message_whatever_the_names_are(api):
    for number in range(1_000):
        await api.submit(target=f"{number:04}" + "\U0001f642" * 1_020, agent_id=f"agent {number % 20}")
    answer = await api.list_targets()
    assert answer.ByteSize() < 3_500_000
    rest = await api.list_targets(page_token=answer.next_page_token)
    assert len(answer.targets) + len(rest.targets) == 1_000


@pytest.mark.parametrize("token", ["nonsense", "!", "\u00e4", "x" * 10_000])
async def test_a_token_that_is_none_is_refused(api, refused, token):
    refusal = await refused(api.list_targets(page_token=token))
    assert (refusal.code, refusal.message) == ("bad_request", "pageToken: is not a token of this listing")


async def test_a_token_of_another_filter_or_listing_is_refused(api, refused):
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
    answer = await api.resume_target_task("t", task_id)
    assert (answer.status, answer.task_id) == (Task.queued, task_id)
    assert (await api.run_one()).task.id == task_id
    assert (await api.get(behind)).state == Task.queued


@pytest.mark.parametrize("target", ["u", "", "T", "t "])
async def test_under_another_target_it_is_not_found(api, refused, target):
    task_id, _ = await blocked(api)
    refusal = await refused(api.resume_target_task(target, task_id))
    assert (refusal.code, refusal.message) == ("not_found", "task not found")
    assert (await api.get(task_id)).state == Task.failed


async def test_a_plain_task_is_found_under_no_target(api, refused):
    task_id = (await api.submit()).task_id
    await api.fail(await api.run_one())
    assert (await refused(api.resume_target_task("", task_id))).code == "not_found"


async def test_one_that_is_neither_paused_nor_failed_nor_held_is_a_conflict(api, refused):
    _, behind = await blocked(api)
    assert (await refused(api.resume_target_task("t", behind))).code == "conflict"


# Elsewhere


async def test_the_stats_name_what_each_target_waits_for(api):
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


async def test_a_task_shows_its_target_and_is_listed_by_it(api):
    task_id = (await api.submit(target="t")).task_id
    await api.submit(target="u")
    assert (await api.get(task_id)).target == "t"
    assert [task.task_id for task in (await api.list_tasks(target="t")).tasks] == [task_id]


async def test_a_deadline_that_does_not_count_yet_is_not_shown(api):
    first, second = [(await api.submit(target="t")).task_id for _ in range(2)]
    assert (await api.get(first)).HasField("deadline")
    assert not (await api.get(second)).HasField("deadline")


async def test_targets_of_the_same_name_in_two_namespaces_know_nothing_of_each_other(api, refused):
    task_id, _ = await blocked(api)
    assert not (await api.list_targets(metadata=ELSEWHERE)).targets
    await api.submit(target="t", metadata=ELSEWHERE)
    (target,) = (await api.list_targets(metadata=ELSEWHERE)).targets
    assert (target.status, target.queued) == (Target.ready, 1)
    assert not (await api.stats(metadata=ELSEWHERE)).queue.HasField("targets")
    assert (await refused(api.resume_target_task("t", task_id, metadata=ELSEWHERE))).code == "not_found"
