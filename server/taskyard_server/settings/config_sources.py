"""Reads the settings: a file, then environment variables, then flags (docs/operate/settings.md).

Each mistake is one line that names its key or variable, and for an unknown one the closest that exists.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeGuard, get_args, get_origin

from pydantic import AliasChoices, BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from taskyard_server.json_text import read_json

from .config import ConfigError, DaemonSettings, SchedulerSettings, Settings, by_key
from .setting_types import BearerToken, Count, Section

PREFIX: Final = "TASKYARD_"
SECRET_KEYS: Final = frozenset(
    {
        *("webhooks", "store", "tabs", "auth", "executor", "telemetry"),
        *("executorToken", "executor_token", "metricsToken", "metrics_token"),
    }
)
"""Keys and sections whose values messages do not quote, since they may be secrets."""
GONE: Final = {
    "processes": "one process serves; several are replicas, as `make up-replicas` starts (docs/operate/scaling.md)"
}
"""Keys that there were, and what is in their place."""
DELIMITER: Final = "__"
SEVERAL_VARIABLES: Final = {
    "daemon.maxConcurrent": (
        "TASKYARD_DAEMON__MAX_CONCURRENT",
        "TASKYARD_MAX_CONCURRENT",
        "GENIE_MAX_CONCURRENT",
    ),
    "auth.adminToken": ("TASKYARD_ADMIN_TOKEN", "TASKYARD_AUTH__ADMIN_TOKEN"),
    "shutdownGracePeriodSeconds": ("SHUTDOWN_GRACE_PERIOD_SECONDS", "TASKYARD_SHUTDOWN_GRACE_PERIOD_SECONDS"),
}
"""The keys that have more than one variable. The first that is set counts."""

OTHERS_VARIABLES: Final = frozenset(
    PREFIX + name
    for name in (
        *("SERVER", "NAMESPACE"),  # the commands
        *(
            "ADDRESS",
            "AGENT",
            "TOKEN",
            "TOKEN_FILE",
            "CA",
            "CERT",
            "KEY",
            "PROFILE",
            "HOST_ID",
        ),  # clients and their examples
        *("TASK_ID", "ATTEMPT", "FENCING_TOKEN", "TRACE_ID"),  # what the SDKs hand to a process that works on a task
        "BINARY",  # tests of the clients
    )
)
SERVICE_LINK: Final = re.compile(r"(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
SERVICE_ADDRESS: Final = re.compile("(tcp|udp|sctp)://.*")
"""Kubernetes sets both in every pod that runs beside a service called `taskyard` or `taskyard-...`."""


class Environment(BaseSettings, Settings):
    """The part that environment variables set."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter=DELIMITER, frozen=True)

    max_concurrent: Count | None = Field(default=None, validation_alias="TASKYARD_MAX_CONCURRENT")
    genie_max_concurrent: Count | None = Field(default=None, validation_alias="GENIE_MAX_CONCURRENT")
    admin_token: BearerToken | None = Field(default=None, validation_alias="TASKYARD_ADMIN_TOKEN")

    def in_sections(self) -> Settings:
        """The same with every key in its section."""
        found = self.model_dump(exclude_unset=True)
        for name in ("max_concurrent", "genie_max_concurrent"):
            if (cap := found.pop(name, None)) is not None:
                found["daemon"] = {"max_concurrent": cap, **found.get("daemon", {})}
        if (token := found.pop("admin_token", None)) is not None:
            found["auth"] = {**found.get("auth", {}), "admin_token": token}
        return Settings.model_validate(found)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, and the source of each dotted key that is set."""

    settings: Settings
    sources: dict[str, str]


def load(file: Path | None, flags: dict[str, Any], before: Settings | None = None) -> Loaded:
    """The settings in force; raises `ConfigError`.

    On a reload, `before` are the current settings: keys of scheduler and daemon that no source sets keep their value
    (docs/rules.md, Reload).
    """
    try:
        parts = {
            "file": Settings.model_validate(_read_file(file) if file else {}),
            "environment": _read_environment(os.environ),
            "flag": Settings.model_validate(flags),
        }
        current = {"scheduler": before.scheduler.model_dump(), "daemon": before.daemon.model_dump()} if before else {}
        merged: dict[str, Any] = dict(current)
        sources: dict[str, str] = {}
        for source, part in parts.items():
            for key, value in part.model_dump(exclude_unset=True).items():
                merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
            sources.update(dict.fromkeys(by_key(part, only_set=True), source))
        return Loaded(Settings.model_validate(merged), sources)
    except SettingsError as error:
        raise ConfigError(f"environment: {error}") from None
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(mistake) for mistake in error.errors())) from None


# The file


def _read_file(file: Path) -> dict[str, Any]:
    import tomllib  # Most files are JSON, and most servers have none.

    try:
        text = file.read_text()
        content = tomllib.loads(text) if file.suffix == ".toml" else read_json(text)
    except OSError as error:
        raise ConfigError(f"{file}: {(error.strerror or 'cannot be read').lower()}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: must hold an object")
    for name, keys in ZERO_IS_UNSET.items():
        section = content.get(name)
        if isinstance(section, dict):
            content[name] = {key: value for key, value in section.items() if not (key in keys and _is_zero(value))}
    return content


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == 0


def _spellings(name: str, info: FieldInfo) -> list[str]:
    """The keys that a field is known by, the documented one first."""
    alias = info.validation_alias or name
    aliases = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return [*(key for key in aliases if isinstance(key, str)), name]


def _keys_without_zero(section: type[Section]) -> frozenset[str]:
    return frozenset(
        key
        for name, info in section.model_fields.items()
        if any(getattr(mark, "gt", -1) >= 0 or getattr(mark, "ge", 0) > 0 for mark in info.metadata)
        for key in _spellings(name, info)
    )


ZERO_IS_UNSET: Final = {
    "scheduler": _keys_without_zero(SchedulerSettings),
    "daemon": _keys_without_zero(DaemonSettings),
}
"""The keys of the file for which zero is not a value. There it keeps the value in force (docs/rules.md, Reload)."""


# The environment


def variable(section: str, name: str) -> str:
    """The environment variable of a field in a section; the top level is the section ''."""
    return PREFIX + (f"{section}{DELIMITER}" if section else "").upper() + name.upper()


def _variables() -> Iterator[tuple[str, Any]]:
    """All variables, each with the type of its value."""
    for name, info in Settings.model_fields.items():
        yield variable("", name), info.annotation
        if _is_section(section := info.annotation):
            for key, inner in section.model_fields.items():
                yield variable(name, key), inner.annotation
    for names in SEVERAL_VARIABLES.values():
        for name in names:
            yield name, str


def _is_section(kind: Any) -> TypeGuard[type[Section]]:
    return isinstance(kind, type) and issubclass(kind, Section)


def _read_environment(environment: Mapping[str, str]) -> Settings:
    """Read the variables. Raises `ConfigError` for unknown ones, which would be ignored otherwise."""
    known = dict(_variables())
    maps = tuple(name + DELIMITER for name, kind in known.items() if get_origin(kind) is dict)
    mistakes = []
    for given, value in sorted(environment.items()):
        name = given.upper()
        if name in known:
            if _is_section(known[name]) or get_origin(known[name]) in (dict, list):
                mistakes += [f"{given}: {mistake}" for mistake in _mistakes_of_json(value)]
        elif gone := {f"{PREFIX}{key.upper()}": why for key, why in GONE.items()}.get(name):
            mistakes.append(f"{given}: {gone}")
        elif name.startswith(PREFIX) and not name.startswith(maps) and not _is_others(name, value):
            mistakes.append(f"{given}: unknown variable{_suggest(_closest_variable(name, known))}")
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return Environment().in_sections()


def _mistakes_of_json(text: str) -> Iterator[str]:
    """Why a text is not taken as JSON, where it is not; what it holds may be a secret."""
    try:
        read_json(text)
    except json.JSONDecodeError:
        yield "must be JSON"
    except (ValueError, RecursionError) as error:
        yield str(error)


def _is_others(name: str, value: str) -> bool:
    rest = name.removeprefix(PREFIX)
    is_address = rest.endswith("PORT") and SERVICE_ADDRESS.fullmatch(value)
    return name in OTHERS_VARIABLES or bool(SERVICE_LINK.fullmatch(rest) or is_address)


def _closest_variable(name: str, known: Iterable[str]) -> str | None:
    by_word: dict[str, str] = {}
    for each in known:
        word = each.removeprefix(PREFIX)
        # The section is what people forget most.
        by_word |= {word.rpartition(DELIMITER)[2]: each, word: each}
    close = get_close_matches(name.removeprefix(PREFIX), by_word, 1)
    return by_word[close[0]] if close else None


# Messages of mistakes


def _explain(mistake: Any) -> str:
    *path, last = mistake["loc"]
    key = ".".join(str(part) for part in mistake["loc"])
    if mistake["type"] == "extra_forbidden":
        names = _names_in(path)
        if last in names:
            return f"{key}: another name of {names[last]}, which is set too"
        if key in GONE:
            return f"{key}: {GONE[key]}"
        return f"{key}: unknown key{_suggest(next(iter(get_close_matches(str(last), names, 1)), None))}"
    message = mistake["msg"]
    if message[1:2].islower():
        message = message[0].lower() + message[1:]
    # A value of this section may be the secret.
    return f"{key}: {message}" + ("" if mistake["loc"][0] in SECRET_KEYS else f", got {mistake['input']!r}")


def _suggest(name: str | None) -> str:
    return "" if name is None else f", did you mean {name}?"


def _names_in(path: list[int | str]) -> dict[str, str]:
    """The documented key for each spelling that the object at this path of the file may hold."""
    model: type[BaseModel] = Settings
    for part in path:
        for name, info in model.model_fields.items():
            if part in _spellings(name, info):
                kind = info.annotation
                model = next((each for each in (kind, *get_args(kind)) if _is_section(each)), model)
    return {
        key: _spellings(name, info)[0] for name, info in model.model_fields.items() for key in _spellings(name, info)
    }
