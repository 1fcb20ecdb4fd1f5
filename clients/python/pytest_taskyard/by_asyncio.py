"""The yard of a test that pytest-asyncio runs, in each of the loops that it may choose. Registered beside that only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest_asyncio

from .fixtures import opened

if TYPE_CHECKING:
    from taskyard.testing import Yard


def _in_loop_of(scope: Any) -> Callable[..., Any]:
    async def made(taskyard_environment: Mapping[str, Any]) -> AsyncIterator[Yard]:
        async for each in opened(taskyard_environment):
            yield each

    return pytest_asyncio.fixture(made, loop_scope=scope, name=f"taskyard_in_{scope}_loop")


taskyard_in_function_loop = _in_loop_of("function")
taskyard_in_class_loop = _in_loop_of("class")
taskyard_in_module_loop = _in_loop_of("module")
taskyard_in_package_loop = _in_loop_of("package")
taskyard_in_session_loop = _in_loop_of("session")
