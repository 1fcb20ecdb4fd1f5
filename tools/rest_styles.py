"""How each REST route spells messages, as the routes of gateway/envoy.yaml do (gateway/README.md)."""

import re
from dataclasses import dataclass
from typing import Final

from google.protobuf.descriptor import FieldDescriptor


@dataclass(frozen=True, slots=True)
class Style:
    """How a route spells a message: its field names, and whether it shows empty fields; `is_input` for requests."""

    snake: bool = False
    shows_empty: bool = False
    is_input: bool = False

    @property
    def suffix(self) -> str:
        """The end of the schema's name, which tells this form of a message from its others."""
        return "SnakeCase" * self.snake + "Full" * self.shows_empty + "Input" * self.is_input

    def name(self, field: FieldDescriptor) -> str:
        """The name of the field in JSON."""
        return field.name if self.snake else field.json_name


STYLES: Final = (
    (re.compile("/api/runtime-hosts/[^/]+/tasks/"), Style(snake=True)),
    (re.compile("/api/"), Style(snake=True, shows_empty=True)),
    (re.compile("/tasks:watch"), Style()),
    (re.compile("/tasks:"), Style(shows_empty=True)),
    (
        re.compile(
            "/(scheduler|targets|limits|agents|operations|schedules|triggers|namespaces|admin|tokens|whoami|healthz|readyz"
            "|sign-in)([/:]|$)"
        ),
        Style(shows_empty=True),
    ),
    (re.compile("/"), Style()),
)
"""By the beginning of the path; the first that matches counts."""


def style_of(template: str) -> Style:
    """How the route of a path spells messages."""
    return next(style for pattern, style in STYLES if pattern.match(template))
