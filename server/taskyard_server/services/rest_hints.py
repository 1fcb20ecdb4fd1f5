"""Hints for the gateway about the REST form of a response, sent as initial metadata that it removes."""

from __future__ import annotations

from typing import Any, Final

import grpc

ACCEPTED: Final = ("x-http-status", "202")
"""Respond with status 202 instead of 200."""


async def send_hint(context: grpc.aio.ServicerContext[Any, Any], hint: tuple[str, str]) -> None:
    """Send a hint ahead of the response."""
    await context.send_initial_metadata((hint,))
