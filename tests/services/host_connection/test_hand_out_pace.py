"""How soon one message with a few tasks follows another to the same host (services/hand_out_pace.py)."""

import pytest

from taskyard_server.services import host_writing
from taskyard_server.services.hand_out_pace import BUSY_SHARE, SECS_BETWEEN, WINDOW_SECS, Busyness, HandOutPace
from tests.services.host_streams import report


class Machine:
    """A clock, and how long the process has worked, both moved by hand."""

    def __init__(self):
        self.now = self.worked = 0.0

    def work(self, secs, of):
        self.now += of
        self.worked += secs


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def pace(machine):
    """The pace of a host that was sent tasks at 1 s."""
    pace = HandOutPace(Busyness(lambda: machine.now, lambda: machine.worked))
    pace.sent(1.0)
    return pace


def test_nothing_waits_before_anything_was_sent(machine):
    assert HandOutPace(Busyness(lambda: machine.now, lambda: machine.worked)).wait_secs(0.0) == 0


def test_nothing_waits_while_the_server_has_time_to_spare(machine, pace):
    machine.work(BUSY_SHARE, of=1.0)
    assert pace.wait_secs(1.0) == 0


def test_few_tasks_follow_after_a_while_where_the_server_is_busy(machine, pace):
    machine.work(1.0, of=1.0)
    assert pace.wait_secs(1.0) == pytest.approx(SECS_BETWEEN)
    assert pace.wait_secs(1.0 + SECS_BETWEEN / 2) == pytest.approx(SECS_BETWEEN / 2)
    assert pace.wait_secs(1.0 + SECS_BETWEEN) == 0


def test_a_server_is_busy_until_it_was_not_for_a_while(machine, pace):
    machine.work(1.0, of=1.0)
    assert pace.wait_secs(1.0) > 0
    machine.work(0.0, of=WINDOW_SECS / 2)
    assert pace.wait_secs(1.0) > 0
    machine.work(0.0, of=WINDOW_SECS / 2)
    assert pace.wait_secs(1.0) == 0


async def test_tasks_that_wait_share_a_message_and_half_of_the_places_do_not_wait(server, monkeypatch):
    monkeypatch.setattr(HandOutPace, "wait_secs", lambda *_: 1.0)
    stream = await server.connect(credit=8, counts_accepted=True)
    for _ in range(3):
        await server.submit()
    await server.submit()
    assert len((await stream.receive("assignments")).assignments) == 4
    await server.submit()
    await stream.assert_quiet()
    await server.advance(1)
    assert len((await stream.receive("assignments")).assignments) == 1


async def test_a_count_that_is_awaited_takes_the_tasks_that_wait_along(server, monkeypatch):
    stream = await server.connect(credit=8, counts_accepted=True)
    await server.submit()
    task = await stream.task()
    monkeypatch.setattr(HandOutPace, "wait_secs", lambda *_: 1.0)
    monkeypatch.setattr(host_writing, "FEW", 0)
    await server.submit()
    await stream.assert_quiet()
    await stream.send(reports={"reports": [report(task, started=True)]})
    message = await stream.read_message()
    assert (message.accepted_reports, len(message.assignments.assignments)) == (1, 1)
