"""`examples/agent_program.py` on a yard: what its first lines say of it."""

import asyncio
import importlib.util
from pathlib import Path

import pytest

from taskyard import TaskState
from taskyard.testing import Yard, running_task
from tests.waiting import until

EXAMPLE = Path(__file__).parents[1] / "examples" / "agent_program.py"
PARAMS = {"topic": "tides", "parts": 20}
OUTLINE = "This is what is known of tides."
SUMMARY = "This is what is known of 20 parts in 2,000,000 characters."


@pytest.fixture
def program():
    """The example as a module of its own."""
    spec = importlib.util.spec_from_file_location("agent_program", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def begun(yard, program, **fields):
    """The task of the program, once nothing goes on by itself."""
    yard.host(program.host)
    task = await yard.client.submit("study", params=PARAMS, **fields)
    await yard.advance()
    return task


async def children(yard, task):
    return [each async for each in yard.client.list(parent_id=task.id)]


def test_it_is_short():
    assert EXAMPLE.read_text().count("\n") < 70


async def test_twenty_parts_on_four_slots_are_handed_on_and_a_person_is_asked(yard, program):
    task = await begun(yard, program, token_limit=1_000)
    (question,) = await task.questions()
    assert question.question.choices == ("yes", "no")
    parts = await children(yard, task)
    assert sorted(part.child_name for part in parts) == sorted(["report", *(f"part-{number}" for number in range(20))])
    await task.answer("publish", "yes")
    assert await task.result() == "published 2,000,000 characters"
    said = [chunk.data async for chunk in task.output()]
    assert "".join(said).split("\n") == [f"{OUTLINE} ", f"{SUMMARY} ", ""]
    (report,) = [part for part in parts if part.child_name == "report"]
    assert [(each.name, each.size_bytes) for each in report.artifacts] == [("result.json", 2_000_002)]


async def test_each_part_has_a_budget_and_the_program_has_one_over_all_its_runs(yard, program):
    tokens = len(f"{OUTLINE} {SUMMARY}".split())
    task = await begun(yard, program, token_limit=tokens)
    assert ((await task.task()).state, (await task.task()).tokens_used) == (TaskState.PARKED, tokens)
    budgets = {part.token_limit for part in await children(yard, task) if part.action == "part"}
    assert budgets == {program.PART_TOKENS}


async def test_over_its_budget_it_fails_and_asks_nobody(yard, program):
    task = await begun(yard, program, token_limit=len(OUTLINE.split()) + 3)
    assert (await task.task()).error == "token limit exceeded"
    assert await task.questions() == ()


async def test_a_no_publishes_nothing(yard, program):
    task = await begun(yard, program)
    await task.answer("publish", "no")
    assert await task.result() == "not published"


async def test_it_is_cancelled_as_a_tree(yard, program):
    began, stopped, real = asyncio.Event(), asyncio.Event(), program.model

    async def model(task, prompt: str) -> str:
        if task.action == "study":
            return await real(task, prompt)
        began.set()
        try:
            return await asyncio.Event().wait()
        finally:
            stopped.set()

    program.model = model
    yard.host(program.host)
    task = await yard.client.submit("study", params=PARAMS)
    await began.wait()
    await until(task.task, lambda found: found.state is TaskState.PARKED)
    await task.cancel()
    parts = await children(yard, task)
    assert [part.state for part in parts] == [TaskState.CANCELLED] * 20
    await stopped.wait()


async def test_its_parts_are_tested_without_a_server(program):
    results = {f"part-{number}": "words" for number in range(2)} | {"report": "the report"}
    task = running_task({"topic": "tides", "parts": 2}, children=results, came=["join"], answers={"publish": "yes"})
    assert await program.study(task) == "published 10 characters"
    assert task.steps["outline"] == OUTLINE
    assert task.children["part-1"].params == {"prompt": f"part 1 of: {OUTLINE}"}


async def test_it_has_four_runs_and_goes_on_after_a_restart_of_the_server(tmp_path, program):
    runs, real = [], program.study

    async def study(task):
        runs.append(task.attempt)
        return await real(task)

    async with Yard(store=tmp_path / "yard.db") as yard:
        yard.host({"study": study, "part": program.part, "report": program.report}, slots=4)
        task = await yard.client.submit("study", params=PARAMS)
        await yard.advance()
        await yard.restart()
        await task.answer("publish", "yes")
        assert await task.result() == "published 2,000,000 characters"
    assert runs == [1] * 4
