#!/usr/bin/env python
"""Writes the tables of docs/operate/settings.md from the model of the settings: `tools/settings_doc.py FROM TO`.

TO gets the text of FROM, with fresh tables between the two markers; both may be the same file. tools/generate.sh runs
this.
"""

import json
import sys
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import HttpUrl, SecretStr
from pydantic.fields import FieldInfo

from taskyard_server.settings.config import Settings, TabSettings
from taskyard_server.settings.config_sources import SEVERAL_VARIABLES, variable
from taskyard_server.settings.live_config import RELOADABLE
from taskyard_server.settings.pools import PoolSettings
from taskyard_server.settings.retries import RetrySettings
from taskyard_server.settings.rules import AgentSettings, KeyLimitSettings, TargetSettings
from taskyard_server.settings.security import (
    CertificateRule,
    ClaimRule,
    GrantSettings,
    IssuerSettings,
    LimitSettings,
    SignInSettings,
)
from taskyard_server.settings.setting_types import Section

BEGIN: Final = "<!-- tools/settings_doc.py writes what follows -->"
END: Final = "<!-- and ends here -->"
HEAD: Final = ("key", "type", "default", "change", "environment variable", "description")
PART_HEAD: Final = ("key", "type", "default", "description")

OBJECTS: Final[dict[Any, str]] = {
    AgentSettings: "agents",
    TargetSettings: "targets",
    KeyLimitSettings: "limits of keys",
    PoolSettings: "pools",
    RetrySettings: "retry policies",
    TabSettings: "URLs, or objects of `url` and `token`",
    LimitSettings: "limits",
    IssuerSettings: "issuers",
    SignInSettings: "object, see [signing in](#signing-in)",
    ClaimRule: "claim rules",
    CertificateRule: "certificate rules",
    GrantSettings: "grants",
}
PARTS: Final[dict[str, tuple[str, type[Section]]]] = {
    "Limits of concurrency keys": (
        "The value of each pattern in `scheduler.limits`, such as `site:*`. Of several that match a key the longest "
        "alone holds ([rules.md](../rules.md#concurrency-keys)).",
        KeyLimitSettings,
    ),
    "Agents": (
        "The value of each pattern in `scheduler.agents`, such as `team-a/*`. Of several that match an agent the "
        "longest alone holds ([rules.md](../rules.md#weights)).",
        AgentSettings,
    ),
    "Targets": (
        "The value of each pattern in `scheduler.targets`, such as `shop-*`. Of several that match a target the "
        "longest alone holds ([rules.md](../rules.md#blockers)).",
        TargetSettings,
    ),
    "Pools": (
        "The value of each name in `scheduler.pools`. Every key narrows the pool; one without keys is all hosts.",
        PoolSettings,
    ),
    "Retry policies": ("The value of each action in `scheduler.retryPolicies`.", RetrySettings),
    "Limits of principals": ("The value of each role in `auth.limits`.", LimitSettings),
    "Issuers of JWTs": ("The values of `auth.jwt`.", IssuerSettings),
    "Signing in": ("The value of `signIn` of an issuer ([security.md](security.md#signing-in)).", SignInSettings),
    "Claim rules": ("The `rules` of an issuer. A token gets the grants of all rules that it meets.", ClaimRule),
    "Certificate rules": ("The values of `auth.certificates`.", CertificateRule),
    "Grants": ("The `grants` of a rule. Names may end with `*`.", GrantSettings),
}
"""The objects in settings that are lists or maps, each with a table of its own."""
TYPES: Final[dict[Any, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    Path: "path",
    HttpUrl: "URL",
    SecretStr: "string, secret",
}


def main() -> None:
    """Write the file that the second argument names."""
    source, target = sys.argv[1:]
    before, _, rest = Path(source).read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    Path(target).write_text(f"{before}{BEGIN}\n\n{tables()}\n{END}{after}")


def tables() -> str:
    """A table for each section, one for the keys outside of sections, and one for retry policies."""
    sections = {
        name: info.annotation
        for name, info in Settings.model_fields.items()
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section)
    }
    top = [row("", name, info) for name, info in Settings.model_fields.items() if name not in sections]
    parts = ["### Addresses and executor\n", table(HEAD, top)]
    for name, section in sections.items():
        rows = [row(name, key, info) for key, info in section.model_fields.items()]
        parts += [f"### {key_of(name)}\n", f"{section.__doc__}\n", table(HEAD, rows)]
    for title, (text, part) in PARTS.items():
        keys = [
            [f"`{info.alias}`", type_of(info), default_of(info), info.description or ""]
            for info in part.model_fields.values()
        ]
        parts += [f"### {title}\n", f"{text}\n", table(PART_HEAD, keys)]
    return "\n".join(parts)


def row(section: str, name: str, info: FieldInfo) -> list[str]:
    """What there is to know about a key."""
    alias = info.serialization_alias or info.alias or name
    key = f"{key_of(section)}.{alias}" if section else alias
    variables = ", ".join(f"`{each}`" for each in SEVERAL_VARIABLES.get(key, (variable(section, name),)))
    change = "reload" if key in RELOADABLE else "restart"
    return [f"`{key}`", type_of(info), default_of(info), change, variables, info.description or ""]


def key_of(section: str) -> str:
    """The key of a section."""
    return Settings.model_fields[section].serialization_alias or section


def table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def default_of(info: FieldInfo) -> str:
    """The default as JSON writes it, or what stands for it where it depends on the machine."""
    if (default := documented(info, "default")) is not None:
        return f"`{json.dumps(default)}`"
    if info.is_required():
        return "required"
    if info.default is None:
        return "none"
    whole = isinstance(info.default, float) and info.default.is_integer()
    return f"`{json.dumps(int(info.default) if whole else info.default)}`"


def documented(info: FieldInfo, what: str) -> str | None:
    """What the model says for this page alone."""
    extra = info.json_schema_extra
    return str(extra[what]) if isinstance(extra, dict) and what in extra else None


def type_of(info: FieldInfo) -> str:
    """The type in words, with the range of a number."""
    if (words := documented(info, "type")) is not None:
        return words
    kind = without_extras(info.annotation)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(f"`{json.dumps(each)}`" for each in inner)
    if origin is dict:
        values = without_extras(inner[1])
        return f"object of {OBJECTS.get(values, 'strings')}"
    if origin is list:
        values = without_extras(inner[0])
        return f"list of {OBJECTS.get(values, 'strings')}"
    if any("\\d" in (getattr(mark, "pattern", None) or "") for mark in info.metadata):
        return "HOST:PORT"
    bounds = {name: getattr(mark, name) for mark in info.metadata for name in ("gt", "ge", "le") if hasattr(mark, name)}
    least = bounds["gt"] + 1 if "gt" in bounds and kind is int else bounds.get("ge")
    words = TYPES.get(kind) or OBJECTS[kind]
    if least is not None:
        words += f", {least} or more" if "le" not in bounds else f", {least} to {bounds['le']:g}"
    elif "gt" in bounds:
        words += f", above {bounds['gt']}"
    return words


def without_extras(kind: Any) -> Any:
    """A type without `| None` and without what `Annotated` adds."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = get_args(kind)[0]
    return kind


if __name__ == "__main__":
    main()
