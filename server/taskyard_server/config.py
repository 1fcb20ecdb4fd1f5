"""The one model of all configuration: a file, then environment variables, then flags.

Keys are those of the specs, camelCase, under `scheduler` (scheduler-reference, Scheduler Config), so the documented
example is a valid file. The environment writes them as `TASKYARD_SCHEDULER__MAX_QUEUE_SIZE`.
"""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    PositiveInt,
    SecretStr,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.limits import MAX_LEASE_SECS, Limits

MAX_PORT: Final = 65_535
MASK: Final = "**********"
"""What is shown of a secret."""
BEARER_TOKEN: Final = re.compile("[!-~]+")
SECRET_KEYS: Final = frozenset({"webhooks", "executorToken", "executor_token", "tabs"})
"""Keys and sections whose values messages do not quote, since they may be secrets."""
WEBHOOK_SECRET: Final = re.compile("(whsec_)?([A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2,4}=?=?")
ORIGIN: Final = re.compile(
    r"\*|(?!https:.*:443$|http:.*:80$)[a-z][a-z0-9+.-]*://(\*\.)?([a-z0-9._-]+|\[[0-9a-f:.]+\])(:(\d{1,5}|\*))?"
)


def _with_a_port(address: str) -> str:
    # A free port of the system's choice would be of no use: nobody could know where to call.
    if not 1 <= int(address.rpartition(":")[2]) <= MAX_PORT:
        raise ValueError(f"the port must be from 1 to {MAX_PORT}")
    return address


def _as_browsers_send_it(origin: str) -> str:
    if not ORIGIN.fullmatch(origin):
        raise ValueError("must be an origin as browsers send it: https://app.example, without a path or a default port")
    return origin


def _check_token(token: SecretStr) -> SecretStr:
    text = token.get_secret_value()
    # A line end would begin another header, and headers are ASCII.
    if not BEARER_TOKEN.fullmatch(text):
        raise PydanticCustomError("token", "must be visible ASCII characters, without spaces and line ends")
    if text == MASK:
        raise PydanticCustomError("token", "must be the token, not the mask that is shown in its place")
    return token


def _from_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("no such home directory") from None


Count = Annotated[int, Field(gt=0, lt=2**32)]
CountOrZero = Annotated[int, Field(ge=0, lt=2**32)]
PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
HomePath = Annotated[Path, AfterValidator(_from_home)]
"""It may begin with `~`."""
Address = Annotated[str, Field(pattern=r"^[^:/\s]+:\d{1,5}$"), AfterValidator(_with_a_port)]
Origin = Annotated[str, AfterValidator(_as_browsers_send_it)]
BearerToken = Annotated[SecretStr, AfterValidator(_check_token)]

KEEPS_WHAT_IS_SET: Final = frozenset(
    {"maxQueueSize", "maxPerAgent", "maxInflight", "maxPerAgentInflight", "maxPerAgentFlight", "resultTTLSec"}
)
"""Keys whose zero means no opinion (scheduler-reference, Config Hot-Reload)."""


class ConfigError(Exception):
    """What is wrong with the configuration, one line a mistake, each naming its key."""


class Section(BaseModel):
    """Keys are camelCase in files; unknown ones are errors."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class RetrySettings(Section):
    """A retry policy, as on a task (DESIGN, Retries). `...Ms` are milliseconds."""

    max_attempts: Count = 1
    first_delay_ms: CountOrZero = 1_000
    multiplier: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 2.0
    max_delay_ms: CountOrZero = 60_000
    non_retryable_codes: list[Annotated[str, Field(min_length=1, max_length=1_024)]] = []

    def policy(self) -> RetryPolicy:
        """The same in the core's terms."""
        return RetryPolicy(
            max_attempts=self.max_attempts,
            first_delay_secs=self.first_delay_ms / 1000,
            multiplier=self.multiplier,
            max_delay_secs=self.max_delay_ms / 1000,
            non_retryable_codes=frozenset(self.non_retryable_codes),
        )


class SchedulerSettings(Section):
    """Limits and times of the scheduler. Counts are tasks, `...Sec` are seconds."""

    enabled: bool = True
    strategy: Literal["fair-fifo"] = "fair-fifo"
    max_queue_size: Count = 1000
    max_per_agent: Count = 100
    max_inflight: Count = 20
    max_per_agent_inflight: Count = Field(
        default=10, validation_alias=AliasChoices("maxPerAgentInflight", "maxPerAgentFlight", "max_per_agent_inflight")
    )
    result_ttl_sec: PositiveSeconds = Field(
        default=300,
        validation_alias=AliasChoices("resultTTLSec", "result_ttl_sec"),
        serialization_alias="resultTTLSec",
    )
    worker_count: PositiveInt = 4
    default_deadline_sec: PositiveSeconds = 60
    max_batch_size: PositiveInt = 50
    watcher_interval_sec: PositiveSeconds = 30
    heartbeat_timeout_secs: PositiveSeconds = 60
    lease_secs: Annotated[float, Field(ge=1, le=MAX_LEASE_SECS)] = 60
    reconnect_grace_secs: Seconds = 5
    start_timeout_secs: PositiveSeconds = 10
    max_deliveries: PositiveInt = 5
    max_retained_tasks: PositiveInt = 200_000
    max_payload_bytes: PositiveInt = 262_144
    retry_policies: dict[str, RetrySettings] = {}
    """By action: how failed attempts are repeated where the task itself does not say."""


