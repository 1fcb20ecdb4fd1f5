"""A full collection also frees frozen cycles, and runs only while little memory is used."""

import gc
import weakref

import pytest

from taskyard_server.app import gc_policy


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


def test_a_frozen_cycle_is_collected_while_little_memory_is_used(frozen_cycle, monkeypatch):
    monkeypatch.setattr(gc_policy, "MAX_BLOCKS", 1 << 40)
    assert gc_policy.collect_if_small()
    assert frozen_cycle() is None


def test_nothing_is_collected_while_much_memory_is_used(frozen_cycle, monkeypatch):
    monkeypatch.setattr(gc_policy, "MAX_BLOCKS", 0)
    assert not gc_policy.collect_if_small()
    assert frozen_cycle() is not None
