"""The model of all settings: their keys, types, defaults and descriptions.

The file spells keys in camelCase, by section, as the documented example does. `config_sources.py` reads them,
`live_config.py` reloads them, and `tools/settings_doc.py` makes docs/operate/settings.md from this model.
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from taskyard_server.core.figures.demand import Pool
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.limits import DEFAULTS, MAX_LEASE_SECS, Limits
from taskyard_server.core.rules import ConfiguredRules

from .page import ConsoleSettings, CorsSettings
from .pools import PoolsByName, pools_of
from .replicas import ReplicaSettings
from .retries import RetrySettings
from .rules import AgentsByPattern, LimitsByPattern, TargetsByPattern, policies_of, rules_of
from .security import AuditSettings, AuthSettings, GatewayTlsSettings, LongToken, TlsSettings
from .setting_types import (
    Address,
    BearerToken,
    Count,
    CountOrZero,
    Float,
    HomePath,
    Integer,
    PositiveInt,
    PositiveSeconds,
    Seconds,
    Section,
    UrlWithPassword,
)
from .store import StoreSettings
from .telemetry import TelemetrySettings

TAB_ACTIONS: Final = (
    *("click", "dblclick", "type", "fill", "press", "hover", "focus", "select", "scroll", "scrollintoview", "drag"),
    *("check", "uncheck", "keyboard-type", "keyboard-inserttext", "keydown", "keyup"),
    *("mouse-move", "mouse-down", "mouse-up", "mouse-wheel"),
)
"""The kinds of actions that PinchTab documents."""
WEBHOOK_SECRET: Final = re.compile("(whsec_)?([A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2,4}=?=?")


class ConfigError(Exception):
    """The mistakes of the configuration: one line for each mistake, which names its key."""


class SchedulerSettings(Section):
    """Limits and times of the scheduler. Counts and limits are those of one namespace."""

    enabled: bool = Field(default=True, description="Whether tasks, batches and their statistics are served.")
    strategy: Literal["fair-fifo"] = Field(default="fair-fifo", description="Order of claims; there is only this one.")
    max_queue_size: Count = Field(
        default=DEFAULTS.max_queue_size, description="Maximum queued tasks; further ones are refused as `queue_full`."
    )
    max_per_agent: Count = Field(
        default=DEFAULTS.max_per_agent, description="Maximum queued tasks of one agent; further ones are refused."
    )
    max_inflight: Count = Field(
        default=DEFAULTS.max_inflight, description="Maximum tasks that are assigned or running."
    )
    max_per_agent_inflight: Count = Field(
        default=DEFAULTS.max_per_agent_inflight,
        description="Maximum tasks of one agent that are assigned or running. `maxPerAgentFlight` is another name.",
        validation_alias=AliasChoices("maxPerAgentInflight", "maxPerAgentFlight", "max_per_agent_inflight"),
    )
    result_ttl_sec: PositiveSeconds = Field(
        default=DEFAULTS.result_ttl_secs,
        description="Seconds for which an ended task is retained. A new value holds for those retained already.",
        validation_alias=AliasChoices("resultTTLSec", "result_ttl_sec"),
        serialization_alias="resultTTLSec",
    )
    worker_count: PositiveInt = Field(default=4, description="Tab actions that the built-in executor runs at once.")
    default_deadline_sec: PositiveSeconds = Field(
        default=DEFAULTS.default_deadline_secs, description="Seconds until the deadline of a task that sets none."
    )
    max_batch_size: Annotated[Integer, Field(ge=1, le=500)] = Field(
        default=50, description="Maximum tasks of one batch; streams of submissions carry more."
    )
    watcher_interval_sec: PositiveSeconds = Field(
        default=30, description="Seconds between two checks whether the configuration file has changed."
    )
    heartbeat_timeout_secs: PositiveSeconds = Field(
        default=DEFAULTS.heartbeat_timeout_secs,
        description="Seconds without a sign of life after which a host is offline.",
    )
    lease_secs: Annotated[Float, Field(ge=1, le=MAX_LEASE_SECS)] = Field(
        default=DEFAULTS.lease_secs, description="Length of a lease in seconds where the host asks for none."
    )
    reconnect_grace_secs: Seconds = Field(
        default=DEFAULTS.reconnect_grace_secs,
        description="Seconds for which the leases of a host outlive its broken stream; 0 ends them at once. With "
        "PostgreSQL at least 5 more than `store.failoverSecs`.",
    )
    start_timeout_secs: PositiveSeconds = Field(
        default=DEFAULTS.start_timeout_secs,
        description="Seconds within which a host must start a task from its stream; after that another host gets it.",
    )
    max_deliveries: PositiveInt = Field(
        default=DEFAULTS.max_deliveries,
        description="Maximum deliveries of a task whose leases are lost; after the last one it fails. "
        "A target or a retry policy of the task decides instead.",
    )
    max_retained_tasks: PositiveInt = Field(
        default=DEFAULTS.max_retained_tasks,
        description="Maximum ended tasks that are retained; the oldest are dropped first.",
    )
    max_payload_bytes: PositiveInt = Field(
        default=262_144, description="Maximum bytes of `params`, and of `result`, of one task."
    )
    retry_policies: dict[str, RetrySettings] = Field(
        default={}, description="Retry policies by action, for tasks that bring none. Their keys follow below."
    )
    forget_hosts_secs: PositiveSeconds = Field(
        default=DEFAULTS.forget_hosts_secs,
        description="Seconds without a sign of life after which a host without stream and leases is no longer listed.",
    )
    max_agent_figures: PositiveInt = Field(
        default=DEFAULTS.max_agent_figures,
        description="Agents whose figures are kept one by one, the newest ones; those of all others are summed up.",
    )
    max_output_bytes: PositiveInt = Field(
        default=DEFAULTS.max_output_bytes,
        description="Bytes of output that a task keeps. Beyond it the oldest is dropped, and readers are told.",
    )
    max_namespace_output_bytes: PositiveInt = Field(
        default=DEFAULTS.max_namespace_output_bytes,
        description="Bytes of output that all tasks of a namespace keep, about. Beyond it a task that says more keeps "
        "a sixteenth of maxOutputBytes.",
    )
    max_artifact_bytes: PositiveInt = Field(
        default=DEFAULTS.max_artifact_bytes, description="Bytes that the artifacts of a task may have in all."
    )
    max_namespace_artifact_bytes: PositiveInt = Field(
        default=DEFAULTS.max_namespace_artifact_bytes,
        description="Bytes that the artifacts of all tasks of a namespace may have; further ones are refused.",
    )
    idempotency_secs: Seconds = Field(
        default=DEFAULTS.idempotency_secs,
        description="Seconds from its submission for which an idempotency key is known at least; while its task is in "
        "memory it always is. Of a task that is not, a key takes some 500 bytes; as many are kept as came in these "
        "seconds.",
    )
    limits: LimitsByPattern = Field(
        default={}, description="Limits of concurrency keys, by pattern: a key, or the beginning of keys with `*`."
    )
    agents: AgentsByPattern = Field(
        default={}, description="What holds for agents, by pattern: an agent, or the beginning of names with `*`."
    )
    targets: TargetsByPattern = Field(
        default={}, description="What holds for targets, by pattern: a target, or the beginning of names with `*`."
    )
    max_blocked_targets: PositiveInt = Field(
        default=DEFAULTS.max_blocked_targets,
        description="Maximum targets that may be blocked; beyond it tasks of new targets are refused as `queue_full`.",
    )
    pools: PoolsByName = Field(
        default={}, description="Pools of hosts whose demand is shown, by name, at most 100. Their keys follow below."
    )
    no_host_notice_secs: PositiveSeconds = Field(
        default=DEFAULTS.no_host_notice_secs,
        description="Seconds without a live host that could run them after which queued tasks get a notice.",
    )


class DaemonSettings(Section):
    """How schedules fire and how hosts are checked. Counts and limits are those of one namespace."""

    max_concurrent: Count = Field(
        default=DEFAULTS.max_concurrent, description="Maximum triggers whose task is assigned or running."
    )
    max_queued_triggers: Count = Field(
        default=DEFAULTS.max_queued_triggers,
        description="Maximum triggers of one schedule whose task waits to be handed out; further ones stay pending.",
    )
    max_schedules: Count = Field(
        default=DEFAULTS.max_schedules, description="Maximum schedules; further ones are refused."
    )
    poll_interval_ms: Annotated[Integer, Field(ge=1_000, lt=2**32)] = Field(
        default=round(DEFAULTS.poll_secs * 1000),
        description="Longest interval between two looks at the wall clock, in milliseconds; "
        "a due time that is noticed later than this counts as missed.",
    )
    max_jitter_ms: CountOrZero = Field(
        default=round(DEFAULTS.max_jitter_secs * 1000),
        description="Milliseconds over which triggers that come due together are spread; 0 spreads none.",
    )
    jitter_threshold: CountOrZero = Field(
        default=DEFAULTS.jitter_threshold, description="Triggers that may come due together without being spread."
    )
    heartbeat_interval_ms: Count = Field(
        default=60_000, description="Milliseconds between two snapshots of the machines of hosts and server."
    )
    orphan_check_interval_ms: Count = Field(
        default=round(DEFAULTS.orphan_check_secs * 1000),
        description="Milliseconds between two checks that end the leases of dead hosts.",
    )
    dead_heartbeat_threshold: Count = Field(
        default=DEFAULTS.dead_heartbeat_threshold,
        description="Heartbeat time-outs (`scheduler.heartbeatTimeoutSecs`) in silence after which a host is dead.",
    )


class WebhookSettings(Section):
    """Deliveries to the `callbackUrl` of tasks."""

    allow_private: bool = Field(
        default=False, description="Whether deliveries may go to loopback, private and link-local addresses."
    )
    secret: SecretStr | None = Field(
        default=None, description="Signs deliveries as Standard Webhooks does: `whsec_` and base64. Never shown."
    )
    workers: PositiveInt = Field(default=16, description="Deliveries that are made at once.")
    max_pending: PositiveInt = Field(
        default=10_000,
        description="Maximum deliveries that wait in memory; further ones wait in the store, or are dropped.",
    )
    timeout_secs: PositiveSeconds = Field(default=10, description="Seconds that one try of a delivery may take.")

    @field_validator("secret")
    @classmethod
    def _decodes(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and not WEBHOOK_SECRET.fullmatch(secret.get_secret_value()):
            raise ValueError("must be whsec_ and base64")
        return secret


class LogSettings(Section):
    """The log file, beside the log on standard error."""

    file: HomePath | None = Field(
        default=None,
        description="File that gets every log line as JSON. Its folder is created if the parent folder exists.",
    )
    max_bytes: Annotated[Integer, Field(ge=65_536, lt=2**63)] = Field(
        default=10_485_760,
        description="Bytes after which the file is rotated: FILE becomes FILE.1, FILE.1 becomes FILE.2.",
    )
    backups: Annotated[Integer, Field(ge=1, le=1_000)] = Field(default=5, description="Rotated files that are kept.")


class TabSettings(Section):
    """Where the actions of one tab are sent, and the bearer token that is sent along."""

    url: UrlWithPassword = Field(description="Base URL that the actions of the tab are sent to.")
    token: BearerToken | None = Field(default=None, description="Bearer token for requests to `url`. Never shown.")

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
    """All settings of `taskyard up`. Addresses are HOST:PORT."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    scheduler: SchedulerSettings = SchedulerSettings()
    daemon: DaemonSettings = DaemonSettings()
    store: StoreSettings = Field(default_factory=StoreSettings)
    webhooks: WebhookSettings = WebhookSettings()
    log: LogSettings = LogSettings()
    cors: CorsSettings = CorsSettings()
    console: ConsoleSettings = ConsoleSettings()
    auth: AuthSettings = AuthSettings()
    tls: TlsSettings = TlsSettings()
    gateway_tls: GatewayTlsSettings = Field(
        default=GatewayTlsSettings(), validation_alias="gatewayTls", serialization_alias="gatewayTls"
    )
    audit: AuditSettings = AuditSettings()
    replicas: ReplicaSettings = Field(default_factory=ReplicaSettings)
    telemetry: TelemetrySettings = TelemetrySettings()
    grpc: Address = Field(default="127.0.0.1:50051", description="Address of the gRPC server.")
    rest: Address = Field(default="127.0.0.1:9867", description="Address of the gateway: REST, gRPC-Web and gRPC.")
    metrics: Address = Field(default="127.0.0.1:9464", description="Address of the metrics for Prometheus.")
    metrics_token: LongToken | None = Field(
        default=None,
        description="Bearer token that scrapes must bring, of 20 characters or more. Never shown.",
        validation_alias="metricsToken",
        serialization_alias="metricsToken",
    )
    metrics_max_names: CountOrZero = Field(
        default=50,
        description="Namespaces that metrics name, and actions of each; all further ones together are `other`.",
        validation_alias="metricsMaxNames",
        serialization_alias="metricsMaxNames",
    )
    refuse_unknown_fields: bool = Field(
        default=False,
        description="Whether fields of a REST body that the API does not know are refused everywhere. Without it "
        "submissions and the calls of hosts ignore them, and their answers name them.",
        validation_alias="refuseUnknownFields",
        serialization_alias="refuseUnknownFields",
    )
    gateway: bool = Field(default=True, description="Whether the gateway runs.")
    executor: UrlWithPassword | None = Field(
        default=None, description="Base URL that tab actions are sent to. Without it tasks wait for runtime hosts."
    )
    executor_tab_actions: list[str] = Field(
        default=list(TAB_ACTIONS),
        description="Actions that are of tabs alone: while no runtime host is online, such a task fails without a "
        "`tabId`. What has another action, and no `tabId`, waits for hosts.",
        validation_alias="executorTabActions",
        serialization_alias="executorTabActions",
    )
    executor_handoff_retry_secs: PositiveSeconds = Field(
        default=5.0,
        description="Seconds after which a task is tried again whose tab a person has (`tab_paused_handoff`); then "
        "each time after twice as long, up to `executorHandoffMaxRetrySecs`.",
        validation_alias="executorHandoffRetrySecs",
        serialization_alias="executorHandoffRetrySecs",
    )
    executor_handoff_max_retry_secs: PositiveSeconds = Field(
        default=60.0,
        description="The most seconds between two tries of a task whose tab a person has.",
        validation_alias="executorHandoffMaxRetrySecs",
        serialization_alias="executorHandoffMaxRetrySecs",
    )
    executor_token: BearerToken | None = Field(
        default=None,
        description="Bearer token for requests to `executor`. Never shown.",
        validation_alias="executorToken",
        serialization_alias="executorToken",
    )
    executor_ca: HomePath | None = Field(
        default=None,
        description="Authorities of the certificate of `executor`, as PEM, in the place of those of the system.",
        validation_alias="executorCa",
        serialization_alias="executorCa",
    )
    executor_cert: HomePath | None = Field(
        default=None,
        description="Client certificate for `executor`, as PEM. This and the two files beside it are read anew when "
        "they change.",
        validation_alias="executorCert",
        serialization_alias="executorCert",
    )
    executor_key: HomePath | None = Field(
        default=None,
        description="Private key of `executorCert`, as PEM, without a password.",
        validation_alias="executorKey",
        serialization_alias="executorKey",
    )
    tabs: dict[str, Tab] = Field(
        default={},
        description="Base URLs by tab, for tabs that are not behind `executor`: a URL, or an object with `url` and "
        "`token`, a bearer token for this URL. `executorToken` is not sent there, nor `executorCert` shown.",
    )
    shutdown_grace_period_seconds: Seconds = Field(
        default=300,
        description="Seconds that running tasks are given to end when the server shuts down; then they are paused.",
        validation_alias=AliasChoices("shutdownGracePeriodSeconds", "SHUTDOWN_GRACE_PERIOD_SECONDS"),
        serialization_alias="shutdownGracePeriodSeconds",
    )

    def retry_policies(self) -> dict[str, RetryPolicy]:
        """The default retry policy of each action that has one."""
        return {action: retry.policy() for action, retry in self.scheduler.retry_policies.items()}

    def pools(self) -> tuple[Pool, ...]:
        """The pools of hosts whose demand is shown, in order of their names."""
        return pools_of(self.scheduler.pools)

    def rules(self) -> ConfiguredRules:
        """The limits of concurrency keys and the weights of agents, by pattern."""
        return rules_of(self.scheduler.limits, self.scheduler.agents)

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
            reconnect_grace_secs=self.store.reconnect_grace_secs(scheduler.reconnect_grace_secs),
            start_timeout_secs=scheduler.start_timeout_secs,
            forget_hosts_secs=scheduler.forget_hosts_secs,
            max_agent_figures=scheduler.max_agent_figures,
            max_blocked_targets=scheduler.max_blocked_targets,
            on_target_failure=policies_of(scheduler.targets),
            max_output_bytes=scheduler.max_output_bytes,
            max_namespace_output_bytes=scheduler.max_namespace_output_bytes,
            max_artifact_bytes=scheduler.max_artifact_bytes,
            max_namespace_artifact_bytes=scheduler.max_namespace_artifact_bytes,
            idempotency_secs=scheduler.idempotency_secs,
            dead_heartbeat_threshold=daemon.dead_heartbeat_threshold,
            orphan_check_secs=daemon.orphan_check_interval_ms / 1000,
            max_concurrent=daemon.max_concurrent,
            max_queued_triggers=daemon.max_queued_triggers,
            max_schedules=daemon.max_schedules,
            poll_secs=daemon.poll_interval_ms / 1000,
            max_jitter_secs=daemon.max_jitter_ms / 1000,
            jitter_threshold=daemon.jitter_threshold,
            no_host_notice_secs=scheduler.no_host_notice_secs,
        )


def by_key(settings: Settings, only_set: bool = False, mode: Literal["json", "python"] = "json") -> dict[str, Any]:
    """The settings by dotted key; secrets are masked in JSON. `only_set` leaves out what is at its default."""
    flat: dict[str, Any] = {}
    for name, value in settings.model_dump(mode=mode, by_alias=True, exclude_unset=only_set).items():
        if isinstance(value, dict) and name != "tabs":
            flat.update({f"{name}.{key}": item for key, item in value.items()})
        else:
            flat[name] = value
    return flat
