"""A count of instructions is that of the call alone, and the same each time."""

import gc

import pytest

# The tests count instructions of the interpreter.
pytestmark = pytest.mark.python_core


class LeftBehind:
    """Garbage in a cycle, whose end is a call."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        sum(range(3))


def allocate():
    return [[] for _ in range(1_000)]


@pytest.fixture
def few_allocations():
    """A collection begins in the midst of `allocate`."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(60)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("few_allocations")
def test_the_garbage_of_others_is_not_counted(instructions):
    alone = instructions(allocate)
    LeftBehind()
    assert instructions(allocate) == alone


def test_garbage_is_collected_after_a_count_as_before_it(instructions):
    instructions(allocate)
    assert gc.isenabled()
