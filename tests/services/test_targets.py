"""TargetService, and the targets as the stats and the listing of tasks show them."""

import pytest

from taskyard.v1.target_pb2 import Target
from taskyard.v1.task_pb2 import Task
from tests import reporting

ELSEWHERE = (("taskyard-namespace", "elsewhere"),)


async def blocked(door, target="t"):
    """The id of a task that blocks a target, and that of the one behind it."""
    task_id = (await door.submit(target=target)).task_id
    behind = (await door.submit(target=target)).task_id
    await door.fail(await door.run_one())
    return task_id, behind


async def test_without_targets_the_list_is_empty(door):
    assert not (await door.list_targets()).targets
    await door.submit()
    assert not (await door.list_targets()).targets


async def test_a_target_shows_how_it_stands_which_task_that_is_about_and_what_it_waits_for(door):
    first = (await door.submit(target="t")).task_id
    second = (await door.submit(target="t")).task_id

    async def shown():
        (target,) = (await door.list_targets()).targets
        assert target.target == "t"
        assert target.since.seconds
        return Target.Status.Name(target.status), target.queued, target.task_id, target.waits_for

    assert await shown() == ("ready", 2, first, "")
    lease = await door.run_one()
    assert await shown() == ("running", 1, first, f"{first} to end")
    await door.pause(first)
    assert await shown() == ("blocked", 1, first, f"{first} to be resumed, resolved or cancelled")
    await door.resume(first)
    assert await shown() == ("stopping", 2, first, f"{first} to stop at its host")
    await reporting.release(door.engine, "default", "host", first, lease.token)
    assert await shown() == ("ready", 2, first, "")
    await door.cancel(first)
    assert await shown() == ("ready", 1, second, "")
    await door.cancel(second)
    assert not (await door.list_targets()).targets


async def test_a_target_is_listed_while_its_only_task_is_held_or_blocks(door):
    held = (await door.submit(target="a", hold=True)).task_id
    task_id, behind = await blocked(door, "b")
    await door.cancel(behind)
    waiting, blocking = (await door.list_targets()).targets
    assert (waiting.status, waiting.queued, waiting.task_id) == (Target.waiting, 1, held)
    assert waiting.waits_for == f"{held} to come due or to be released"
    assert (blocking.status, blocking.queued, blocking.task_id) == (Target.blocked, 0, task_id)


async def test_targets_are_filtered_by_status(door, refused):
    await blocked(door, "b")
    await door.submit(target="r")
    for status, names in (("blocked", ["b"]), ("ready", ["r"]), ("running", []), ("unspecified", ["b", "r"])):
        answer = await door.list_targets(status=Target.Status.Value(status))
        assert [target.target for target in answer.targets] == names
    refusal = await refused(door.list_targets(status=99))
    assert (refusal.code, refusal.message) == (
        "bad_request",
        "status: must be among ready, running, stopping, blocked, waiting",
    )


