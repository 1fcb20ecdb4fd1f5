"""A caller with certain agents: what is of another agent is as if it were not there (docs/operate/security.md)."""

import asyncio

import pytest

from taskyard_server.core.errors import NotFound, QueueFull
from taskyard_server.core.names import EVERY_NAME, Names, names
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task_options import IdempotencyKey
from taskyard_server.engine.entropy import SystemBits
from tests import reporting
from tests.cases import every_case
from tests.engine.lease_commands import NS, lease_of
from tests.live import live

ANN, BOB, NOBODY = names(["ann"]), names(["bob"]), Names()
NEVER_WAS = "tsk_" + "0" * 32
COMMANDS = {"get": (), "wait": (60,), "cancel": (), "pause": (), "resume": (), "resolve": (None,)}


async def refusal_of(call):
    with pytest.raises(NotFound) as refused:
        await call
    return refused.value.message, refused.value.details


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("others", [BOB, NOBODY, names(["bo*", "annie", "an"])])
async def test_a_task_of_another_agent_is_answered_as_one_that_never_was(engine, submission, command, others):
    task = await engine.tasks.submit(NS, submission("ann", hold=command == "resume"), show=live)
    before = task.state
    call = getattr(engine.tasks, command)
    denied = await refusal_of(call(NS, task.id, *COMMANDS[command], agents=others, show=live))
    assert denied == await refusal_of(call(NS, NEVER_WAS, *COMMANDS[command], agents=others, show=live))
    assert denied == ("task not found", {})
    assert (task.state, task.is_held) == (before, command == "resume")


@pytest.mark.parametrize("own", [ANN, names(["a*"]), names(["bob", "ann"]), EVERY_NAME, None])
async def test_a_task_of_an_own_agent_is_found_and_steered(engine, submission, own):
    task = await engine.tasks.submit(NS, submission("ann", hold=True), show=live)
    assert (await engine.tasks.get(NS, task.id, agents=own, show=live)).id == task.id
    await engine.tasks.resume(NS, task.id, agents=own, show=live)
    assert (await engine.tasks.cancel(NS, task.id, agents=own, show=live)).state == "cancelled"
    assert (await engine.tasks.wait(NS, task.id, 60, agents=own, show=live)).state == "cancelled"


async def test_a_running_task_of_another_agent_is_neither_paused_nor_waited_for(engine, host, submission, clock):
    task = await engine.tasks.submit(NS, submission("ann"), show=live)
    lease = await lease_of(engine, host)
    await reporting.start(engine, NS, host, task.id, lease.token)
    await refusal_of(engine.tasks.pause(NS, task.id, agents=BOB, show=live))
    waits = asyncio.ensure_future(refusal_of(engine.tasks.wait(NS, task.id, 300, agents=BOB, show=live)))
    await clock.run_pending()
    assert waits.done()
    assert task.state == "running"


async def test_a_listing_holds_the_tasks_of_own_agents_alone(engine, submission):
    for agent in ("ann", "bob", "anton", "ann"):
        await engine.tasks.submit(NS, submission(agent), show=live)

    async def listed(agents, **criteria):
        page = await engine.tasks.list_tasks(NS, TaskFilter(agents=agents, **criteria), 0, 10)
        return [task.agent_id for task in page.tasks]

    assert await listed(ANN) == ["ann", "ann"]
    assert await listed(names(["an*"])) == ["ann", "anton", "ann"]
    assert await listed(ANN, agent_id="bob") == []
    assert await listed(NOBODY) == []
    assert len(await listed(None)) == 4


async def test_a_batch_of_another_agent_is_answered_as_one_that_never_was(engine, submission):
    submitted = await engine.tasks.submit_batch(NS, [submission("ann")] * 2, show=live)
    batch_id = submitted.batch.id
    never = "bat_" + "0" * 32
    for call, arguments in ((engine.tasks.get_batch, {"show": live}), (engine.tasks.cancel_batch, {})):
        denied = await refusal_of(call(NS, batch_id, agents=BOB, **arguments))
        assert denied == await refusal_of(call(NS, never, agents=BOB, **arguments)) == ("batch not found", {})
    assert [task.state for task in submitted.outcomes] == ["queued", "queued"]
    assert (await engine.tasks.get_batch(NS, batch_id, agents=ANN, show=live)).id == batch_id
    assert await engine.tasks.cancel_batch(NS, batch_id, agents=ANN) == 2


async def test_a_key_that_another_agent_has_used_tells_nothing(engine, submission):

    first = await engine.tasks.submit(NS, submission("ann", key=IdempotencyKey("order 5", b"one")), show=live)
    other = await engine.tasks.submit(NS, submission("bob", key=IdempotencyKey("order 5", b"two")), show=live)
    assert other.id != first.id
    assert other.state == "queued"


async def test_a_full_queue_can_be_told_with_the_figures_of_the_agent_alone(make_engine, submission):
    engine = make_engine(max_queue_size=3)
    for agent in ("ann", "bob", "bob"):
        await engine.tasks.submit(NS, submission(agent), show=live)
    with pytest.raises(QueueFull) as full:
        await engine.tasks.submit(NS, submission("ann"), show=live)
    assert full.value.details == {"agentId": "ann", "queued": 3, "maxQueue": 3, "maxPerAgent": 100}
    own = full.value.of_agent()
    assert (own.details["queued"], own.message, own.task) == (1, full.value.message, full.value.task)


# What is told of one task


async def test_in_a_private_engine_ids_of_one_moment_share_no_entropy(make_engine, submission):
    engine = make_engine(private=True)
    ids = [(await engine.tasks.submit(NS, submission(), show=live)).id for _ in range(20)]
    assert len({task_id[-10:] for task_id in ids}) == 20
    assert ids == sorted(ids)


async def test_in_an_engine_for_everybody_entropy_is_drawn_once_a_millisecond(engine, submission):
    ids = [(await engine.tasks.submit(NS, submission(), show=live)).id for _ in range(20)]
    assert len({task_id[-10:] for task_id in ids}) == 1


async def test_in_a_private_engine_no_task_has_a_position(make_engine, submission):
    engine = make_engine(private=True)
    task = await engine.tasks.submit(NS, submission(), show=live)
    batch = await engine.tasks.submit_batch(NS, [submission()], show=live)
    assert [task.position, batch.outcomes[0].position] == [None, None]


def test_the_bits_of_the_system_are_forty_and_never_the_same_again():
    draw = SystemBits()
    drawn = [draw() for _ in range(5_000)]
    assert len(set(drawn)) == 5_000
    assert max(drawn) < 1 << 40
    assert min(drawn) >= 0


# Sets of names


@every_case(
    ("patterns", "disjoint"),
    [
        (["ann", "an*"], ["an*"]),
        (["an*", "ann*", "b", "anna*"], ["an*", "b"]),
        (["*", "a*", "b"], ["*"]),
        (["a", "b"], ["a", "b"]),
        (["b*", "a*"], ["a*", "b*"]),
        ([], []),
    ],
)
def test_a_disjoint_set_holds_each_name_by_one_pattern(patterns, disjoint):
    assert names(patterns).disjoint().patterns == disjoint
