"""Runs the control plane for `taskyard up`: settings, log, telemetry, and what it says when it has started."""

import asyncio
from pathlib import Path
from typing import Any

import structlog
import uvloop
from rich.console import Console
from rich.markup import escape

from taskyard_server import logs
from taskyard_server.app import App, StartError
from taskyard_server.config import ConfigError, Settings
from taskyard_server.console_page import PATH as CONSOLE
from taskyard_server.envoy_config import GatewayError
from taskyard_server.exposure import authentication_is_on
from taskyard_server.live_config import LiveConfig
from taskyard_server.processes.parent import Parent, has_processes
from taskyard_server.setting_types import shown_url
from taskyard_server.store_url import MEMORY, is_postgres, shown_store_url, sqlite_folder, sqlite_path
from taskyard_server.telemetry.parts import Telemetry
from taskyard_server.telemetry.starting import configured_telemetry

from .failure import Failure

log = structlog.get_logger(__name__)


def serve(
    config_file: Path | None, flags: dict[str, Any], log_level: str, *, accept_clock: bool, insecure: bool
) -> None:
    """Serve until it is stopped. Raises `Failure`."""
    try:
        config = LiveConfig(config_file, flags)
        telemetry, why_not = configured_telemetry(config.settings)
        logs.configure(log_level, file=logs.configured_log_file(config.settings.log), also=telemetry.log_processor)
        if why_not is not None:
            log.warning("telemetry_off", why=why_not)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if has_processes(config.settings):
                runner.run(_run_processes(config, flags, log_level, accept_clock, insecure))
            else:
                runner.run(_run(config, accept_clock, insecure, telemetry))
    except (ConfigError, StartError, GatewayError) as error:
        raise Failure(str(error)) from None


async def _run(config: LiveConfig, accept_clock: bool, insecure: bool, telemetry: Telemetry) -> None:
    app = App(config, accept_clock=accept_clock, insecure=insecure, telemetry=telemetry)
    await app.start()
    out = Console(highlight=False, soft_wrap=True)
    _announce(out, config.settings, app.other_replicas)
    app.draining.tell = lambda words: out.print(escape(words))
    await app.run()


async def _run_processes(
    config: LiveConfig, flags: dict[str, Any], log_level: str, accept_clock: bool, insecure: bool
) -> None:
    parent = Parent(config, flags, log_level, accept_clock=accept_clock, insecure=insecure)
    out = Console(highlight=False, soft_wrap=True)
    parent.say = lambda words: out.print(escape(words))
    await parent.start()
    out.print(f"The namespaces are divided among {config.settings.processes} processes.")
    _announce(out, config.settings, None)
    await parent.run()


def _announce(out: Console, settings: Settings, others: int | None) -> None:
    url = f"http{'s' if settings.gateway_tls.cert else ''}://{settings.rest}"
    rest = f" and REST at [cyan]{url}[/cyan]" if settings.gateway else ""
    out.print(f"[bold]Taskyard[/bold] serves gRPC at [cyan]{settings.grpc}[/cyan]{rest}.")
    if settings.gateway and settings.console.enabled:
        out.print(f"The console is at [cyan]{escape(settings.console.url or url + CONSOLE)}[/cyan].")
    scheme = "http" if settings.tls.cert is None else "https"
    out.print(f"Metrics are at [cyan]{scheme}://{settings.metrics}/metrics[/cyan].")
    if is_postgres(settings.store.url):
        out.print(f"Tasks are kept in [cyan]{escape(shown_store_url(settings.store.url))}[/cyan].")
        if others is not None:
            out.print(_replica_words(settings, others))
    elif (folder := sqlite_folder(settings.store.url)) is not None:
        out.print(f"Tasks are kept in [cyan]{escape(str(folder))}[/cyan], in a file for each namespace.")
    elif (path := sqlite_path(settings.store.url)) is None:
        out.print("Nothing is kept: tasks are gone when it ends.")
    else:
        out.print(f"Tasks are kept in [cyan]{escape(str(path))}[/cyan]; --store {MEMORY} keeps nothing.")
    secs = settings.scheduler.default_deadline_sec
    out.print(f"A task without a deadline has {secs:g} s from when it can be claimed (scheduler.defaultDeadlineSec).")
    if settings.executor is None and not settings.tabs:
        out.print("Tasks wait for runtime hosts; --executor URL forwards tab actions. Try:")
    else:
        to = "the instances of their tabs" if settings.executor is None else shown_url(settings.executor)
        out.print(f"Tab actions go to [cyan]{to}[/cyan]. Try:")
    task = '{"agentId":"me","action":"click","tabId":"t1"}'
    token = ' -H "Authorization: Bearer $TASKYARD_TOKEN"' if authentication_is_on(settings) else ""
    if settings.gateway:
        ca = " --cacert ca.pem" if settings.gateway_tls.cert else ""
        out.print(f"  curl{ca}{token} -X POST {url}/tasks -H 'Content-Type: application/json' -d '{task}'")
    plain = "-cacert ca.pem" if settings.tls.cert else "-plaintext"
    out.print(f"  grpcurl {plain}{token} -d '{task}' {settings.grpc} taskyard.v1.TaskService/SubmitTask")


def _replica_words(settings: Settings, others: int) -> str:
    own, among = settings.replicas, "no other one lives" if not others else f"{others} more live"
    among = "1 more lives" if others == 1 else among
    if own.advertise is None:
        reached = "without [cyan]--advertise[/cyan], so that no other one can carry calls to it"
    else:
        reached = f"and others reach it at [cyan]{own.advertise}[/cyan]"
    return f"This is the replica [cyan]{escape(own.name)}[/cyan], {reached}; {among}."
