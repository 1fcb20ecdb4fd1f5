"""A full collection also frees frozen cycles, and runs only while few objects are frozen."""

import gc
import weakref

import pytest

from taskyard_server import gc_policy


class Cycle:
    """Refers to itself, so only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def frozen_cycle():
    cycle = weakref.ref(Cycle())
    gc.freeze()
    gc.collect()
    assert cycle() is not None, "a frozen cycle survives an ordinary collection"
    yield cycle
    gc.unfreeze()


def test_a_frozen_cycle_is_collected_while_few_objects_are_frozen(frozen_cycle, monkeypatch):
    monkeypatch.setattr(gc_policy, "MAX_COLLECTED_OBJECTS", 1 << 40)
    assert gc_policy.collect_if_small()
    assert frozen_cycle() is None


def test_nothing_is_collected_while_many_objects_are_frozen(frozen_cycle, monkeypatch):
    monkeypatch.setattr(gc_policy, "MAX_COLLECTED_OBJECTS", 0)
    assert not gc_policy.collect_if_small()
    assert frozen_cycle() is not None
