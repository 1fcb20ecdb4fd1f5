"""What an answer tells the gateway about its REST form, as initial metadata that never reaches a REST caller."""

from __future__ import annotations

from typing import Any, Final

import grpc

ACCEPTED: Final = ("x-http-status", "202")
"""Answer 202 instead of 200."""


async def send_shape(context: grpc.aio.ServicerContext[Any, Any], shape: tuple[str, str]) -> None:
    """Send the sign ahead of the answer."""
    await context.send_initial_metadata((shape,))
