"""Which handlers an action takes: annotations and places are checked when a handler is registered."""

import datetime
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import pytest
from pydantic import BaseModel

from taskyard import RunningTask
from taskyard.action import Action
from taskyard.host import Host
from taskyard.hosting.actions import Actions
from tests.cases import every_case


@dataclass
class Page:
    url: str


@dataclass
class LongPage(Page):
    text: str


class Links(BaseModel):
    urls: list[str]


class Found(TypedDict):
    url: str


class Pair(NamedTuple):
    a: int
    b: int


PageNumber = NewType("PageNumber", int)
crawl = Action[Page, Links]("crawl")


@pytest.fixture
def host():
    return Host("127.0.0.1:1", "h")


def test_a_handler_comes_back_unchanged(host):
    async def fetch(page: Page, task: RunningTask) -> Links:
        return Links(urls=[page.url, task.id])

    assert host.handles(crawl)(fetch) is fetch


def with_task(page: Page, task: RunningTask) -> Links: ...


def alone(page: Page) -> Links: ...


def no_annotations(page, task): ...


def texts(page: "Page", task: "RunningTask") -> "Links": ...


def unknown_texts(page: "OnlyForTypeCheckers", task: "RunningTask"): ...  # noqa: F821


def an_option(page: Page, verbose: bool = False) -> Links: ...


def wider(page: object, task: Any) -> Links: ...


class Callable:
    def __call__(self, page: Page, task: RunningTask) -> Links: ...


FITTING = [with_task, alone, no_annotations, texts, unknown_texts, an_option, wider, Callable(), Callable().__call__]


@every_case("function", FITTING, ids=lambda each: getattr(each, "__name__", "an object"))
def test_annotations_that_fit_are_taken(function):
    Actions().add("crawl", function, action=crawl)


def test_a_partial_function_is_taken():
    def fetch(depth: int, page: Page, task: RunningTask) -> Links: ...

    Actions().add("crawl", functools.partial(fetch, 3), action=crawl)


def another_input(page: Links, task: RunningTask) -> Links: ...


def a_narrower_input(page: LongPage, task: RunningTask) -> Links: ...


def another_output(page: Page, task: RunningTask) -> Page: ...


def perhaps_no_output(page: Page) -> Links | None: ...


def the_task_first(task: RunningTask, page: Page) -> Links: ...


def nothing() -> Links: ...


def three(page: Page, task: RunningTask, more: int) -> Links: ...


def a_keyword(page: Page, *, task: RunningTask) -> Links: ...


WRONG = {
    another_input: "takes page: Links, but gets Page by its action",
    a_narrower_input: "takes page: LongPage, but gets Page by its action",
    another_output: "returns Page, but its action has Links",
    perhaps_no_output: "returns .*Links | None, but its action has Links",
    the_task_first: "takes task: RunningTask, but gets Page",
    nothing: "takes .input. or .input, task., not",
    three: "takes .input. or .input, task., not",
    a_keyword: "takes .input. or .input, task., not",
}


@every_case(("function", "reason"), WRONG.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_annotations_of_another_action_are_refused(function, reason):
    with pytest.raises(TypeError, match=reason):
        Actions().add("crawl", function, action=crawl)


@every_case(
    ("kind", "hint", "fits"),
    [
        (list[int], list[int], True),
        (list[int], list, True),
        (list[int], list[str], False),
        (list[int], Sequence[int], True),
        (list[int], Sequence[str], False),
        (tuple[int, ...], Sequence[int], True),
        (tuple[int, str], Sequence[int], False),
        (dict[str, int], Mapping[str, int], True),
        (Sequence[int], list[int], False),
        (int, float, True),
        (float, int, False),
        (int, Annotated[int, "of pages"], True),
        (Annotated[int, "of pages"], int, True),
        (PageNumber, int, True),
        (int, PageNumber, False),
        (Literal["a", "b"], str, True),
        (Literal["a", "b"], Literal["a", "b", "c"], True),
        (Literal["a", "b"], Literal["a"], False),
        (Literal["a", "b"], int, False),
        (str, Literal["a"], False),
        (dict[str, Any], dict, True),
        (dict[str, int], Mapping, True),
        (Found, Found, True),
        (Found, Page, False),
        (int | None, int | None, True),
        (int, int | None, True),
        (int | None, int, False),
        (None, None, True),
    ],
)
def test_generic_types_are_compared_as_far_as_it_can_be_told(kind, hint, fits):
    def handler(value): ...

    handler.__annotations__["value"] = hint
    if fits:
        Actions().add("a", handler, action=Action[kind, int]("a"))
    else:
        with pytest.raises(TypeError):
            Actions().add("a", handler, action=Action[kind, int]("a"))


def test_an_action_without_types_takes_no_handler():
    with pytest.raises(TypeError, match=r"write Action\[Input, Output\]"):
        Actions().add("a", alone, action=Action("a"))


def test_what_is_no_action_is_refused(host):
    with pytest.raises(TypeError, match=r"@host.handles\(action\)"):
        host.handles("crawl")


@every_case("kind", [Links, Page, list[Links], dict[str, Page], Links | None, datetime.datetime, set, Path])
def test_a_handler_without_a_typed_action_may_not_promise_what_is_no_json(host, kind):
    async def crawl(task: RunningTask): ...

    crawl.__annotations__["return"] = kind
    with pytest.raises(TypeError, match=r"which is no JSON: give the action its types, Action\[Input, "):
        host.action("crawl")(crawl)
    with pytest.raises(TypeError, match="which is no JSON"):
        host.any_action(crawl)


JSON = [dict[str, Any], list[int], str, int, bool, None, Any, object, Mapping[str, Any], Sequence[str], Found, Pair]


@every_case("kind", JSON, ids=str)
def test_a_handler_without_a_typed_action_may_promise_json(kind):
    async def crawl(task: RunningTask): ...

    crawl.__annotations__["return"] = kind
    Host("127.0.0.1:1", "h").action("crawl")(crawl)


def generator(_):
    yield 1


async def asynchronous_generator(_):
    yield 1


@pytest.mark.parametrize("function", [generator, asynchronous_generator, functools.partial(generator)])
def test_a_handler_returns_and_does_not_yield(host, function):
    with pytest.raises(TypeError, match="the handler of 'crawl' yields"):
        host.action("crawl")(function)


async def coroutine_function(task): ...


def test_where_a_handler_can_run_depends_on_what_it_is():
    with pytest.raises(TypeError, match="would block the event loop"):
        Actions().add("a", alone, runs_in="loop")
    with pytest.raises(TypeError, match="threads run plain functions"):
        Actions().add("a", coroutine_function, runs_in="thread")
    with pytest.raises(ValueError, match="runs_in: is 'loop', 'thread' or 'process'"):
        Actions().add("a", alone, runs_in="elsewhere")
    actions = Actions()
    actions.add("plain", alone, action=crawl)
    actions.add("async", coroutine_function)
    assert [actions.handler(name).runs_in for name in ("plain", "async")] == ["thread", "loop"]


def test_middleware_is_an_async_function(host):
    with pytest.raises(TypeError, match="async def"):
        host.middleware(lambda _, __: None)

    class Timing:
        async def __call__(self, task, call_next): ...

    timing = Timing()
    assert host.middleware(timing) is timing
