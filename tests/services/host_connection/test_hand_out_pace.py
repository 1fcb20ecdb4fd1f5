"""How soon one message with a few tasks follows another to the same host (services/hand_out_pace.py)."""

from types import SimpleNamespace

import pytest

from taskyard_server.services import host_writing
from taskyard_server.services.hand_out_pace import MAX_SECS_BETWEEN, TIMES_THE_LINE, UNNOTICED_SECS, HandOutPace
from tests.services.host_streams import report


def lease(is_reported=False):
    made = SimpleNamespace(started_at=1.0 if is_reported else None, task=SimpleNamespace(lease=None))
    made.task.lease = made
    return made


@pytest.fixture
def pace():
    """The pace of a host that has once reported after 1 ms."""
    pace = HandOutPace()
    answered(pace, 0.0, 0.001)
    return pace


def answered(pace, sent_at, secs):
    """Send a message, on which the host reports after some time."""
    first = lease()
    pace.sent(sent_at, first)
    first.started_at = sent_at + secs
    pace.reported(sent_at + secs)


def test_nothing_waits_before_anything_was_sent():
    assert HandOutPace().wait_secs(0.0) <= 0


def test_nothing_waits_while_the_host_reports_as_soon_as_ever(pace):
    answered(pace, 1.0, 0.001 + UNNOTICED_SECS)
    assert pace.wait_secs(1.0) <= 1e-9


def test_the_longer_the_line_the_longer_the_pause_up_to_a_bound(pace):
    answered(pace, 1.0, 0.002 + UNNOTICED_SECS)
    assert pace.wait_secs(1.0) == pytest.approx(TIMES_THE_LINE * 0.001)
    answered(pace, 2.0, 10.0)
    assert pace.wait_secs(2.0) == pytest.approx(MAX_SECS_BETWEEN)
    assert pace.wait_secs(2.0 + MAX_SECS_BETWEEN) == pytest.approx(0)


def test_a_host_far_away_is_not_behind():
    pace = HandOutPace()
    for number in range(3):
        answered(pace, number, 0.2)
    assert pace.wait_secs(2.0) <= 0


def test_only_a_report_on_the_message_that_is_timed_tells_the_time(pace):
    pace.sent(1.0, lease())
    pace.sent(1.1, lease(is_reported=True))
    pace.reported(9.0)
    assert pace.wait_secs(1.1) <= 0


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
