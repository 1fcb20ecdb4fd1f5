"""What is around a handler: its input and output, middleware, lifespan, codec, and the reports of its exceptions."""

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace

import pytest

from taskyard.action import Action
from taskyard.current import current_task
from taskyard.hosting.actions import Actions
from taskyard.hosting.failing import NotRetryable, Retry
from taskyard.v1.task_pb2 import Payload, RetryPolicy
from taskyard.values.convert import plain_value
from taskyard.values.payloads import encode_value
from tests.clients.python.host.handling import handling


@dataclass
class Page:
    url: str
    links: list[int]


crawl = Action[Page, list[int]]("crawl")


async def outcome(handler, *, action=None, actions=None, **task):
    """The outcome of a task with these fields."""
    actions = Actions() if actions is None else actions
    actions.add("click", handler, action=action)
    async with handling(actions) as work:
        return await work.run("click", **task)


async def result(handler, **options):
    report = await outcome(handler, **options)
    assert report.HasField("completed"), report
    return plain_value(report.completed.result)


class Reversed:
    """A codec that turns the bytes round."""

    name = "reversed"

    def encode(self, data):
        return data[::-1]

    def decode(self, data):
        return data[::-1]


# Input and output


async def test_a_typed_handler_takes_the_input_alone_or_with_the_task():
    async def with_task(page: Page, task) -> list[int]:
        assert task.input is page
        return [*page.links, task.attempt]

    def alone(page: Page) -> list[int]:
        return page.links

    params = {"url": "a", "links": [3]}
    assert await result(with_task, action=crawl, params=params) == [3, 1]
    assert await result(alone, action=crawl, params=params) == [3]


async def test_an_input_that_does_not_fit_fails_before_the_work_for_good_and_names_the_place():
    called = []
    actions = Actions()

    @actions.middleware.append
    async def note(task, call_next):
        called.append(task)
        return await call_next(task)

    failure = (
        await outcome(called.append, action=crawl, actions=actions, params={"url": "a", "links": [1, "x"]})
    ).failed
    assert (failure.code, failure.retryable, called) == ("bad_input", False, [])
    assert failure.error == "the input does not fit: links[1]: expected `int`, got `str`"
    assert not failure.traceback


async def test_an_output_that_does_not_fit_fails_for_good():
    async def click(_: Page):
        return "no list"

    failure = (await outcome(click, action=crawl, params={"url": "a", "links": []})).failed
    assert (failure.code, failure.retryable) == ("bad_result", False)
    assert failure.error.startswith("the result does not fit: ")


async def test_integers_that_no_double_holds_are_exact_for_typed_actions_and_refused_for_others():
    def click(page: Page):
        return [*page.links, 2**63 - 1]

    payload = encode_value(Page("a", [2**60]), Page, None, is_object=True).payload
    completed = (await outcome(click, action=crawl, input=payload)).completed
    assert completed.output.data == b"[1152921504606846976,9223372036854775807]"
    assert not completed.HasField("result")
    failure = (await outcome(lambda _: {"n": [2**53 + 1]})).failed
    assert (failure.code, failure.retryable) == ("bad_result", False)
    assert "2^53" in failure.error
    assert await result(lambda _: 2**53) == 2**53


async def test_a_codec_reads_the_input_and_writes_the_output():
    payload = Payload(data=b'{"url":"a","links":[1]}'[::-1], encoding="reversed")

    async def typed(page: Page):
        return page.links

    async def untyped(task):
        return task.params

    completed = (await outcome(typed, action=crawl, actions=Actions(codec=Reversed()), input=payload)).completed
    assert (completed.output.data, completed.output.encoding) == (b"]1[", "reversed")
    completed = (await outcome(untyped, actions=Actions(codec=Reversed()), input=payload)).completed
    assert completed.output.data[::-1] == b'{"url":"a","links":[1]}'


@pytest.mark.parametrize("codec", [None, Reversed()], ids=["no codec", "another codec"])
@pytest.mark.parametrize("action", [None, crawl], ids=["untyped", "typed"])
async def test_an_encoding_that_the_host_does_not_know_fails_the_task_for_good(codec, action):
    payload = Payload(data=b"?", encoding="fernet")
    failure = (await outcome(lambda _: None, action=action, actions=Actions(codec=codec), input=payload)).failed
    assert (failure.code, failure.retryable) == ("bad_input", False)
    assert "is encoded by 'fernet'" in failure.error


