"""What the tests of the core share."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.core.instruction_count import count_instructions
from tests.core.object_graph import count_objects, picture
from tests.core.schedules.clockwork import Clockwork
from tests.core.yard import Yard

NO_TRIGGER_LIMIT_NEAR = {
    "max_concurrent": 1_000_000,
    "max_queued_triggers": 1_000_000,
    "jitter_threshold": 1_000_000,
}


@pytest.fixture
def make_yard() -> type[Yard]:
    """Makes a `Yard` with the limits that a test is about."""
    return Yard


@pytest.fixture
def yard() -> Yard:
    """A `Yard` with no limit near."""
    return Yard()


@pytest.fixture
def make_clockwork() -> Callable[..., Clockwork]:
    """Makes a `Clockwork` with the limits that a test is about."""
    return lambda **limits: Clockwork(Yard(**{**NO_TRIGGER_LIMIT_NEAR, **limits}))


@pytest.fixture
def clockwork(make_clockwork: Callable[..., Clockwork]) -> Clockwork:
    """A `Clockwork` with no limit near."""
    return make_clockwork()


@pytest.fixture
def watch() -> Callable[[object], Callable[[], list[str]]]:
    """`changes = watch(thing)` keeps a picture of all that a thing holds; `changes()` is what differs from it."""

    def watch(thing: object) -> Callable[[], list[str]]:
        before = Counter(picture(thing))

        def changes() -> list[str]:
            after = Counter(picture(thing))
            return [*((after - before).elements()), *(f"was: {line}" for line in (before - after).elements())]

        return changes

    return watch


@pytest.fixture
def instructions(request: pytest.FixtureRequest) -> Callable[[Callable[[], object]], int]:
    """How many instructions of the interpreter a call takes."""
    assert request.node.get_closest_marker("python_core"), "instructions are counted of the interpreted core alone"
    return count_instructions


@pytest.fixture
def object_count() -> Callable[[object], int]:
    """How many objects an object keeps in memory."""
    return count_objects
