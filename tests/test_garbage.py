"""Cycles that were frozen are collected all the same, while that is quick."""

import gc
import weakref

import pytest

from taskyard_server import garbage


class Knot:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def frozen_knot():
    knot = weakref.ref(Knot())
    gc.freeze()
    gc.collect()
    assert knot() is not None, "a frozen cycle survives an ordinary collection"
    yield knot
    gc.unfreeze()


def test_a_frozen_cycle_is_collected_while_little_is_alive(frozen_knot, monkeypatch):
    monkeypatch.setattr(garbage, "SMALL", 1 << 40)
    assert garbage.collect_if_small()
    assert frozen_knot() is None


def test_while_much_is_alive_nothing_is_walked(frozen_knot, monkeypatch):
    monkeypatch.setattr(garbage, "SMALL", 0)
    assert not garbage.collect_if_small()
    assert frozen_knot() is not None
