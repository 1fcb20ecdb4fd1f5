"""Inputs in handlers: by keyword in their types, and as they are by `task.inputs` (docs/rules.md, Inputs)."""

import functools
from typing import Any

import pytest

from taskyard import FernetCodec, RunningTask, TaskInput, TaskState
from taskyard.hosting.actions import Actions
from taskyard.v1.input_pb2 import Input
from taskyard.v1.task_pb2 import Payload
from taskyard.v1.task_pb2 import Task as TaskMessage
from taskyard.values.convert import plain_value, value_from
from taskyard.values.payloads import encode_value
from tests.cases import every_case
from tests.clients.python.host import input_handlers as handlers
from tests.clients.python.host.handling import handling
from tests.clients.python.host.input_handlers import Image, Job, Page, Style, summarise

DONE = TaskMessage.done
FONT = {"font": "serif"}


def handed(value: Any = None, task_id: str = "tsk_1", **fields: Any) -> Input:
    """An input of a task that is done, with this result."""
    result = None if value is None else value_from(value)
    return Input(**{"task_id": task_id, "state": DONE, "result": result, **fields})


async def run(function, *, action=None, actions=None, runs_in=None, **task):
    """The report of a task with these fields."""
    actions = Actions() if actions is None else actions
    actions.add("summarise", function, action=action, runs_in=runs_in)
    async with handling(actions) as work:
        return await work.run("summarise", **{"params": {"title": "a"}, **task})


async def result(function, **options):
    report = await run(function, **options)
    assert report.HasField("completed"), report
    return plain_value(report.completed.result)


async def failure(function, **options):
    """The text of a failure for good with the code `bad_input`."""
    failed = (await run(function, **options)).failed
    assert (failed.code, failed.retryable, failed.traceback) == ("bad_input", False, "")
    return failed.error


@pytest.mark.parametrize(
    ("function", "action", "runs_in"),
    [
        (handlers.typed, summarise, "loop"),
        (handlers.typed_plainly, summarise, "thread"),
        (handlers.typed, summarise, "process"),
        (handlers.typed_plainly, summarise, "process"),
        (handlers.untyped, None, "loop"),
        (handlers.untyped_plainly, None, "thread"),
        (handlers.untyped, None, "process"),
        (handlers.untyped_plainly, None, "process"),
    ],
)
async def test_handlers_of_all_kinds_take_inputs_in_their_types(function, action, runs_in):
    page = {"url": "x", "size": 3}
    inputs = {"page": handed(page), "style": handed(FONT)}
    given = {"action": action, "runs_in": runs_in}
    assert await result(function, inputs=inputs, **given) == ["a", "x", 3, None, "serif", page]
    inputs["image"] = handed({"width": 7})
    assert await result(function, inputs=inputs, **given) == ["a", "x", 3, {"width": 7}, "serif", page]
    text = "the input 'page' does not fit: url: expected `str`, got `int`"
    assert await failure(function, inputs={**inputs, "page": handed({"url": 1})}, **given) == text


async def test_a_handler_of_any_action_takes_inputs():
    actions = Actions()
    actions.add_any(handlers.untyped)
    async with handling(actions) as work:
        inputs = {"page": handed({"url": "x"}), "style": handed(FONT)}
        report = await work.run("other", params={"title": "a"}, inputs=inputs)
    assert plain_value(report.completed.result)[:2] == ["a", "x"]


async def test_without_an_annotation_the_value_is_plain_json():
    def work(_, *, page, text: Any, nothing, number: int = 5):
        return [page, text, nothing, number]

    inputs = {"page": handed({"url": "x"}), "text": handed("t"), "nothing": handed(), "unused": handed("more")}
    assert await result(work, inputs=inputs) == [{"url": "x"}, "t", None, 5]
    assert await result(work, inputs={**inputs, "number": handed(7)}) == [{"url": "x"}, "t", None, 7]


async def test_digits_that_no_double_holds_are_kept():
    async def work(task, *, page: list[int], same):
        return [str(page[0]), page == same == task.inputs["page"].value]

    given = Input(state=DONE, output=Payload(data=b"[1152921504606846977]"))
    assert await result(work, inputs={"page": given, "same": given}) == ["1152921504606846977", True]


ENDS = [
    ({}, "the input 'page' is missing: the task was submitted without it"),
    ({"page": handed(state=TaskMessage.failed)}, "the input 'page' has no value: its task tsk_1 is failed"),
    ({"page": handed(state=TaskMessage.cancelled)}, "the input 'page' has no value: its task tsk_1 is cancelled"),
    ({"page": Input(task_id="tsk_1")}, "the input 'page' has no value: its task tsk_1 is no longer kept"),
    ({"page": handed()}, "the input 'page' does not fit: expected `object`, got `null`"),
    ({"page": handed([1])}, "the input 'page' does not fit: expected `object`, got `array`"),
]


