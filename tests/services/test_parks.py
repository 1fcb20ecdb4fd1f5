"""Parked tasks over the services: hosts park, people answer, what came is there in the next run (docs/rules.md)."""

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value

from taskyard.v1 import park_pb2 as pb
from taskyard.v1 import step_pb2
from taskyard.v1.runtime_host_pb2 import TaskParked
from taskyard.v1.task_pb2 import CancelTaskRequest, ExplainTaskRequest
from taskyard.v1.wait_pb2 import EndOfTasks, NewWait, Question
from tests.services.host_streams import held_lease

FORM = {"type": "object", "properties": {"amount": {"type": "integer", "minimum": 1}}, "required": ["amount"]}


def under(assignment):
    """The fields by which a host names a lease that it has."""
    held = held_lease(assignment)
    return {"host_id": "host", "task_id": held.task_id, "fencing_token": held.fencing_token}


def value(answer):
    return json_format.ParseDict(answer, Value())


def ask(name="go", text="Go on?", timeout=None, **fields):
    question = json_format.ParseDict({"text": text, **fields}, Question())
    return NewWait(name=name, question=question, timeout_secs=timeout)


def ends(count, name):
    return NewWait(name=name, ends=EndOfTasks(task_ids=[f"tsk_{n:032x}" for n in range(count)]))


async def park(server, assignment, *waits, **fields):
    request = pb.ParkTaskRequest(waits=waits, **under(assignment), **fields)
    return (await server.parks.ParkTask(request)).state


async def answer(server, task_id, said, question="go"):
    request = pb.AnswerQuestionRequest(task_id=task_id, question_id=question, answer=value(said))
    return (await server.parks.AnswerQuestion(request)).state


async def running(server, **fields):
    """A stream of a host, and its next task."""
    stream = await server.connect(credit=10)
    task_id = await server.submit(**fields)
    return stream, await stream.task(), task_id


async def refusal(call):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code().name, refused.value.details()


async def test_an_answer_lets_a_task_go_on_with_it(server):
    stream, assignment, task_id = await running(server)
    await park(server, assignment, ask(choices=["yes", "no"]))
    task = await server.get(task_id)
    assert await server.state(task_id) == "parked"
    (wait,) = task.park.waits
    assert (wait.name, wait.question.text, len(wait.question.choices)) == ("go", "Go on?", 2)
    assert wait.until.seconds - task.park.since.seconds == 604_800
    await answer(server, task_id, "yes")
    again = await stream.task()
    assert again.task.task_id == task_id
    assert not again.task.HasField("park")
    (step,) = (await server.steps.FetchSteps(step_pb2.FetchStepsRequest(**under(again)))).steps
    assert (step.kind, step.name, step.result.string_value) == (step_pb2.Step.Kind.answer, "go", "yes")
    assert step.question.text == "Go on?"
    assert not step.expired
    assert await stream.report_one(again, completed=True) == "done"


async def test_the_tokens_of_a_run_that_parks_are_counted(server):
    _, assignment, task_id = await running(server)
    await park(server, assignment, ask(), tokens_used=6)
    assert (await server.get(task_id)).tokens_used == 6


async def test_a_stream_parks_by_a_report(server):
    stream, assignment, task_id = await running(server)
    parked = TaskParked(waits=[NewWait(name="pause", sleep_secs=10)])
    assert await stream.report_one(assignment, parked=parked) == "parked"
    assert await stream.report_one(assignment, completed=True) == "lease_lost"
    await server.advance(11)
    again = await stream.task()
    assert again.task.task_id == task_id
    assert await stream.report_one(again, parked=parked) == "queued"


async def test_a_parent_waits_for_its_children(server):
    stream, assignment, task_id = await running(server)
    child = await server.submit(parent_id=task_id)
    await park(server, assignment, NewWait(name="all", ends=EndOfTasks(task_ids=[child])))
    told = await server.tasks.ExplainTask(ExplainTaskRequest(task_id=task_id))
    assert [(reason.name, list(reason.task_ids)) for reason in told.reasons] == [("all", [child])]
    work = await stream.task()
    assert work.task.task_id == child
    await stream.report_one(work, completed=True)
    assert (await stream.task()).task.task_id == task_id


async def test_no_task_waits_for_its_own_end(server):
    _, assignment, task_id = await running(server)
    code, fault = await refusal(park(server, assignment, NewWait(name="me", ends=EndOfTasks(task_ids=[task_id]))))
    assert (code, fault) == ("INVALID_ARGUMENT", f"waits: task {task_id} would wait for its own end")
    assert await server.state(task_id) == "assigned"