@pytest.mark.parametrize(("size", "pages"), [(0, [7]), (1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (1000, [7])])
async def test_pages_of_targets_are_whole_and_by_name(door, size, pages):
    names = ["", "a:b", "b", "ä 工/?%", "z", "Z", "0", ":"][1:]
    for name in names:
        await door.submit(target=name)
    found, token = [], None
    while True:
        answer = await door.list_targets(page_size=size, page_token=token)
        found.append([target.target for target in answer.targets])
        if not answer.HasField("next_page_token"):
            break
        token = answer.next_page_token
    assert [len(page) for page in found] == pages
    assert [name for page in found for name in page] == sorted(names)


async def test_a_page_fits_a_message_whatever_the_names_are(door):
    for number in range(1_000):
        await door.submit(target=f"{number:04}" + "\U0001f642" * 1_020, agent_id=f"agent {number % 20}")
    answer = await door.list_targets()
    assert answer.ByteSize() < 3_500_000
    rest = await door.list_targets(page_token=answer.next_page_token)
    assert len(answer.targets) + len(rest.targets) == 1_000


@pytest.mark.parametrize("token", ["nonsense", "!", "\u00e4", "x" * 10_000])
async def test_a_token_that_is_none_is_refused(door, refused, token):
    refusal = await refused(door.list_targets(page_token=token))
    assert (refusal.code, refusal.message) == ("bad_request", "pageToken: is not a token of this listing")


async def test_a_token_of_another_filter_or_listing_is_refused(door, refused):
    for _ in range(2):
        await door.submit(target="t")
        await door.submit(target="u")
    by_name = (await door.list_targets(page_size=1)).next_page_token
    assert (await refused(door.list_targets(page_token=by_name, status=Target.ready))).code == "bad_request"
    assert (await refused(door.list_tasks(page_token=by_name))).code == "bad_request"
    by_number = (await door.list_tasks(page_size=1)).next_page_token
    assert (await refused(door.list_targets(page_token=by_number))).code == "bad_request"


# Resume


async def test_a_task_is_resumed_by_its_target(door):
    task_id, behind = await blocked(door)
    answer = await door.resume_of("t", task_id)
    assert (answer.status, answer.task_id) == (Task.queued, task_id)
    assert (await door.run_one()).task.id == task_id
    assert (await door.get(behind)).state == Task.queued


@pytest.mark.parametrize("target", ["u", "", "T", "t "])
async def test_under_another_target_it_is_not_found(door, refused, target):
    task_id, _ = await blocked(door)
    refusal = await refused(door.resume_of(target, task_id))
    assert (refusal.code, refusal.message) == ("not_found", "task not found")
    assert (await door.get(task_id)).state == Task.failed


async def test_a_plain_task_is_found_under_no_target(door, refused):
    task_id = (await door.submit()).task_id
    await door.fail(await door.run_one())
    assert (await refused(door.resume_of("", task_id))).code == "not_found"


async def test_one_that_is_neither_paused_nor_failed_nor_held_is_a_conflict(door, refused):
    _, behind = await blocked(door)
    assert (await refused(door.resume_of("t", behind))).code == "conflict"


# Elsewhere


async def test_the_stats_name_what_each_target_waits_for(door):
    assert not (await door.stats()).queue.HasField("targets")
    await door.submit(target="free")
    assert not (await door.stats()).queue.HasField("targets"), "it waits for a host"
    await door.run_one()
    task_id, behind = await blocked(door)
    queue = (await door.stats()).queue
    assert queue.targets.waiting == 1
    assert dict(queue.targets.waits_for) == {"t": f"{task_id} to be resumed, resolved or cancelled"}
    await door.cancel(behind)
    assert not (await door.stats()).queue.HasField("targets")


async def test_a_task_shows_its_target_and_is_listed_by_it(door):
    task_id = (await door.submit(target="t")).task_id
    await door.submit(target="u")
    assert (await door.get(task_id)).target == "t"
    assert [task.task_id for task in (await door.list_tasks(target="t")).tasks] == [task_id]


async def test_a_deadline_that_does_not_count_yet_is_not_shown(door):
    first, second = [(await door.submit(target="t")).task_id for _ in range(2)]
    assert (await door.get(first)).HasField("deadline")
    assert not (await door.get(second)).HasField("deadline")


async def test_targets_of_the_same_name_in_two_namespaces_know_nothing_of_each_other(door, refused):
    task_id, _ = await blocked(door)
    assert not (await door.list_targets(metadata=ELSEWHERE)).targets
    await door.submit(target="t", metadata=ELSEWHERE)
    (target,) = (await door.list_targets(metadata=ELSEWHERE)).targets
    assert (target.status, target.queued) == (Target.ready, 1)
    assert not (await door.stats(metadata=ELSEWHERE)).queue.HasField("targets")
    assert (await refused(door.resume_of("t", task_id, metadata=ELSEWHERE))).code == "not_found"
