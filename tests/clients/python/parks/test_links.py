"""Links by which somebody without a credential answers a question (docs/rules.md, Answer links)."""

from datetime import timedelta

import pytest

from taskyard import BadRequest, NotFound


async def test_a_link_to_a_question_is_made_for_a_while(yard):
    async def work(task):
        await task.ask("go", "Go?")

    yard.host({"work": work})
    task = await yard.client.submit("work")
    await yard.advance()
    assert (await yard.client.answer_link(task.id, "go")).startswith("/ui/#/default/answer/")
    with pytest.raises(BadRequest, match="lifeSecs: must be from 1"):
        await yard.client.answer_link(task.id, "go", life=0.5)
    with pytest.raises(NotFound):
        await yard.client.answer_link(task.id, "other", life=timedelta(hours=1))
