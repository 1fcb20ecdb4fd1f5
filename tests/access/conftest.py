"""The yard with principals who see different things of it, one a module, and some of them as callers."""

from collections.abc import Iterator

import pytest

from tests.access.sight_yard import Stubs, sight_yard, stubs
from tests.access.yards import Yard


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with sight_yard(tmp_path_factory.mktemp("yard")) as made:
        yield made


@pytest.fixture
def ann(yard: Yard) -> Iterator[Stubs]:
    with stubs(yard, "agent") as made:
        yield made


@pytest.fixture
def bob(yard: Yard) -> Iterator[Stubs]:
    with stubs(yard, "bob") as made:
        yield made


@pytest.fixture
def operator(yard: Yard) -> Iterator[Stubs]:
    with stubs(yard, "operator") as made:
        yield made
