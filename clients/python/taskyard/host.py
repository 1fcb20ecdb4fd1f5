"""Runtime hosts in Python: register what runs an action, then run the host."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import grpc

from .actions import Actions, Handler
from .channel import call_metadata, check_address
from .host_run import HostOptions, HostRun

log = logging.getLogger("taskyard")

H = TypeVar("H", bound=Handler)

SAME_SIGNAL_SECS: Final = 1.0
"""What comes so soon after the first signal is the same one again: `timeout`, terminals and init processes signal the
whole group and then the process, too."""


class Host:
    """A runtime host: takes tasks from the server, up to `slots` at once, and runs their handlers.

    A handler takes a `RunningTask` and answers the task's result, a JSON value. An async one runs in the event loop and
    must not block it, since heartbeats go out from there; a plain function runs in a thread. An async handler is
    cancelled when its work is no longer wanted: the task was cancelled, paused or is past its deadline, or its lease is
    lost, be it that the server cannot be reached for longer than leases live.

    `address` is `HOST:PORT`. `host_id` must be this host's alone. `project` limits it to the tasks of one project.
    `lease_secs`, 1 to 3,600, is the length of its leases, by default the server's. `credentials` encrypt the
    connection, and `token` goes with every call as a bearer token, also where nothing is encrypted. `drain_grace_secs`
    is how long what runs may take when the host is told to stop. `machine_figures` has it report the use of processors
    and memory. With `install_signal_handlers`, SIGTERM and SIGINT drain it while it runs. Raises ValueError for an
    address, a namespace or a token that can never work.
    """

    def __init__(
        self,
        address: str,
        host_id: str,
        *,
        slots: int = 10,
        capabilities: Sequence[str] = (),
        namespace: str = "default",
        project: str | None = None,
        labels: Mapping[str, str] | None = None,
        lease_secs: int | None = None,
        display_name: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | None = None,
        drain_grace_secs: float = 30.0,
        machine_figures: bool = True,
        install_signal_handlers: bool = True,
    ) -> None:
        if slots < 1:
            raise ValueError("slots: must be at least 1")
        if isinstance(capabilities, str):
            raise TypeError("capabilities: is a sequence of names, not one name")
        check_address(address)
        call_metadata(namespace, token)
        self._options = HostOptions(
            address=address,
            host_id=host_id,
            slots=slots,
            capabilities=capabilities,
            namespace=namespace,
            project=project,
            labels=dict(labels or {}),
            lease_secs=lease_secs,
            display_name=display_name,
            credentials=credentials,
            token=token,
            drain_grace_secs=drain_grace_secs,
            machine_figures=machine_figures,
        )
        self._install_signal_handlers = install_signal_handlers
        self._actions = Actions()
        self._run: HostRun | None = None

    def action(self, name: str | None = None) -> Callable[[H], H]:
        """Decorates the handler of an action, by default the one that has the function's name.

        Raises ValueError if the action has a handler already, TypeError if it is used without brackets.
        """
        if name is not None and not isinstance(name, str):
            raise TypeError("write @host.action() or @host.action('name')")

        def register(handler: H) -> H:
            named: Any = handler
            self._actions.add(name or named.__name__, handler)
            return handler

        return register

    def any_action(self, handler: H) -> H:
        """Decorates the handler of all actions without one of their own. With it the host takes every action."""
        self._actions.add_any(handler)
        return handler

    async def run(self) -> None:
        """Connect, work, reconnect whenever the connection is lost, and end when the host has drained.

        Raises `TaskyardError` when the server refuses the host for good: `bad_request`, `unauthenticated`,
        `permission_denied`, or `conflict` where another stream of this very host has taken its place. Raises ValueError
        if there are no handlers, RuntimeError if the host runs already.
        """
        if not self._actions:
            raise ValueError("the host has no handlers: decorate some with @host.action()")
        if self._run is not None:
            raise RuntimeError("the host runs already")
        self._run = HostRun(self._options, self._actions)
        try:
            with self._signals():
                await self._run.run()
        finally:
            self._run = None

    def drain(self) -> None:
        """Take nothing new, finish what runs within the grace period, then have `run` end. Call it in the event loop.

        What still runs at the end of the grace period is cancelled and given back, so that another host takes it. A
        plain function that does not return then is left behind; Python waits for its thread when the process ends.
        """
        if self._run is not None:
            self._run.drain()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """While the host runs, a first signal drains it and a second one ends the process."""
        loop = asyncio.get_running_loop()
        taken: dict[signal.Signals, Any] = {}
        first: list[asyncio.TimerHandle] = []

        def on_signal() -> None:
            if not first:
                log.info("told to stop; another signal ends the process at once")
                first.append(loop.call_later(SAME_SIGNAL_SECS, let_go))
                self.drain()

        def let_go() -> None:
            for number in taken:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL)

        # Only the main thread may take signals, and not every system has them.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            for number in (signal.SIGTERM, signal.SIGINT) if self._install_signal_handlers else ():
                before = signal.getsignal(number)
                loop.add_signal_handler(number, on_signal)
                taken[number] = before
        try:
            yield
        finally:
            for timer in first:
                timer.cancel()
            let_go()
            for number, before in taken.items():
                if before is not None:
                    signal.signal(number, before)
