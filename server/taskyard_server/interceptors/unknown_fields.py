"""Fields of a request that nobody knows (docs/rules.md, REST), refused where a misspelt one might widen what is done.

Elsewhere they are ignored, as they always were, but not in silence: the answer names them, statistics count such calls,
and a line of the log tells the first one of each agent. By a setting they are refused, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from taskyard_server.core.errors import BadRequest

from .callers import current_call, current_headers

log = structlog.get_logger(__name__)

STRICT_SERVICES: Final = frozenset(
    f"{name}Service" for name in ("Token", "Namespace", "Limit", "Agent", "Schedule", "Operation", "Admin")
)
"""Those that refuse what they do not know, by every door. For REST the gateway does (gateway/strict_json.lua)."""
ANSWER_KEY: Final = "taskyard-ignored-fields"
"""The header of an answer that names what was ignored of its request."""
MAX_TOLD: Final = 1_000
"""Agents and hosts of which the log has told."""


def is_strict(method: str) -> bool:
    """True if a method refuses what it does not know."""
    return method.rpartition("/")[0].rpartition(".")[2] in STRICT_SERVICES


def refusing_unknown(parse: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    """Return the refusal of a message that has fields of which this server knows nothing."""
    assert parse is not None

    def parse_known(data: bytes) -> Any:
        message = parse(data)
        at = _unknown_in(message, "request") if isinstance(message, Message) else None
        return message if at is None else BadRequest(f"{at}: has fields that this server does not know")

    return parse_known


def _unknown_in(message: Message, at: str) -> str | None:
    """The name of the part of a message that has fields that are not known; None if there is none."""
    if len(UnknownFieldSet(message)):
        return at
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        name = field.json_name if at == "request" else f"{at}.{field.json_name}"
        parts = enumerate(value) if field.is_repeated else [(None, value)]
        for number, part in parts:
            if found := _unknown_in(part, name if number is None else f"{name}[{number}]"):
                return found
    return None


class IgnoredFields:
    """Takes note of what REST calls send in vain. `refuses` says whether that is an error instead."""

    def __init__(self, refuses: Callable[[], bool] = lambda: False) -> None:
        self._refuses = refuses
        self._calls: Counter[str] = Counter()
        self._told: set[tuple[str, str]] = set()
        self.total = 0
        """The calls with such fields."""

    def calls_of(self, namespace: str) -> int:
        """The calls of one namespace."""
        return self._calls.get(namespace, 0)

    def deleted(self, namespace: str) -> None:
        """Forget a namespace that was deleted."""
        self._calls.pop(namespace, None)

    def around(self, method: str, serve: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        """The same handler of REST calls, with an answer that names what was ignored."""

        async def serve_noting(request: Any, context: Any) -> Any:
            names = current_headers().ignored_fields
            if names is None:
                return await serve(request, context)
            if self._refuses():
                raise BadRequest(f"{names.partition(',')[0]}: is no field of this request")
            response = await serve(request, context)
            self._note(method, request.message, names)
            await context.send_initial_metadata(((ANSWER_KEY, names),))
            return response

        return serve_noting

    def _note(self, method: str, message: Any, names: str) -> None:
        namespace = current_call().namespace
        self.total += 1
        self._calls[namespace] += 1
        who = getattr(message, "agent_id", "") or getattr(message, "host_id", "")
        if (namespace, who) not in self._told and len(self._told) < MAX_TOLD:
            self._told.add((namespace, who))
            log.warning("fields_ignored", method=method, fields=names, namespace=namespace, by=who)
