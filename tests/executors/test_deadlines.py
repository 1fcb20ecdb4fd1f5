"""A request ends at the deadline of its task (docs/rules.md, Tab executor, Executor answers, Deadlines)."""

import asyncio
import time


async def test_a_slow_answer_fails_the_task_at_its_deadline(server, instance):
    instance.hold()
    task = await server.run(deadline_in=0.1)
    assert task.state == "failed"
    assert task.error == "deadline exceeded"
    assert task.deadline <= task.completed_at < task.deadline + 1


async def test_the_deadline_is_also_the_time_out_of_the_request(start_server, instance):
    """The clock of this engine stands still, so the engine itself never ends the lease."""
    begin = time.time()
    server = await start_server(instance, clock=lambda: begin)
    instance.hold()
    task = await server.run(deadline_in=0.05)
    assert task.error == "deadline exceeded"


async def test_the_connection_is_closed_at_the_deadline(server, instance, soon):
    instance.hold()
    task = await server.submit(deadline_in=1)
    request = await soon(instance.arrived.get())
    await soon(request.gone.wait())
    assert (await server.ended(task)).error == "deadline exceeded"


async def test_an_answer_that_is_not_complete_at_the_deadline_fails_the_task(server, instance):
    instance.reply = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly a part"
    task = await server.run(deadline_in=0.1)
    assert task.error == "deadline exceeded"


async def test_a_tab_that_is_not_resolved_at_the_deadline_fails_the_task(start_server):
    class Slow:
        async def resolve(self, _tab_id):
            await asyncio.Event().wait()

    server = await start_server(Slow())
    assert (await server.run(deadline_in=0.05)).error == "deadline exceeded"


async def test_a_task_whose_deadline_passes_while_all_slots_are_taken_is_never_sent(start_server, instance, soon):
    server = await start_server(instance, workers=1)
    instance.hold()
    first = await server.submit()
    await soon(instance.arrived.get())
    late = await server.run(deadline_in=0.05)
    assert late.error == "deadline exceeded while queued"
    instance.release()
    await server.ended(first)
    assert len(instance.requests) == 1