async def test_an_answer_must_be_one_that_the_question_allows(server):
    _, assignment, task_id = await running(server)
    await park(server, assignment, ask("pay", schema=FORM), ask("go", choices=["yes", 1, None]))
    for said, fault in (
        ({"amount": 0}, "answer.amount: 0 is less than the minimum of 1"),
        ({}, 'answer: "amount" is a required property'),
        ("much", 'answer: "much" is not of type "object"'),
    ):
        assert await refusal(answer(server, task_id, said, "pay")) == ("INVALID_ARGUMENT", fault)
    assert await refusal(answer(server, task_id, "maybe")) == (
        "INVALID_ARGUMENT",
        "answer: must be one of the choices",
    )
    assert await server.state(task_id) == "parked"
    await answer(server, task_id, {"amount": 7}, "pay")
    await answer(server, task_id, None)
    steps = (await server.steps.ListSteps(step_pb2.ListStepsRequest(task_id=task_id))).steps
    assert [(step.name, json_format.MessageToDict(step.result)) for step in steps] == [
        ("pay", {"amount": 7}),
        ("go", None),
    ]


async def test_the_first_answer_wins_and_the_same_again_is_the_same(server):
    stream, assignment, task_id = await running(server)
    await park(server, assignment, ask())
    await answer(server, task_id, {"a": 1, "b": [1, None]})
    await answer(server, task_id, {"b": [1, None], "a": 1})
    assert await refusal(answer(server, task_id, "other")) == ("FAILED_PRECONDITION", "question was answered")
    again = await stream.task()
    await stream.report_one(again, completed=True)
    await answer(server, task_id, {"a": 1, "b": [1, None]})
    assert await refusal(answer(server, task_id, 1, "never")) == ("NOT_FOUND", "question not found")
    assert await refusal(answer(server, "tsk_none", 1)) == ("NOT_FOUND", "task not found")


async def test_after_its_time_the_default_has_counted(server):
    stream, assignment, task_id = await running(server)
    await park(server, assignment, ask(timeout=10, default="no"))
    await server.advance(11)
    again = await stream.task()
    (step,) = (await server.steps.FetchSteps(step_pb2.FetchStepsRequest(**under(again)))).steps
    assert (step.result.string_value, step.expired, step.HasField("by")) == ("no", True, False)
    assert await refusal(answer(server, task_id, "no")) == ("FAILED_PRECONDITION", "the time of the question is over")


async def test_after_its_time_a_question_of_a_task_that_runs_is_not_open(server):
    stream, assignment, task_id = await running(server)
    await park(server, assignment, ask(timeout=10), ask("more", timeout=60), NewWait(name="nap", sleep_secs=1))
    await server.advance(2)
    await stream.task()
    await server.advance(9)
    open_now = (await server.parks.ListQuestions(pb.ListQuestionsRequest())).questions
    assert [each.question_id for each in open_now] == ["more"]
    assert (await refusal(answer(server, task_id, "no")))[0] == "FAILED_PRECONDITION"


async def test_no_wait_lasts_for_more_than_366_days(server):
    _, assignment, task_id = await running(server)
    child = await server.submit(parent_id=task_id, hold=True)
    await park(server, assignment, NewWait(name="all", ends=EndOfTasks(task_ids=[child])))
    park_of = (await server.get(task_id)).park
    assert park_of.waits[0].until.seconds - park_of.since.seconds == 366 * 86_400


async def test_without_a_default_the_task_fails(server):
    _, assignment, task_id = await running(server, retry_policy={"max_attempts": 5})
    await park(server, assignment, ask(timeout=60))
    await server.advance(61)
    task = await server.get(task_id)
    assert (await server.state(task_id), task.code) == ("failed", "question_expired")


async def test_open_questions_are_listed_page_by_page(server):
    stream = await server.connect(credit=10)
    ids = [await server.submit(agent_id=agent) for agent in ("ann", "bob", "ann")]
    for _ in ids:
        await park(server, await stream.task(), ask("a"), ask("b"), NewWait(name="pause", sleep_secs=1000))
    listed = await server.parks.ListQuestions(pb.ListQuestionsRequest())
    assert [(each.task_id, each.question_id) for each in listed.questions] == [
        (task_id, name) for task_id in ids for name in "ab"
    ]
    assert listed.questions[0].question.text == "Go on?"
    await answer(server, ids[0], 1, "a")
    await server.tasks.CancelTask(CancelTaskRequest(task_id=ids[1]))
    page = await server.parks.ListQuestions(pb.ListQuestionsRequest(page_size=1))
    assert [(each.task_id, each.question_id) for each in page.questions] == [(ids[0], "b")]
    page = await server.parks.ListQuestions(pb.ListQuestionsRequest(page_size=1, page_token=page.next_page_token))
    assert [(each.task_id, each.question_id) for each in page.questions] == [(ids[2], "a"), (ids[2], "b")]
    assert not page.HasField("next_page_token")
    of_bob = await server.parks.ListQuestions(pb.ListQuestionsRequest(agent_id="bob"))
    assert list(of_bob.questions) == []