async def test_a_codec_that_cannot_encode_fails_the_task_and_not_the_host():
    class Broken(Reversed):
        def encode(self, _):
            raise OSError("no key")

    failure = (await outcome(lambda _: 1, actions=Actions(codec=Broken()))).failed
    assert (failure.code, failure.retryable) == ("bad_result", False)


# Exceptions


async def test_retry_names_the_time_of_the_next_attempt():
    async def click(_):
        raise Retry("busy", after=timedelta(minutes=5))

    failure = (await outcome(click)).failed
    assert (failure.error, failure.retry_after_ms) == ("busy", 300_000)
    assert not failure.HasField("retryable")


async def test_retry_without_a_time_leaves_it_to_the_policy_or_takes_a_second():
    async def click(_):
        raise Retry

    assert (await outcome(click)).failed.retry_after_ms == 1_000
    assert not (await outcome(click, retry_policy=RetryPolicy(max_attempts=3))).failed.HasField("retry_after_ms")


@pytest.mark.parametrize(("after", "error"), [(5, TypeError), (timedelta(-1), ValueError), (timedelta(2), ValueError)])
def test_retry_refuses_a_time_that_the_server_would_refuse(after, error):
    with pytest.raises(error, match="after: must be"):
        Retry(after=after)


async def test_not_retryable_is_final():
    async def click(_):
        raise NotRetryable("no such page", code="gone")

    failure = (await outcome(click)).failed
    assert (failure.error, failure.code, failure.retryable) == ("no such page", "gone", False)


async def test_a_task_group_hides_neither_what_is_final_nor_when_to_try_again():
    async def fail(failure):
        raise failure

    async def click(task):
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(failures[task.attempt]))

    failures = {1: NotRetryable("no such page")}
    assert not (await outcome(click)).failed.retryable
    failures = {1: Retry("busy", after=timedelta(seconds=5))}
    assert (await outcome(click)).failed.retry_after_ms == 5_000


def in_a_function(_):
    raise ValueError("bad")


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_traceback_begins_with_the_handler(place):
    async def in_the_loop(task):
        in_a_function(task)

    def in_a_thread(task):
        in_a_function(task)

    actions = Actions()

    @actions.middleware.append
    async def around(task, call_next):
        return await call_next(task)

    failure = (await outcome(in_the_loop if place == "loop" else in_a_thread, actions=actions)).failed
    lines = failure.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line.split(", ")[-1] for line in lines if line.startswith("  File")] == [
        "in in_the_loop" if place == "loop" else "in in_a_thread",
        "in in_a_function",
    ]
    assert lines[-1] == "ValueError: bad"


async def test_the_traceback_shows_the_cause_too():
    async def click(task):
        try:
            in_a_function(task)
        except ValueError as error:
            raise NotRetryable("odd") from error

    text = (await outcome(click)).failed.traceback
    assert "ValueError: bad" in text
    assert "direct cause" in text


async def test_a_traceback_is_bounded_and_keeps_its_end():
    def endless(depth):
        raise RuntimeError("x" * 20_000) if not depth else endless_too(depth - 1)

    def endless_too(depth):
        endless(depth)

    text = (await outcome(lambda _: endless(200))).failed.traceback
    assert len(text) == 8_000
    assert text.endswith("xxx\n")


async def test_an_exception_that_cannot_be_formatted_fails_only_its_task():
    class Odd(Exception):
        def __str__(self):
            raise OSError

    async def click(_):
        raise Odd

    assert (await outcome(click)).failed.error == "Odd"


# Middleware


async def test_middleware_is_around_the_handler_the_first_one_outermost():
    actions, order = Actions(), []

    def middleware(name):
        async def around(task, call_next):
            order.append(f"{name} before {task.id}")
            found = await call_next(task)
            order.append(f"{name} after")
            return [name, found]

        return around

    actions.middleware += [middleware("outer"), middleware("inner")]

    def click(_):
        order.append("handler")
        return 1

    assert await result(click, actions=actions) == ["outer", ["inner", 1]]
    assert order == ["outer before t", "inner before t", "handler", "inner after", "outer after"]


