"""`taskyard up`: run the control plane until Ctrl-C."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from rich.console import Console

from taskyard_server import config, logs
from taskyard_server.app import App, StartError
from taskyard_server.gateway import GatewayError

from .failure import Failure

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="JSON or TOML file; environment variables TASKYARD_* and flags come after it."),
]
GrpcOption = Annotated[str | None, typer.Option(help="Where to serve gRPC, HOST:PORT. [default: 127.0.0.1:50051]")]
RestOption = Annotated[str | None, typer.Option(help="Where to serve REST, HOST:PORT. [default: 127.0.0.1:9867]")]
ExecutorOption = Annotated[str | None, typer.Option(help="Base URL that tab actions go to.")]
GatewayOption = Annotated[bool | None, typer.Option("--gateway/--no-gateway", help="Run the Envoy gateway.")]
LogLevelOption = Annotated[str, typer.Option(help="debug, info, warning or error.")]


def up(
    config_file: ConfigOption = None,
    grpc: GrpcOption = None,
    rest: RestOption = None,
    executor: ExecutorOption = None,
    gateway: GatewayOption = None,
    log_level: LogLevelOption = "info",
) -> None:
    """Run the control plane: the gRPC server, the REST gateway, and the tab executor."""
    given = {"grpc": grpc, "rest": rest, "executor": executor, "gateway": gateway}
    flags: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    try:
        settings = config.load(config_file, flags)
        logs.configure(log_level)
    except (config.ConfigError, KeyError) as error:
        raise Failure(str(error)) from None
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except (StartError, GatewayError) as error:
        raise Failure(str(error)) from None


async def _serve(settings: config.Settings) -> None:
    app = App(settings)
    await app.start()
    _announce(settings)
    try:
        await app.run_until_signal()
    finally:
        await app.stop()


def _announce(settings: config.Settings) -> None:
    out = Console(highlight=False, soft_wrap=True)
    out.print(f"[bold]Taskyard[/bold] serves gRPC at [cyan]{settings.grpc}[/cyan]", end="")
    out.print(f" and REST at [cyan]http://{settings.rest}[/cyan]" if settings.gateway else "")
    if settings.executor is None and not settings.tabs:
        out.print("Tasks wait for runtime hosts (--executor URL forwards tab actions). Try:")
    else:
        out.print(f"Tab actions go to [cyan]{settings.executor or 'the instances of their tabs'}[/cyan]. Try:")
    task = '{"agentId":"me","action":"click","tabId":"t1"}'
    if settings.gateway:
        out.print(f"  curl -X POST http://{settings.rest}/tasks -H 'Content-Type: application/json' -d '{task}'")
    out.print(f"  grpcurl -plaintext -d '{task}' {settings.grpc} taskyard.v1.TaskService/SubmitTask")