async def test_a_page_of_questions_fits_a_message(server):
    stream = await server.connect(credit=100)
    for _ in range(50):
        await server.submit()
        await park(server, await stream.task(), *[ask(f"q{n}", "x" * 9_000) for n in range(7)])
    page = await server.parks.ListQuestions(pb.ListQuestionsRequest())
    assert page.ByteSize() <= 3_000_000 < page.ByteSize() + 63_000
    rest = await server.parks.ListQuestions(pb.ListQuestionsRequest(page_token=page.next_page_token))
    assert len({(each.task_id, each.question_id) for each in [*page.questions, *rest.questions]}) == 350
    assert not rest.HasField("next_page_token")


@pytest.mark.parametrize(
    ("waits", "fault"),
    [
        ([], "waits: must be from 1 to 100"),
        ([NewWait(name="x", sleep_secs=1)] * 101, "waits: must be from 1 to 100"),
        ([NewWait(name="x", sleep_secs=1)] * 2, "waits: no two of a kind may have the same name"),
        ([NewWait(name="x")], "waits[0].awaited: one of question, ends, sleep_secs and event is required"),
        ([NewWait(sleep_secs=1)], "waits[0].name: is required"),
        ([NewWait(name="x", sleep_secs=-1)], "waits[0].sleep_secs: must be from 0 to 31622400"),
        ([NewWait(name="x", sleep_secs=float("nan"))], "waits[0].sleep_secs: must be from 0 to 31622400"),
        ([ask(timeout=1e9)], "waits[0].timeout_secs: must be from 0 to 31622400"),
        ([NewWait(name="x", ends=EndOfTasks())], "waits[0].ends.task_ids: must be from 1 to 10000"),
        ([NewWait(name="x", ends=EndOfTasks(task_ids=["x" * 100]))], "waits[0].ends.task_ids: must be ids of tasks"),
        ([ends(9_999, "a"), ends(2, "b")], "waits: must name at most 10000 tasks together"),
        ([ask("a b")], "waits[0].name: must have 1 to 128 letters, digits, `.`, `_` or `-`, and not begin with a `.`"),
        ([ask(text="")], "waits[0].question.text: is required, unless there is a url"),
        ([ask(url="javascript:x")], "waits[0].question.url: must begin with https:// or http://"),
        ([ask(choices=[])], "waits[0].question.choices: must be from 1 to 100"),
        ([ask(choices=["a"], default="b")], "waits[0].question.default: must be one of the choices"),
        ([ask(schema=FORM, default={})], 'waits[0].question.default: "amount" is a required property'),
    ],
)
async def test_a_malformed_wait_is_refused_and_changes_nothing(server, waits, fault):
    _, assignment, task_id = await running(server)
    assert await refusal(park(server, assignment, *waits)) == ("INVALID_ARGUMENT", fault)
    assert await server.state(task_id) == "assigned"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "http://127.0.0.1:1/schema"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/nowhere"},
        {"pattern": "(?=a)b"},
        {"pattern": "("},
    ],
)
async def test_a_schema_that_is_none_or_leads_elsewhere_is_refused(server, schema):
    _, assignment, _ = await running(server)
    code, fault = await refusal(park(server, assignment, ask(schema=schema)))
    assert code == "INVALID_ARGUMENT"
    assert fault.startswith("waits[0].question.schema: is no JSON Schema that can be used: ")


MANY_PATTERNS = "has more than 20 patterns, with those that it refers to"


