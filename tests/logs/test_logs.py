"""The log: the throttle, the lines of transitions, and the formats (docs/rules.md, Logs)."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from functools import partial

import pytest
import structlog
from structlog import make_filtering_bound_logger

from taskyard_server.core.history import Wait
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.engine.engine import Engine
from taskyard_server.logs import logs
from taskyard_server.logs.logs import TransitionLog
from taskyard_server.logs.throttle import Throttle
from tests import reporting
from tests.live import live


class Clock:
    """A clock that only tests move."""

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
    """The lines that are logged during the test, as dicts."""
    with structlog.testing.capture_logs() as captured:
        yield captured


def admitted(throttle, count, kind="done"):
    """How many of `count` events the throttle admits."""
    return sum(throttle.admits(kind) for _ in range(count))


# The throttle


async def test_a_hundred_events_per_second_are_logged(throttle, lines):
    assert admitted(throttle, 100) == 100
    assert lines == []


async def test_the_hundred_and_first_event_of_a_second_is_not_logged(throttle):
    admitted(throttle, 100)
    assert not throttle.admits("done")


async def test_the_next_second_begins_with_one_line_of_counts(throttle, clock, lines):
    assert admitted(throttle, 350) == 100
    clock.now += 1
    assert throttle.admits("done")
    assert lines == [
        {"event": "requests_counted", "log_level": "info", "count": 250, "by_kind": {"done": 250}},
    ]


async def test_the_next_second_has_a_hundred_new_lines(throttle, clock):
    admitted(throttle, 1000)
    clock.now += 1
    assert admitted(throttle, 1000) == 100


async def test_a_second_without_omitted_events_has_no_line_of_counts(throttle, clock, lines):
    for _ in range(5):
        assert admitted(throttle, 100) == 100
        clock.now += 1
    assert lines == []


async def test_the_line_of_counts_has_the_count_of_each_kind(throttle, clock, lines):
    admitted(throttle, 100)
    admitted(throttle, 30, "queued")
    admitted(throttle, 20, "done")
    clock.now += 1
    throttle.admits("done")
    assert lines[0]["count"] == 50
    assert lines[0]["by_kind"] == {"queued": 30, "done": 20}


async def test_counts_are_logged_once(throttle, clock, lines):
    admitted(throttle, 101)
    for _ in range(3):
        clock.now += 1
        throttle.admits("done")
    assert [line["count"] for line in lines] == [1]


async def test_each_event_is_either_logged_or_counted(throttle, clock, lines):
    seen = 0
    for burst in (150, 10, 400, 99):
        seen += admitted(throttle, burst)
        clock.now += 1
    throttle.admits("done")
    assert seen + sum(line["count"] for line in lines) == 150 + 10 + 400 + 99


async def test_the_last_counts_are_logged_without_a_further_event(throttle, lines, monkeypatch):
    """The next event may never come."""
    planned = []
    monkeypatch.setattr(
        asyncio.get_running_loop(), "call_later", lambda secs, callback: planned.append((secs, callback))
    )
    admitted(throttle, 300)
    ((secs, callback),) = planned
    assert secs == 1
    callback()
    assert [line["count"] for line in lines] == [200]
    callback()
    assert len(lines) == 1


# Transitions

FIELDS = {"log_level": "info", "agent_id": "ann", "action": "click", "namespace": "red"}


@pytest.fixture
async def engine():
    engine = Engine(Limits())
    engine.subscribe(TransitionLog())
    yield engine
    await engine.admin.close()


@pytest.fixture
async def claimed(engine):
    """The lease of a task in the namespace `red`."""
    await engine.tasks.submit("red", Submission("ann", "click"), show=live)
    await engine.hosts.register("red", "host", None, HostProfile(), show=live)
    (lease,) = await engine.leases.claim("red", "host", show=live)
    return lease


def collect(written):
    """Keeps what is logged, by its event alone."""

    def keep(_, __, line):
        written.append(line["event"])
        raise structlog.DropEvent

    return keep


async def logged(lines):
    """Wait until the engine has logged its events, and return the lines."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return lines


