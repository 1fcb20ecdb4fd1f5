"""The one model of all configuration: a file, then environment variables, then flags.

Keys are those of the specs, camelCase, under `scheduler` (scheduler-reference, Scheduler Config), so the documented
example is a valid file. The environment writes them as `TASKYARD_SCHEDULER__MAX_QUEUE_SIZE`.
"""

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, HttpUrl, NonNegativeFloat, PositiveInt, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, SettingsConfigDict

from .core.limits import MAX_LEASE_SECS, Limits

PositiveSeconds = Annotated[float, Field(gt=0)]
Address = Annotated[str, Field(pattern=r"^[^:/\s]+:\d{1,5}$")]


class ConfigError(Exception):
    """What is wrong with the configuration, one line a mistake, each naming its key."""


class SchedulerSettings(BaseModel):
    """Limits and times of the scheduler. Counts are tasks, `...Sec` are seconds."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    enabled: bool = True
    strategy: Literal["fair-fifo"] = "fair-fifo"
    max_queue_size: PositiveInt = 1000
    max_per_agent: PositiveInt = 100
    max_inflight: PositiveInt = 20
    max_per_agent_inflight: PositiveInt = Field(
        default=10, validation_alias=AliasChoices("maxPerAgentInflight", "maxPerAgentFlight", "max_per_agent_inflight")
    )
    result_ttl_sec: PositiveSeconds = Field(
        default=300, validation_alias=AliasChoices("resultTTLSec", "resultTtlSec", "result_ttl_sec")
    )
    worker_count: PositiveInt = 4
    default_deadline_sec: PositiveSeconds = 60
    max_batch_size: PositiveInt = 50
    watcher_interval_sec: NonNegativeFloat = 30
    heartbeat_timeout_secs: PositiveSeconds = 60
    lease_secs: Annotated[float, Field(ge=1, le=MAX_LEASE_SECS)] = 60
    reconnect_grace_secs: NonNegativeFloat = 5
    start_timeout_secs: PositiveSeconds = 10
    max_deliveries: PositiveInt = 5
    max_retained_tasks: PositiveInt = 200_000
    max_payload_bytes: PositiveInt = 262_144

    def limits(self) -> Limits:
        """The part that the core works with."""
        return Limits(
            max_queue_size=self.max_queue_size,
            max_per_agent=self.max_per_agent,
            max_inflight=self.max_inflight,
            max_per_agent_inflight=self.max_per_agent_inflight,
            result_ttl_secs=self.result_ttl_sec,
            max_retained_tasks=self.max_retained_tasks,
            default_deadline_secs=self.default_deadline_sec,
            lease_secs=self.lease_secs,
            max_deliveries=self.max_deliveries,
            heartbeat_timeout_secs=self.heartbeat_timeout_secs,
        )


class Settings(BaseModel):
    """Everything that `taskyard up` can be told. Addresses are HOST:PORT."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheduler: SchedulerSettings = SchedulerSettings()
    grpc: Address = "127.0.0.1:50051"
    rest: Address = "127.0.0.1:9867"
    gateway: bool = True
    executor: HttpUrl | None = None
    tabs: dict[str, HttpUrl] = {}
    """Instances by tab, for tabs that do not live at `executor`."""


class Environment(BaseSettings, Settings):
    """The part that environment variables set."""

    model_config = SettingsConfigDict(env_prefix="TASKYARD_", env_nested_delimiter="__", frozen=True)


def load(file: Path | None, flags: dict[str, Any]) -> Settings:
    """The settings in force; raises `ConfigError`."""
    try:
        from_file = Settings.model_validate(_read(file) if file else {})
        merged: dict[str, Any] = {}
        for part in (from_file, Environment(), Settings.model_validate(flags)):
            given = part.model_dump(exclude_unset=True)
            scheduler = {**merged.get("scheduler", {}), **given.get("scheduler", {})}
            merged = {**merged, **given, "scheduler": scheduler}
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(mistake) for mistake in error.errors())) from None


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text()
        content = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: must hold an object")
    return content


def _explain(mistake: Any) -> str:
    key = ".".join(str(part) for part in mistake["loc"])
    if mistake["type"] == "extra_forbidden":
        return f"{key}: unknown key"
    return f"{key}: {mistake['msg'][0].lower()}{mistake['msg'][1:]}, got {mistake['input']!r}"
