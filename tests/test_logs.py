"""The log: a hundred lines a second and a counted one for the rest, and what each line of a task tells."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from functools import partial

import pytest
import structlog

from taskyard_server import logs
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.logs import Throttle, TransitionLog
from tests import reporting


class Clock:
    """Stands still until a test moves it."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def throttle(clock):
    return Throttle("requests", clock)


@pytest.fixture
def lines():
    """What is logged during the test, one dict a line."""
    with structlog.testing.capture_logs() as captured:
        yield captured


def admitted(throttle, count, kind="done"):
    """How many of so many events get a line of their own."""
    return sum(throttle.admits(kind) for _ in range(count))


# The throttle


async def test_a_hundred_events_a_second_get_a_line_each(throttle, lines):
    assert admitted(throttle, 100) == 100
    assert lines == []


async def test_the_hundred_and_first_event_of_a_second_does_not(throttle):
    admitted(throttle, 100)
    assert not throttle.admits("done")


async def test_the_next_second_begins_with_one_counted_line(throttle, clock, lines):
    assert admitted(throttle, 350) == 100
    clock.now += 1
    assert throttle.admits("done")
    assert lines == [
        {"event": "requests_counted", "log_level": "info", "count": 250, "by_kind": {"done": 250}},
    ]


async def test_the_next_second_has_a_hundred_lines_of_its_own(throttle, clock):
    admitted(throttle, 1000)
    clock.now += 1
    assert admitted(throttle, 1000) == 100


async def test_seconds_in_which_nothing_was_left_out_are_not_counted(throttle, clock, lines):
    for _ in range(5):
        assert admitted(throttle, 100) == 100
        clock.now += 1
    assert lines == []


async def test_the_counted_line_tells_each_kind(throttle, clock, lines):
    admitted(throttle, 100)
    admitted(throttle, 30, "queued")
    admitted(throttle, 20, "done")
    clock.now += 1
    throttle.admits("done")
    assert lines[0]["count"] == 50
    assert lines[0]["by_kind"] == {"queued": 30, "done": 20}


async def test_what_was_counted_is_told_once(throttle, clock, lines):
    admitted(throttle, 101)
    for _ in range(3):
        clock.now += 1
        throttle.admits("done")
    assert [line["count"] for line in lines] == [1]


async def test_within_one_second_nothing_is_told_twice_and_nothing_lost(throttle, clock, lines):
    seen = 0
    for burst in (150, 10, 400, 99):
        seen += admitted(throttle, burst)
        clock.now += 1
    throttle.admits("done")
    assert seen + sum(line["count"] for line in lines) == 150 + 10 + 400 + 99


async def test_after_the_last_event_the_count_is_told_without_another(throttle, lines, monkeypatch):
    """Otherwise what a burst left out would stay untold until the next event, which may never come."""
    planned = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda secs, tell: planned.append((secs, tell)))
    admitted(throttle, 300)
    ((secs, tell),) = planned
    assert secs == 1
    tell()
    assert [line["count"] for line in lines] == [200]
    tell()
    assert len(lines) == 1


# Transitions

FIELDS = {"log_level": "info", "agent_id": "ann", "action": "click", "namespace": "red"}


@pytest.fixture
async def engine():
    engine = MemoryEngine(Limits())
    engine.subscribe(TransitionLog())
    yield engine
    await engine.admin.close()


@pytest.fixture
async def claimed(engine):
    """A task of the namespace `red` that was handed to a host."""
    await engine.tasks.submit("red", Submission("ann", "click"))
    await engine.hosts.register("red", "host", None, HostProfile())
    (lease,) = await engine.leases.claim("red", "host")
    return lease


async def told(lines):
    """The lines, after the turn in which they are written."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return lines


async def test_each_state_that_a_task_takes_is_one_line_with_its_fields(lines, engine, claimed):
    await reporting.start(engine, "red", "host", claimed.task.id, claimed.token)
    await reporting.complete(engine, "red", "host", claimed.task.id, claimed.token, None)
    line = {**FIELDS, "task_id": claimed.task.id}
    assert await told(lines) == [
        {**line, "event": f"task_{state}"} for state in ("queued", "assigned", "running", "done")
    ]


async def test_the_line_of_a_failure_tells_the_error(lines, engine, claimed):
    await reporting.fail(engine, "red", "host", claimed.task.id, claimed.token, "element not found")
    assert (await told(lines))[-1] == {
        **FIELDS,
        "task_id": claimed.task.id,
        "event": "task_failed",
        "error": "element not found",
    }
    assert [line["event"] for line in lines if "error" in line] == ["task_failed"]


async def test_a_rejection_and_a_cancellation_are_told_too(lines):
    engine = MemoryEngine(Limits(max_queue_size=1))
    engine.subscribe(TransitionLog())
    task = await engine.tasks.submit("red", Submission("ann", "click"))
    with pytest.raises(Exception, match="queue full"):
        await engine.tasks.submit("red", Submission("ann", "click"))
    await engine.tasks.cancel("red", task.id)
    events = Counter(line["event"] for line in await told(lines))
    assert events == {"task_queued": 1, "task_rejected": 1, "task_cancelled": 1}
    assert [line["error"] for line in lines if "error" in line] == ["rejected: global queue full"]
    await engine.admin.close()


async def test_above_a_hundred_transitions_a_second_one_counted_line_stands_for_the_rest(lines, monkeypatch):
    monkeypatch.setattr(logs, "Throttle", partial(Throttle, clock=Clock()))
    engine = MemoryEngine(Limits(max_per_agent=1000))
    engine.subscribe(TransitionLog())
    for _ in range(400):
        await engine.tasks.submit("red", Submission("ann", "click"))
    await told(lines)
    assert Counter(line["event"] for line in lines) == {"task_queued": 100}
    await engine.admin.close()


# Formats


def logged_by(code):
    """What a process writes to standard error, by line."""
    program = f"import structlog\nfrom taskyard_server import logs\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "", "standard output is for answers"
    return done.stderr.splitlines()


def test_where_no_person_reads_along_each_line_is_json():
    (line,) = logged_by("logs.configure()\nstructlog.get_logger().info('task_done', task_id='tsk_1', text='工')")
    shown = json.loads(line)
    assert shown.pop("timestamp").endswith("Z")
    assert shown == {"event": "task_done", "level": "info", "task_id": "tsk_1", "text": "工"}


def test_a_level_hides_what_is_below_it():
    code = "logs.configure('warning')\nlog = structlog.get_logger()\nlog.info('hidden')\nlog.warning('shown')"
    assert [json.loads(line)["event"] for line in logged_by(code)] == ["shown"]


def test_an_exception_is_one_line_with_its_traceback():
    (line,) = logged_by(
        "logs.configure()\ntry: 1 / 0\nexcept ZeroDivisionError: structlog.get_logger().exception('no')"
    )
    assert "ZeroDivisionError" in json.loads(line)["exception"]


def test_people_get_lines_without_braces():
    (line,) = logged_by("logs.configure(as_json=False)\nstructlog.get_logger().info('task_done', task_id='tsk_1')")
    assert "task_done" in line
    assert not line.startswith("{")
