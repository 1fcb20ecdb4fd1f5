"""Yards for the tests of yards."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard.testing import Yard


@pytest.fixture
async def yard_with_store(tmp_path: Path) -> AsyncIterator[Yard]:
    """A yard that survives its restarts."""
    async with Yard(store=tmp_path / "yard.db") as yard:
        yield yard