class DaemonSettings(Section):
    """How schedules fire and hosts are looked after (scheduler-daemon, Configuration). `...Ms` are milliseconds."""

    max_concurrent: Count = 5
    """The most triggers of a namespace that execute at once."""
    max_schedules: Count = 10_000
    """The most schedules of a namespace; the creation of more is refused."""
    poll_interval_ms: Annotated[int, Field(ge=1_000, lt=2**32)] = 30_000
    """How often the wall clock is looked at, at the least; a due time that passed longer ago was missed."""
    max_jitter_ms: CountOrZero = 30_000
    """Over how long triggers that come due together are spread; 0: not at all."""
    jitter_threshold: CountOrZero = 3
    """How many triggers may come due together before they are spread."""
    heartbeat_interval_ms: Count = 60_000
    """How often the machine figures of hosts are kept as a snapshot."""
    orphan_check_interval_ms: Count = 300_000
    dead_heartbeat_threshold: Count = 2
    """A host that was silent for so many heartbeat time-outs is dead."""


class WebhookSettings(Section):
    """Deliveries to `callbackUrl` (DESIGN, Webhooks)."""

    allow_private: bool = False
    secret: SecretStr | None = None
    """Signs deliveries as Standard Webhooks do; `whsec_` and base64."""

    @field_validator("secret")
    @classmethod
    def _decodes(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and not WEBHOOK_SECRET.fullmatch(secret.get_secret_value()):
            raise ValueError("must be whsec_ and base64")
        return secret

    workers: PositiveInt = 16
    max_pending: PositiveInt = 10_000
    timeout_secs: PositiveSeconds = 10


class LogSettings(Section):
    """A file that is given every log line as JSON, beside the console. Its folder is made, but not that one's own."""

    file: HomePath | None = None
    max_bytes: Annotated[int, Field(ge=65_536, lt=2**63)] = 10_485_760
    """The file that grew to this is set aside as FILE.1, the one before as FILE.2, and so on."""
    backups: Annotated[int, Field(ge=1, le=1_000)] = 5
    """How many files are kept set aside."""


class CorsSettings(Section):
    """Which browser pages may call the gateway. Others read nothing and change nothing (gateway/README.md)."""

    origins: list[Origin] = []
    """Origins as browsers send them, such as `https://app.example`; none by default. `https://*.example` is all names
    below, `http://localhost:*` every port, and `*` alone every page."""


class TabSettings(Section):
    """Where the actions of one tab are sent, and the bearer token that is sent along."""

    url: HttpUrl
    token: BearerToken | None = None

    @model_serializer(mode="wrap")
    def _as_in_the_file(self, dump: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        """In JSON, a tab without a token is its URL."""
        fields = dump(self)
        return fields["url"] if info.mode == "json" and self.token is None else fields


def _read_tab(tab: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """An entry of `tabs`: a URL, or an object with `url` and `token`."""
    if isinstance(tab, dict | TabSettings):
        return read(tab)
    try:
        return read({"url": tab})
    except ValidationError as error:
        # Without this the message would name a key `url`, which the entry does not have.
        raise PydanticCustomError("tab", "{problem}", {"problem": error.errors()[0]["msg"]}) from None


Tab = Annotated[TabSettings, WrapValidator(_read_tab)]


class Settings(BaseModel):
    """Everything that `taskyard up` can be told. Addresses are HOST:PORT."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    scheduler: SchedulerSettings = SchedulerSettings()
    daemon: DaemonSettings = DaemonSettings()
    webhooks: WebhookSettings = WebhookSettings()
    log: LogSettings = LogSettings()
    cors: CorsSettings = CorsSettings()
    grpc: Address = "127.0.0.1:50051"
    rest: Address = "127.0.0.1:9867"
    metrics: Address = "127.0.0.1:9464"
    store: Literal["memory://"] = "memory://"
    gateway: bool = True
    executor: HttpUrl | None = None
    executor_token: BearerToken | None = Field(
        default=None,
        description="Bearer token for requests to `executor`. Never shown.",
        validation_alias="executorToken",
        serialization_alias="executorToken",
    )
    tabs: dict[str, Tab] = Field(
        default={},
        description="Base URLs by tab, for tabs that are not behind `executor`: a URL, or an object with `url` and "
        "`token`, a bearer token for this URL. `executorToken` is not sent there.",
    )
    shutdown_grace_period_seconds: Seconds = Field(
        default=300,
        validation_alias=AliasChoices("shutdownGracePeriodSeconds", "SHUTDOWN_GRACE_PERIOD_SECONDS"),
        serialization_alias="shutdownGracePeriodSeconds",
    )

    def retry_policies(self) -> dict[str, RetryPolicy]:
        """The default retry policy of each action that has one."""
        return {action: retry.policy() for action, retry in self.scheduler.retry_policies.items()}

    def limits(self) -> Limits:
        """The part that the core works with, all of which can change while it runs."""
        scheduler, daemon = self.scheduler, self.daemon
        return Limits(
            max_queue_size=scheduler.max_queue_size,
            max_per_agent=scheduler.max_per_agent,
            max_inflight=scheduler.max_inflight,
            max_per_agent_inflight=scheduler.max_per_agent_inflight,
            result_ttl_secs=scheduler.result_ttl_sec,
            max_retained_tasks=scheduler.max_retained_tasks,
            default_deadline_secs=scheduler.default_deadline_sec,
            lease_secs=scheduler.lease_secs,
            max_deliveries=scheduler.max_deliveries,
            heartbeat_timeout_secs=scheduler.heartbeat_timeout_secs,
            reconnect_grace_secs=scheduler.reconnect_grace_secs,
            start_timeout_secs=scheduler.start_timeout_secs,
            dead_heartbeat_threshold=daemon.dead_heartbeat_threshold,
            orphan_check_secs=daemon.orphan_check_interval_ms / 1000,
            max_concurrent=daemon.max_concurrent,
            max_schedules=daemon.max_schedules,
            poll_secs=daemon.poll_interval_ms / 1000,
            max_jitter_secs=daemon.max_jitter_ms / 1000,
            jitter_threshold=daemon.jitter_threshold,
        )


class Environment(BaseSettings, Settings):
    """The part that environment variables set."""

    model_config = SettingsConfigDict(env_prefix="TASKYARD_", env_nested_delimiter="__", frozen=True)

    max_concurrent: Count | None = Field(default=None, validation_alias="TASKYARD_MAX_CONCURRENT")
    """Another name of `daemon.maxConcurrent`, which has a variable in the spec (scheduler-daemon, Configuration)."""

    def in_sections(self) -> Settings:
        """The same with every key in its section, where the variable that names the section comes first."""
        found = self.model_dump(exclude_unset=True)
        if (cap := found.pop("max_concurrent", None)) is not None:
            found["daemon"] = {"max_concurrent": cap, **found.get("daemon", {})}
        return Settings.model_validate(found)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, and for each dotted key that was set, by what."""

    settings: Settings
    sources: dict[str, str]


def load(file: Path | None, flags: dict[str, Any], before: Settings | None = None) -> Loaded:
    """The settings in force; raises `ConfigError`.

    On a reload, `before` are the settings until now: keys of the scheduler and daemon that nobody sets keep their value
    (scheduler-reference, Config Hot-Reload).
    """
    try:
        parts = {
            "file": Settings.model_validate(_read(file) if file else {}),
            "environment": Environment().in_sections(),
            "flag": Settings.model_validate(flags),
        }
        kept = {"scheduler": before.scheduler.model_dump(), "daemon": before.daemon.model_dump()} if before else {}
        merged: dict[str, Any] = dict(kept)
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


def by_key(settings: Settings, only_set: bool = False, mode: Literal["json", "python"] = "json") -> dict[str, Any]:
    """The settings by dotted key; secrets are masked in JSON. `only_set` leaves out what is at its default."""
    flat: dict[str, Any] = {}
    for name, value in settings.model_dump(mode=mode, by_alias=True, exclude_unset=only_set).items():
        if isinstance(value, dict) and name != "tabs":
            flat.update({f"{name}.{key}": item for key, item in value.items()})
        else:
            flat[name] = value
    return flat


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text()
        content = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ConfigError(f"{file}: {(error.strerror or 'cannot be read').lower()}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: must hold an object")
    scheduler = content.get("scheduler")
    if isinstance(scheduler, dict):
        kept = {key: value for key, value in scheduler.items() if not (key in KEEPS_WHAT_IS_SET and _is_zero(value))}
        content["scheduler"] = kept
    return content


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == 0


def _explain(mistake: Any) -> str:
    key = ".".join(str(part) for part in mistake["loc"])
    if mistake["type"] == "extra_forbidden":
        return f"{key}: unknown key"
    if mistake["loc"][0] in SECRET_KEYS:
        return f"{key}: {mistake['msg'].replace('Input', 'input', 1)}"
    message = mistake["msg"]
    return (
        f"{key}: {message[0].lower() if message[1:2].islower() else message[0]}{message[1:]}, got {mistake['input']!r}"
    )
