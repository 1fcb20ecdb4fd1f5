"""The command line: its commands, and how they fail.

Every error is one line on standard error and exit code 1.
"""

import os
import sys

# grpc would write to standard error beside our one line.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# The server starts Envoy as a child while it serves. The fork handlers of grpc break busy connections, and only a child
# that runs grpc would need them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import typer

from . import (
    bulk,
    host,
    hosts,
    interruptions,
    namespaces,
    operations,
    replicas,
    rules,
    schedules,
    store,
    targets,
    tasks,
    tokens,
    triggers,
    up,
    waiting,
    watch,
)
from .failure import Failure

app = typer.Typer(
    name="taskyard",
    help="Queue, lease and track tasks for fleets of agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(up.up)
app.command()(tasks.submit)
app.command()(tasks.get)
app.command("list")(tasks.list_tasks)
app.command()(tasks.cancel)
app.command()(interruptions.pause)
app.command()(interruptions.resume)
app.command()(interruptions.resolve)
app.add_typer(bulk.app, name="bulk")
app.add_typer(operations.app, name="operations")
app.command()(targets.targets)
app.add_typer(rules.limits, name="limits")
app.add_typer(rules.weights, name="weights")
app.command()(rules.fairness)
app.add_typer(namespaces.app, name="namespace")
app.add_typer(schedules.app, name="schedule")
app.add_typer(schedules.app, name="schedules", hidden=True)
app.command()(triggers.triggers)
app.command()(waiting.why)
app.command()(waiting.demand)
app.command()(watch.watch)
app.command()(tasks.stats)
app.command()(hosts.hosts)
app.command()(hosts.drain)
app.add_typer(host.app, name="host")
app.add_typer(replicas.app, name="replicas")
app.add_typer(store.app, name="store")
app.add_typer(tokens.app, name="token")
app.command()(tokens.whoami)


def main() -> None:
    """The entry point of the `taskyard` script."""
    try:
        sys.exit(app(standalone_mode=False))
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except Failure as error:
        problem = str(error)
    except typer.Abort:
        problem = "aborted"
    except Exception as error:
        # Only usage errors have this method. Anything else is a bug, and its traceback helps to find it.
        if not hasattr(error, "format_message"):
            raise
        problem = error.format_message()
    if problem:  # It is empty if the help was shown.
        print(f"taskyard: {problem}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