async def test_each_state_that_a_task_takes_is_one_line_with_its_fields(lines, engine, claimed):
    await reporting.start(engine, "red", "host", claimed.task.id, claimed.token)
    await reporting.complete(engine, "red", "host", claimed.task.id, claimed.token, None)
    line = {**FIELDS, "task_id": claimed.task.id}
    assert await logged(lines) == [
        {**line, "event": f"task_{state}", "log_level": level}
        for state, level in (("queued", "debug"), ("assigned", "debug"), ("running", "debug"), ("done", "info"))
    ]


async def test_at_the_level_info_a_park_is_a_line_too(monkeypatch, engine, claimed):
    written = []
    monkeypatch.setattr(logs, "log", structlog.wrap_logger(None, [collect(written)], make_filtering_bound_logger(20)))
    await reporting.park(engine, "red", "host", claimed.task.id, claimed.token, Wait("answer", "go"))
    await logged([])
    assert "task_parked" in written
    assert "task_running" not in written


async def test_at_the_level_info_a_task_is_one_line(monkeypatch):
    written = []
    monkeypatch.setattr(logs, "log", structlog.wrap_logger(None, [collect(written)], make_filtering_bound_logger(20)))
    engine = Engine(Limits(max_per_agent=1000))
    engine.subscribe(TransitionLog())
    for _ in range(300):
        task = await engine.tasks.submit("red", Submission("ann", "click"), show=live)
    await engine.tasks.cancel("red", task.id, show=live)
    await logged([])
    assert written == ["task_cancelled"]
    await engine.admin.close()


async def test_the_line_of_a_failure_has_the_error(lines, engine, claimed):
    await reporting.fail(engine, "red", "host", claimed.task.id, claimed.token, "element not found")
    assert (await logged(lines))[-1] == {
        **FIELDS,
        "task_id": claimed.task.id,
        "event": "task_failed",
        "error": "element not found",
    }
    assert [line["event"] for line in lines if "error" in line] == ["task_failed"]


async def test_rejections_and_cancellations_are_logged_too(lines):
    engine = Engine(Limits(max_queue_size=1))
    engine.subscribe(TransitionLog())
    task = await engine.tasks.submit("red", Submission("ann", "click"), show=live)
    with pytest.raises(Exception, match="queue full"):
        await engine.tasks.submit("red", Submission("ann", "click"), show=live)
    await engine.tasks.cancel("red", task.id, show=live)
    events = Counter(line["event"] for line in await logged(lines))
    assert events == {"task_queued": 1, "task_rejected": 1, "task_cancelled": 1}
    assert [line["error"] for line in lines if "error" in line] == ["rejected: global queue full"]
    await engine.admin.close()


async def test_above_a_hundred_transitions_per_second_the_rest_is_counted(lines, monkeypatch):
    monkeypatch.setattr(logs, "Throttle", partial(Throttle, clock=Clock()))
    engine = Engine(Limits(max_per_agent=1000))
    engine.subscribe(TransitionLog())
    for _ in range(400):
        await engine.tasks.submit("red", Submission("ann", "click"), show=live)
    await logged(lines)
    assert Counter(line["event"] for line in lines) == {"task_queued": 100}
    await engine.admin.close()


# Formats


def logged_by(code):
    """The lines that a process writes to standard error."""
    program = f"import structlog\nfrom taskyard_server.logs import logs\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "", "standard output is for answers"
    return done.stderr.splitlines()


def test_lines_are_json_unless_the_console_is_a_terminal():
    (line,) = logged_by("logs.configure()\nstructlog.get_logger().info('task_done', task_id='tsk_1', text='工')")
    shown = json.loads(line)
    assert shown.pop("timestamp").endswith("Z")
    assert shown == {"event": "task_done", "level": "info", "task_id": "tsk_1", "text": "工"}


def test_a_level_hides_lower_levels():
    code = "logs.configure('warning')\nlog = structlog.get_logger()\nlog.info('hidden')\nlog.warning('shown')"
    assert [json.loads(line)["event"] for line in logged_by(code)] == ["shown"]


def test_an_exception_is_one_line_with_its_traceback():
    (line,) = logged_by(
        "logs.configure()\ntry: 1 / 0\nexcept ZeroDivisionError: structlog.get_logger().exception('no')"
    )
    assert "ZeroDivisionError" in json.loads(line)["exception"]


def test_lines_for_a_terminal_are_in_columns():
    (line,) = logged_by("logs.configure(as_json=False)\nstructlog.get_logger().info('task_done', task_id='tsk_1')")
    assert "task_done" in line
    assert not line.startswith("{")