@pytest.mark.parametrize(("inputs", "text"), ENDS, ids=["none", "failed", "cancelled", "gone", "null", "another type"])
async def test_without_a_value_that_fits_a_task_fails_for_good_before_its_handler(inputs, text):
    called = []
    actions = Actions()

    @actions.middleware.append
    async def note(task, call_next):
        called.append(task)
        return await call_next(task)

    async def work(_: Job, *, page: Page) -> list[Any]:
        return [page]

    assert await failure(work, action=summarise, actions=actions, inputs=inputs) == text
    assert called == []


async def test_what_has_no_value_is_the_default_and_what_does_not_fit_is_no_default():
    async def work(task, *, page: Page | None = None):
        return [page and page.url, task.inputs["page"].state if task.inputs else "none"]

    assert await result(work) == [None, "none"]
    assert await result(work, inputs={"page": handed(state=TaskMessage.failed, error="broken")}) == [None, "failed"]
    text = "the input 'page' does not fit: expected `object | null`, got `array`"
    assert await failure(work, inputs={"page": handed([1])}) == text


async def test_all_of_an_input_is_in_the_inputs_of_the_task():
    seen = []

    async def work(task):
        seen.append(task.inputs)

    inputs = {"a-b.c": handed({"url": "x"}), "bad": handed(None, "tsk_2", state=TaskMessage.failed, error="broken")}
    await result(work, inputs=inputs)
    (found,) = seen
    assert dict(found) == {
        "a-b.c": TaskInput("tsk_1", TaskState.DONE, value={"url": "x"}),
        "bad": TaskInput("tsk_2", TaskState.FAILED, error="broken"),
    }
    assert (len(found), "bad" in found, "other" in found) == (2, True, False)
    with pytest.raises(TypeError):
        found["other"] = found["bad"]
    with pytest.raises(KeyError):
        found["other"]


async def test_a_codec_reads_inputs_as_it_reads_the_input():
    codec, other = (FernetCodec(FernetCodec.new_key()) for _ in range(2))
    output = encode_value(Page("x", 2**60), Page, codec, is_object=False).payload

    async def work(task, *, page: Page):
        return [page.url, page.size == task.inputs["page"].value["size"] == 2**60]

    async def plainly(task):
        return task.inputs["page"].value

    inputs = {"page": Input(state=DONE, output=output)}
    report = await run(work, actions=Actions(codec=codec), inputs=inputs)
    assert codec.decode(report.completed.output.data) == b'["x",true]'
    text = "the input 'page' does not fit: is encoded by 'fernet', here is no codec"
    for function in (work, plainly):
        assert (await failure(function, inputs=inputs)).startswith(text)
        told = (await run(function, actions=Actions(codec=other), inputs=inputs)).failed
        assert "the input 'page' does not fit: the codec 'fernet' cannot read it" in told.error


# What can be registered


def no_json(task: RunningTask, *, page: RunningTask) -> None: ...


def for_type_checkers(task: RunningTask, *, page: "OnlyForTypeCheckers") -> None: ...  # noqa: F821


@every_case(
    ("function", "reason"),
    [
        (no_json, "the handler of 'a' takes the input page: RunningTask cannot be sent"),
        (
            for_type_checkers,
            "the handler of 'a' takes the input page: 'OnlyForTypeCheckers' names nothing in the module",
        ),
    ],
)
def test_an_input_of_a_type_that_cannot_be_sent_is_refused(function, reason):
    with pytest.raises(TypeError, match=reason):
        Actions().add("a", function)


async def test_a_parameter_that_can_be_no_input_keeps_its_default_and_refuses_a_value():
    def work(_, *, session: RunningTask | None = None, other: "OnlyForTypeCheckers" = 3):  # noqa: F821
        return [session, other]

    assert await result(work) == [None, 3]
    text = "the input 'other' does not fit: OnlyForTypeCheckers cannot be sent"
    assert (await failure(work, inputs={"other": handed(1)})).startswith(text)


async def test_partial_functions_and_objects_take_inputs():
    class Summary:
        async def __call__(self, _, *, page: Page, image: Image | None = None):
            return [page.url, image]

    def work(depth, _, *, page: Page, style: Style):
        return [depth, page.url, style.font]

    inputs = {"page": handed({"url": "x"}), "style": handed(FONT)}
    assert await result(Summary(), inputs=inputs) == ["x", None]
    assert await result(functools.partial(work, 3), inputs=inputs) == [3, "x", "serif"]
