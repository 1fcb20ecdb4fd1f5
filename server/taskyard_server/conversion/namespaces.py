"""The limits of a namespace in requests and answers. They have the bounds of the settings that they stand for.

See docs/rules.md, Own limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import TypeAdapter, ValidationError

from taskyard.v1 import namespace_pb2 as pb
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.limits import OWN_LIMITS, Limits
from taskyard_server.settings.config import DaemonSettings, SchedulerSettings

OwnLimits = Mapping[str, int | float]

OTHER_NAMES: Final = {"result_ttl_secs": "result_ttl_sec", "default_deadline_secs": "default_deadline_sec"}
"""The settings that are spelled otherwise."""
WHOLE: Final = "limits"
PREFIX: Final = "limits."


def own_limits(limits: pb.NamespaceLimits) -> dict[str, int | float]:
    """The limits that are given. Raises `BadRequest` for one out of the bounds of its setting."""
    return {name: _checked(name, getattr(limits, name)) for name in OWN_LIMITS if _is_given(limits, name)}


def changed_limits(request: pb.UpdateNamespaceRequest) -> Callable[[OwnLimits], OwnLimits]:
    """A function that applies an update to the limits that a namespace has. The request is checked first."""
    given = own_limits(request.limits)
    named: set[str] = set()
    for path in request.update_mask.paths:
        name = path.removeprefix(PREFIX)
        if path == WHOLE:
            named.update(OWN_LIMITS)
        elif name != path and name in OWN_LIMITS:
            named.add(name)
        else:
            raise BadRequest(f'updateMask: "{path[:64]}" is not a field that can be replaced')
    named = named or set(given)
    changes = {name: limit for name, limit in given.items() if name in named}

    def change(limits: OwnLimits) -> OwnLimits:
        return {name: limit for name, limit in limits.items() if name not in named} | changes

    return change


def limits_message(limits: OwnLimits) -> pb.NamespaceLimits:
    """Limits as a message."""
    return pb.NamespaceLimits(**{name: limits[name] for name in OWN_LIMITS if name in limits})  # type: ignore[arg-type]


def all_limits(limits: Limits) -> dict[str, int | float]:
    """The limits in force that may be a namespace's own."""
    return {name: getattr(limits, name) for name in OWN_LIMITS}


def shown_name(name: str) -> str:
    """A limit as the API names it."""
    return pb.NamespaceLimits.DESCRIPTOR.fields_by_name[name].json_name


def _is_given(limits: pb.NamespaceLimits, name: str) -> bool:
    return limits.HasField(name)  # type: ignore[arg-type]


def _checked(name: str, limit: int | float) -> int | float:
    try:
        checked: int | float = BOUNDS[name].validate_python(limit)
    except ValidationError as error:
        raise BadRequest(f"{PREFIX}{shown_name(name)}: {_in_words(error)}") from None
    return checked


def _in_words(error: ValidationError) -> str:
    text: str = error.errors()[0]["msg"]
    return text.replace("Input should", "must").replace("a valid ", "a ")


def _bounds(name: str) -> TypeAdapter[Any]:
    setting = OTHER_NAMES.get(name, name)
    section = SchedulerSettings if setting in SchedulerSettings.model_fields else DaemonSettings
    field = section.model_fields[setting]
    bounded: Any = Annotated[field.annotation, *field.metadata]
    return TypeAdapter(bounded)


BOUNDS: Final = {name: _bounds(name) for name in OWN_LIMITS}
