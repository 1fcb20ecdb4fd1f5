"""A folder with a file for each namespace."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .folders import Folder


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Folder]:
    folder = await Folder(tmp_path / "yard").open()
    yield folder
    await folder.close()