def doubled(times, last):
    """A schema whose parts refer to others twice, this many times."""
    defs = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(times)}
    return {"$defs": {**defs, f"d{times}": last}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"$ref": "#"}, "# refers to itself"),
        ({"properties": {"next": {"$ref": "#"}}}, "# refers to itself"),
        ({"$defs": {"a": {"items": {"not": {"$ref": "#/$defs/a"}}}}}, "#/$defs/a refers to itself"),
        (doubled(12, {"type": "string"}), "has more than 5000 parts, with those that it refers to"),
        ({"enum": [*range(5_000)]}, "has more than 5000 parts, with those that it refers to"),
        ({"anyOf": [{}], "unevaluatedProperties": False}, "must not use unevaluatedProperties"),
        ({"allOf": [{"$dynamicRef": "#a"}]}, "must not use $dynamicRef"),
        ({"properties": {"a": {"$id": "b:c"}}}, "must not use $id"),
        ({"allOf": [{"pattern": f"a{n}"} for n in range(21)]}, MANY_PATTERNS),
        ({"patternProperties": {f"a{n}": {} for n in range(21)}}, MANY_PATTERNS),
        ({"$defs": {"a": {"pattern": "a"}}, "allOf": [{"$ref": "#/$defs/a"}] * 20}, MANY_PATTERNS),
        ({"pattern": r"\pL{100}"}, 'is no JSON Schema that can be used: "\\\\pL{100}" is not a "regex"'),
    ],
)
async def test_a_schema_that_could_hold_the_server_up_is_refused(server, schema, fault):
    _, assignment, _ = await running(server)
    refused = await refusal(park(server, assignment, ask(schema=schema)))
    assert refused == ("INVALID_ARGUMENT", f"waits[0].question.schema: {fault}")


async def test_a_schema_with_references_in_a_long_row_is_refused(server):
    _, assignment, _ = await running(server)
    row = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1_500)} | {"d1500": {}}
    code, fault = await refusal(park(server, assignment, ask(schema={"$defs": row})))
    # Which of the two depends on where the look at it begins.
    assert code == "INVALID_ARGUMENT"
    assert "its references are too deep" in fault or "has more than 5000 parts" in fault


async def test_parts_of_a_schema_may_refer_to_others(server):
    _, assignment, task_id = await running(server)
    defs = {"place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}, "a/b": {}}
    both = {"from": {"$ref": "#/$defs/place"}, "to": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]}}
    schema = {"$id": "trip:1", "$defs": defs, "properties": {**both, "note": {"$ref": "#/$defs/a~1b"}}}
    await park(server, assignment, ask(schema=schema))
    assert (await refusal(answer(server, task_id, {"from": {}})))[1] == 'answer.from: "city" is a required property'
    await answer(server, task_id, {"from": {"city": "Ulm"}, "to": None, "note": 1})


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"items": {"enum": [*range(1_000)]}}, [1_000] * 5_000),
        ({"allOf": [{"pattern": f"a{n}"} for n in range(20)]}, "a" * 5_001),
    ],
)
async def test_an_answer_that_could_hold_the_server_up_is_refused(server, schema, said):
    _, assignment, task_id = await running(server)
    await park(server, assignment, ask(schema=schema))
    fault = "answer: is too large to be checked by the schema of its question"
    assert await refusal(answer(server, task_id, said)) == ("INVALID_ARGUMENT", fault)


async def test_questions_are_bounded_together(server):
    _, assignment, _ = await running(server)
    code, fault = await refusal(park(server, assignment, *[ask(f"q{n}", "x" * 9_000) for n in range(8)]))
    assert code == "INVALID_ARGUMENT"
    assert fault.startswith("waits: the questions must be at most 65536 bytes together")


async def test_the_patterns_of_all_questions_are_bounded_together(server):
    _, assignment, task_id = await running(server)
    schema = {"allOf": [{"pattern": f"a{n}"} for n in range(20)]}
    asked = [ask(f"q{n}", schema=schema) for n in range(6)]
    # Nothing is compiled before all is counted, so that the last one is not looked at.
    unusable = ask("unusable", schema={"pattern": "("})
    fault = "waits: the schemas must have at most 100 patterns together, with those that they refer to"
    assert await refusal(park(server, assignment, unusable, *asked)) == ("INVALID_ARGUMENT", fault)
    await park(server, assignment, *asked[:5])
    await answer(server, task_id, "".join(f"a{n}" for n in range(20)), "q4")


async def test_no_other_host_parks_and_no_lease_twice(server):
    _, assignment, task_id = await running(server)
    wrong = {**under(assignment), "fencing_token": 99}
    code, _ = await refusal(server.parks.ParkTask(pb.ParkTaskRequest(waits=[ask()], **wrong)))
    assert code == "ABORTED"
    await park(server, assignment, ask())
    await park(server, assignment, ask())
    await answer(server, task_id, 1)
    assert await server.state(task_id) in ("queued", "assigned")
