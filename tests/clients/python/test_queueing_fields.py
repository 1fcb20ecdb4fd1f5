"""Keys, predecessors and policies of tasks as the SDK takes and shows them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from taskyard import Action, Client, NewTask, Submitted, Task, TaskState
from taskyard.v1 import task_pb2 as pb

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = Submitted("tsk_1", TaskState.QUEUED, 1, NOW)


def test_ids_acceptances_and_tasks_are_named_by_their_ids() -> None:
    task = NewTask("click", after=["tsk_0", FIRST, Task("tsk_2", "ann", "click", TaskState.DONE, NOW)])
    message = task.to_message("ann", "key")
    assert list(message.after) == ["tsk_0", "tsk_1", "tsk_2"]
    assert not message.HasField("after_policy")


def test_in_a_batch_tasks_that_stand_before_are_named_by_their_place() -> None:
    one, two = NewTask("click"), NewTask("click")
    last = NewTask("click", after=[two, "tsk_0", one], after_policy="ended")
    message = last.to_batch_message("key", before=[one, two])
    assert (list(message.after), list(message.after_indexes)) == (["tsk_0"], [1, 0])
    assert message.after_policy == pb.After.ended


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        ("tsk_1", r"after: is a sequence of tasks, not 'tsk_1' \(str\)"),
        (5, r"after: is a sequence of tasks, not 5 \(int\)"),
        (FIRST, r"after: is a sequence of tasks"),
        ([5], r"after: takes ids, handles and tasks, not 5 \(int\)"),
    ],
)
async def test_anything_else_is_refused_before_it_is_sent(client: Client, after: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        await client.submit("click", after=after)
    with pytest.raises(TypeError, match=problem):
        client.map("click", [{}], after=after)
    with pytest.raises(TypeError, match=problem):
        await client.submit_batch([NewTask("click", after=after)])


async def test_a_new_task_is_no_predecessor_outside_of_its_batch(client: Client) -> None:
    first = NewTask("fetch")
    with pytest.raises(ValueError, match="after: 'fetch' was not submitted; a NewTask is for tasks of the same batch"):
        await client.submit("click", after=[first])
    with pytest.raises(ValueError, match="after: 'fetch' does not stand in the batch before the task that comes after"):
        await client.submit_batch([NewTask("click", after=[first]), first])
    with pytest.raises(ValueError, match="after: 'fetch' stands several times in the batch"):
        await client.submit_batch([first, first, NewTask("click", after=[first])])
    assert [task async for task in client.list()] == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"after_policy": "always"}, r"after_policy: is 'success' or 'ended', not 'always' \(str\)"),
        ({"unique_while": "ever"}, r"unique_while: is 'queued' or 'live'"),
        ({"on_conflict": "replace"}, r"on_conflict: is 'existing' or 'reject' or 'replaceQueued'"),
        ({"on_target_failure": "stop"}, r"on_target_failure: is 'block' or 'continue'"),
        ({"on_parent_end": "stop"}, r"on_parent_end: is 'keep' or 'cancel'"),
    ],
)
async def test_a_word_that_a_field_does_not_take_is_a_value_error(
    client: Client, fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        await client.submit("click", **fields)


async def test_names_of_keys_are_texts(client: Client) -> None:
    with pytest.raises(TypeError, match=r"concurrency_keys: is a sequence of names, not 'site:a' \(str\)"):
        await client.submit("click", concurrency_keys="site:a")
    with pytest.raises(TypeError, match=r"unique_key: is a text, not 5 \(int\)"):
        await client.submit("click", unique_key=5)  # type: ignore[call-overload]


def test_an_action_gives_its_tasks_keys_of_their_input() -> None:
    crawl = Action[str, None](
        "crawl",
        concurrency_keys=lambda site: [f"site:{site}"],
        unique_key=lambda site: site,
        unique_while="queued",
        on_conflict="replaceQueued",
        on_target_failure="continue",
        after_policy="ended",
    )
    fields = crawl.fields_for("a")
    message = NewTask("crawl", **fields).to_message("ann", "key")
    assert (list(message.concurrency_keys), message.unique_key) == (["site:a"], "a")
    assert (message.unique_while, message.on_conflict) == (pb.Unique.queued, pb.Unique.replaceQueued)
    assert (message.on_target_failure, message.after_policy) == ("continue", pb.After.ended)


def test_a_schedule_has_keys_and_a_target_policy_and_nothing_that_is_for_one_task() -> None:
    task = NewTask("click", concurrency_keys=["site:a"], target="t", on_target_failure="continue")
    template = task.to_template("ann")
    assert (list(template.concurrency_keys), template.on_target_failure) == (["site:a"], "continue")
    assert NewTask.from_template(template) == NewTask(
        "click", agent_id="ann", concurrency_keys=("site:a",), target="t", on_target_failure="continue"
    )
    for fields in ({"after": ["tsk_1"]}, {"unique_key": "k"}, {"on_conflict": "reject"}, {"on_parent_end": "cancel"}):
        with pytest.raises(ValueError, match=f"{next(iter(fields))}: is for a single task"):
            NewTask("click", **fields).to_template("ann")  # type: ignore[arg-type]


def test_a_task_shows_what_it_was_submitted_with() -> None:
    message = pb.Task(
        task_id="tsk_3",
        agent_id="ann",
        action="click",
        state=pb.Task.pending,
        concurrency_keys=["a", "b"],
        after=["tsk_1"],
        after_policy="success",
        unique_key="k",
        unique_while="live",
        on_target_failure="block",
        on_parent_end="cancel",
        notice="no live host offers the action click",
    )
    task = Task.from_message(message)
    assert (task.concurrency_keys, task.after, task.after_policy) == (("a", "b"), ("tsk_1",), "success")
    assert (task.unique_key, task.unique_while, task.on_target_failure) == ("k", "live", "block")
    assert (task.notice, task.on_parent_end) == ("no live host offers the action click", "cancel")
    assert Task.from_message(pb.Task(state=pb.Task.queued)).after_policy is None
