"""Runs the control plane for `taskyard up`: settings, log, telemetry, and what it says when it has started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
import uvloop

from taskyard_server.app.app import App
from taskyard_server.app.endpoints import StartError
from taskyard_server.cli.failure import Failure
from taskyard_server.cli.spoken_lines import SpokenLines
from taskyard_server.gateway.console_page import PATH as CONSOLE
from taskyard_server.gateway.envoy_config import GatewayError
from taskyard_server.logs import logs
from taskyard_server.net.exposure import authentication_is_on
from taskyard_server.settings.config import ConfigError, Settings
from taskyard_server.settings.live_config import LiveConfig
from taskyard_server.settings.setting_types import shown_url
from taskyard_server.settings.store_url import MEMORY, is_postgres, shown_store_url, sqlite_path
from taskyard_server.telemetry.parts import Telemetry
from taskyard_server.telemetry.starting import configured_telemetry

if TYPE_CHECKING:
    from .secure_folder import SecureFolder

log = structlog.get_logger(__name__)

EVERYWHERE: Final = ("0.0.0.0", "[::]")


def serve(
    config_file: Path | None,
    flags: dict[str, Any],
    log_level: str,
    *,
    accept_clock: bool,
    insecure: bool,
    secured: SecureFolder | None = None,
) -> None:
    """Serve until it is stopped. Raises `Failure`."""
    try:
        if secured is not None:
            config_file, flags = secured.config, secured.flags
        config = LiveConfig(config_file, flags)
        telemetry, why_not = configured_telemetry(config.settings)
        logs.configure(log_level, file=logs.configured_log_file(config.settings.log), also=telemetry.log_processor)
        if why_not is not None:
            log.warning("telemetry_off", why=why_not)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(config, accept_clock, insecure, secured, telemetry))
    except (ConfigError, StartError, GatewayError) as error:
        raise Failure(str(error)) from None


async def _run(
    config: LiveConfig, accept_clock: bool, insecure: bool, secured: SecureFolder | None, telemetry: Telemetry
) -> None:
    app = App(config, accept_clock=accept_clock, insecure=insecure, telemetry=telemetry)
    await app.start()
    out = SpokenLines()
    _announce(out, config.settings, app.other_replicas, Path("ca.pem") if secured is None else secured.authority)
    if secured is not None and secured.new_token is not None:
        out.say(f"The admin token, which is shown this once: {secured.new_token}")
    app.draining.tell = out.say
    await app.run()


def _announce(out: SpokenLines, settings: Settings, others: int | None, authority: Path) -> None:
    url = f"http{'s' if settings.gateway_tls.cert else ''}://{_called(settings.rest)}"
    rest = f" and REST at {out.cyan(url)}" if settings.gateway else ""
    out.say(f"{out.bold('Taskyard')} serves gRPC at {out.cyan(_called(settings.grpc))}{rest}.")
    if settings.gateway and settings.console.enabled:
        out.say(f"The console is at {out.cyan(settings.console.url or url + CONSOLE)}.")
    scheme = "http" if settings.tls.cert is None else "https"
    out.say(f"Metrics are at {out.cyan(f'{scheme}://{_called(settings.metrics)}/metrics')}.")
    if is_postgres(settings.store.url):
        out.say(f"Tasks are kept in {out.cyan(shown_store_url(settings.store.url))}.")
        if others is not None:
            out.say(_replica_words(out, settings, others))
    elif (path := sqlite_path(settings.store.url)) is None:
        out.say("Nothing is kept: tasks are gone when it ends.")
    else:
        out.say(f"Tasks are kept in {out.cyan(str(path))}; --store {MEMORY} keeps nothing.")
    secs = settings.scheduler.default_deadline_sec
    out.say(f"A task without a deadline has {secs:g} s from when it can be claimed (scheduler.defaultDeadlineSec).")
    if settings.executor is None and not settings.tabs:
        out.say("Tasks wait for runtime hosts; --executor URL forwards tab actions. Try:")
    else:
        to = "the instances of their tabs" if settings.executor is None else shown_url(settings.executor)
        out.say(f"Tab actions go to {out.cyan(to)}. Try:")
    task = '{"agentId":"me","action":"click","tabId":"t1"}'
    token = ' -H "Authorization: Bearer $TASKYARD_TOKEN"' if authentication_is_on(settings) else ""
    if settings.gateway:
        ca = f" --cacert {authority}" if settings.gateway_tls.cert else ""
        out.say(f"  curl{ca}{token} -X POST {url}/tasks -H 'Content-Type: application/json' -d '{task}'")
    plain = f"-cacert {authority}" if settings.tls.cert else "-plaintext"
    out.say(f"  grpcurl {plain}{token} -d '{task}' {_called(settings.grpc)} taskyard.v1.TaskService/SubmitTask")


def _called(address: str) -> str:
    """The address that a caller on this machine uses: what listens everywhere is in no certificate by that name."""
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host in EVERYWHERE else address


def _replica_words(out: SpokenLines, settings: Settings, others: int) -> str:
    own, among = settings.replicas, "no other one lives" if not others else f"{others} more live"
    among = "1 more lives" if others == 1 else among
    if own.advertise is None:
        reached = f"without {out.cyan('--advertise')}, so that no other one can carry calls to it"
    else:
        reached = f"and others reach it at {out.cyan(own.advertise)}"
    return f"This is the replica {out.cyan(own.name)}, {reached}; {among}."