async def test_middleware_may_fail_a_task_or_answer_in_the_place_of_its_handler():
    actions = Actions()

    @actions.middleware.append
    async def around(task, call_next):
        if task.params.get("known"):
            return "known"
        try:
            return await call_next(task)
        except ValueError as error:
            raise NotRetryable(f"not again: {error}") from error

    async def click(_):
        raise ValueError("bad")

    actions.add("click", click)
    async with handling(actions) as work:
        assert plain_value((await work.run("click", params={"known": True})).completed.result) == "known"
        failure = (await work.run("click")).failed
    assert (failure.error, failure.retryable) == ("not again: bad", False)


async def test_middleware_of_a_stopped_handler_is_cancelled_with_it():
    actions, entered, left = Actions(), asyncio.Event(), []

    @actions.middleware.append
    async def around(task, call_next):
        try:
            return await call_next(task)
        except asyncio.CancelledError:
            left.append(task.cancelled)
            raise

    async def click(_):
        entered.set()
        await asyncio.Event().wait()

    actions.add("click", click)
    async with handling(actions) as work:
        key = work.start("click")
        await entered.wait()
        work.handlers.stop([key])
        assert await work.ended() == ("t", None)
    assert left == [True]


# Lifespan


async def test_the_lifespan_is_open_while_handlers_run():
    events = []

    @asynccontextmanager
    async def lifespan():
        events.append("open")
        yield {"db": "a database"}
        events.append("closed")

    def click(task):
        events.append(task.state.db)

    await outcome(click, actions=Actions(lifespan))
    assert events == ["open", "a database", "closed"]


async def test_a_lifespan_may_be_plain_and_yield_any_object():
    state = SimpleNamespace(db="a database")

    @contextmanager
    def lifespan():
        yield state

    async def click(task):
        return task.state is state

    assert await result(click, actions=Actions(lifespan))


async def test_a_lifespan_that_fails_ends_the_host():
    @asynccontextmanager
    async def lifespan():
        raise OSError("no database")
        yield

    with pytest.raises(OSError, match="no database"):
        await outcome(lambda _: None, actions=Actions(lifespan))


async def test_a_lifespan_that_makes_no_context_is_refused():
    with pytest.raises(TypeError, match="decorate it with @asynccontextmanager"):
        await outcome(lambda _: None, actions=Actions(lambda: 1))


# The current task


async def test_the_current_task_is_that_of_the_handler_and_of_its_thread():
    async def in_the_loop(task):
        return current_task.get() is task

    def in_a_thread(task):
        return current_task.get() is task

    assert await result(in_the_loop)
    assert await result(in_a_thread)
    assert current_task.get() is None


# Stopping what runs in threads


async def test_a_thread_is_told_once_that_its_work_is_unwanted():
    actions, stopped, told = Actions(), threading.Event(), []

    def click(task):
        task.progress(0.1)
        assert stopped.wait(10)
        for _ in range(2):
            try:
                task.progress(0.2)
                told.append("no")
            except asyncio.CancelledError:
                told.append("yes")
        task.check()

    actions.add("click", click)
    async with handling(actions) as work:
        key = work.start("click")
        await work.reported()
        work.handlers.stop([key])
        stopped.set()
        # What it returns all the same counts, as long as the lease is held.
        task_id, report = await work.ended()
    assert (task_id, report.HasField("completed"), told) == ("t", True, ["yes", "no"])


async def test_a_thread_that_lets_the_exception_through_has_no_outcome():
    actions, stopped = Actions(), threading.Event()

    def click(task):
        task.progress(0.1)
        assert stopped.wait(10)
        task.check()

    actions.add("click", click)
    async with handling(actions) as work:
        key = work.start("click")
        await work.reported()
        work.handlers.stop([key])
        stopped.set()
        assert await work.ended() == ("t", None)


async def test_handlers_that_run_are_named():
    actions, go_on = Actions(), asyncio.Event()

    async def click(task):
        task.tokens_used = 5
        await go_on.wait()

    actions.add("click", click)
    async with handling(actions) as work:
        work.start("click", "a")
        await asyncio.sleep(0)
        assert work.handlers.running() == {("a", 1): "click"}
        assert work.handlers.tokens_used() == {("a", 1): 5}
        go_on.set()
        await work.ended()
        assert work.handlers.running() == {}
