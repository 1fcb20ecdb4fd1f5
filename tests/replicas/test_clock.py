"""The clock that replicas share follows that of their store without a step, and never goes back."""

from __future__ import annotations

import pytest

from taskyard_server.replicas.clock import SLEW, SharedClock


class Machine:
    """A steady clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def following(machine: Machine, ahead_secs: float) -> SharedClock:
    """A clock that was right at first, and whose store then shows another time."""
    clock = SharedClock(machine)
    clock.follow(1_000.0, machine.now, machine.now)
    machine.now += 1.0
    clock.follow(1_001.0 + ahead_secs, machine.now, machine.now)
    return clock


def test_it_begins_with_the_time_of_the_store_in_the_middle_of_the_call() -> None:
    machine = Machine()
    clock = SharedClock(machine)
    machine.now = 102.0
    clock.follow(1_000.0, 101.0, 102.0)
    assert clock() == pytest.approx(1_000.5)
    assert clock.wall() == pytest.approx(1_000.5)


@pytest.mark.parametrize("ahead_secs", [0.002, -0.002, 5.0, -5.0])
def test_it_never_steps_and_never_goes_back(ahead_secs: float) -> None:
    machine = Machine()
    clock = following(machine, ahead_secs)
    assert clock() == pytest.approx(1_001.0)
    assert clock.wall() == pytest.approx(1_001.0 + ahead_secs)
    last = clock()
    for _ in range(1_000):
        machine.now += 0.001
        assert (1 - SLEW) * 0.00099 < clock() - last < (1 + SLEW) * 0.00101
        last = clock()
    most = min(abs(ahead_secs), SLEW)
    assert clock() == pytest.approx(1_002.0 + (most if ahead_secs > 0 else -most))


def test_it_stops_to_level_out_once_it_shows_the_time_of_the_store() -> None:
    machine = Machine()
    clock = following(machine, 0.01)
    machine.now += 60.0
    assert clock() == clock.wall() == pytest.approx(1_061.01)


def test_another_look_at_the_store_is_no_step_either() -> None:
    machine = Machine()
    clock = following(machine, 5.0)
    machine.now += 1.0
    before = clock()
    clock.follow(1_001.0, machine.now, machine.now)
    assert clock() == pytest.approx(before)


def test_it_starts_later_where_somebody_has_seen_a_later_time() -> None:
    machine = Machine()
    clock = following(machine, 0.0)
    clock.start_at(1_002.0)
    assert clock() == pytest.approx(1_002.0)
    clock.start_at(1_000.0)
    assert clock() == pytest.approx(1_002.0)
    machine.now += 1.0
    assert clock() == pytest.approx(1_003.0 - SLEW)
