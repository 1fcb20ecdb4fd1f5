"""Links by which whoever has one answers one question (docs/rules.md, Answer links). With credentials: tests/access."""

from taskyard.v1 import park_pb2 as pb
from taskyard.v1 import step_pb2
from taskyard.v1.task_pb2 import ResumeTaskRequest
from tests.services.test_parks import answer, ask, park, refusal, running, value

GONE = ("NOT_FOUND", "no such link, or its time is over")


async def link(server, task_id, **fields):
    return await server.parks.CreateAnswerLink(pb.CreateAnswerLinkRequest(task_id=task_id, question_id="go", **fields))


def read(server, token):
    return server.parks.ReadAnswerLink(pb.ReadAnswerLinkRequest(token=token))


def say(server, token, said):
    return server.parks.AnswerByLink(pb.AnswerByLinkRequest(token=token, answer=value(said)))


async def test_whoever_has_a_link_reads_the_question_and_answers_it(server):
    _, assignment, task_id = await running(server)
    await park(server, assignment, ask(choices=["yes", "no"], timeout=100))
    made = await link(server, task_id)
    assert made.href == f"/ui/#/default/answer/{made.token}"
    shown = await read(server, made.token)
    assert (shown.question_id, shown.question.text, shown.action) == ("go", "Go on?", assignment.task.action)
    assert shown.until == made.until
    assert await refusal(say(server, made.token, "perhaps")) == (
        "INVALID_ARGUMENT",
        "answer: must be one of the choices",
    )
    assert (await say(server, made.token, "yes")).question_id == "go"
    assert await server.state(task_id) in ("queued", "assigned")
    assert (await say(server, made.token, "yes")).question_id == "go"
    assert await refusal(say(server, made.token, "no")) == ("FAILED_PRECONDITION", "question was answered")
    assert await refusal(read(server, made.token)) == ("NOT_FOUND", "question not found")
    (step,) = (await server.steps.ListSteps(step_pb2.ListStepsRequest(task_id=task_id))).steps
    assert (step.by, step.result) == ("a link of local", value("yes"))


async def test_a_link_is_good_for_its_time(server):
    _, assignment, task_id = await running(server)
    await park(server, assignment, ask())
    made = await link(server, task_id, life_secs=60)
    await server.advance(59)
    assert (await read(server, made.token)).until == made.until
    await server.advance(2)
    assert await refusal(read(server, made.token)) == GONE
    assert await refusal(say(server, made.token, 1)) == GONE
    assert await server.state(task_id) == "parked"


async def test_a_link_opens_no_question_of_a_later_run(server):
    stream, assignment, task_id = await running(server)
    await park(server, assignment, ask(), ask("else"))
    token = (await link(server, task_id)).token
    await answer(server, task_id, 1, "else")
    again = await stream.task()
    await server.advance(1)
    await park(server, again, ask(), ask("more"))
    # That is the question which was asked, with the time that it had.
    assert (await read(server, token)).question_id == "go"
    await answer(server, task_id, 1, "more")
    await stream.report_one(await stream.task(), failed="broken")
    await server.tasks.ResumeTask(ResumeTaskRequest(task_id=task_id))
    await park(server, await stream.task(), ask())
    assert await refusal(read(server, token)) == GONE
    assert await refusal(say(server, token, 1)) == GONE
    assert await server.state(task_id) == "parked"


async def test_what_is_no_link_opens_nothing(server):
    _, assignment, task_id = await running(server)
    await park(server, assignment, ask())
    token = (await link(server, task_id)).token
    for wrong in ("", "x", token[:-2], token.swapcase()):
        assert await refusal(read(server, wrong)) == GONE
        assert await refusal(say(server, wrong, 1)) == GONE
    elsewhere = (("taskyard-namespace", "elsewhere"),)
    request = pb.ReadAnswerLinkRequest(token=token)
    assert await refusal(server.parks.ReadAnswerLink(request, metadata=elsewhere)) == GONE


async def test_a_link_is_made_for_an_open_question_alone(server):
    _, assignment, task_id = await running(server)
    await park(server, assignment, ask())
    for life in (0, 0.5, -1, 31_622_401, float("nan")):
        code, message = await refusal(link(server, task_id, life_secs=life))
        assert (code, message) == ("INVALID_ARGUMENT", "lifeSecs: must be from 1 to 31622400")
    assert await refusal(link(server, "tsk_0")) == ("NOT_FOUND", "task not found")
    await answer(server, task_id, 1)
    assert await refusal(link(server, task_id)) == ("NOT_FOUND", "question not found")
