"""Runtime hosts in Python: register what runs an action, then run the host."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from .action import Action
from .connection.credentials import Addresses, CredentialOptions, find_credentials
from .hosting.actions import Actions, Handler, Lifespan, Middleware, RunsIn
from .hosting.options import HostOptions, Slots, checked_slots
from .hosting.registering import I, O, Registering
from .hosting.signals import draining_by_signals
from .values.convert import Span, seconds, whole_seconds
from .values.payloads import Codec
from .workers import current_process

if TYPE_CHECKING:
    from .hosting.host_run import HostRun

H = TypeVar("H", bound=Handler)
M = TypeVar("M", bound=Middleware)

DEFAULT_DRAIN_GRACE: Final = timedelta(seconds=30)


class Host:
    """A runtime host: takes tasks from the server, up to `slots` at once, and runs their handlers.

    A handler of a typed action (`handles`) takes its input and returns its output, one of a named action (`action`)
    takes a `RunningTask` and returns the task's result, a JSON value. It runs

    - in the event loop if it is an async function, which must not block it, since the others wait then,
    - in a thread if it is a plain one,
    - with `runs_in="process"` in a worker process: for what takes the processor for long, or may crash.

    Heartbeats are sent from a thread of their own, whatever handlers do, unless one holds the interpreter.

    Its work may be wanted no longer: the task was cancelled, paused or is past its deadline, or its lease is lost, for
    example because the server cannot be reached for longer than leases live. In the loop it is cancelled then, in a
    thread its `RunningTask.cancelled` is set, and its worker process is ended.

    Args:
        address: Where the server listens: `HOST:PORT`, `https://HOST:PORT`, or a target of gRPC. Several servers that
            do the same work: their addresses in one text, separated by commas, or in a list. None for TASKYARD_ADDRESS,
            that of the profile, or `127.0.0.1:50051`.
        host_id: The host's id, which no other host may have.
        slots: How many tasks it runs at once; or how many of each action, with `"*"` for all others; or `"auto"`, one
            for each core that this process may use. Default 10. Where they are divided, each action has a stream of its
            own under an id of its own, such as `host-1/crawl`, and `"*"` has the host's.
        capabilities: What it can do. It is assigned tasks that require a subset of it. Default none.
        namespace: The namespace to act in. Default TASKYARD_NAMESPACE, that of the profile, or `default`.
        project: Only tasks of this project. Default all.
        labels: Labels for people and tools. Default none.
        lease: The length of its leases, whole seconds from 1 to 3,600. Default the server's.
        display_name: A name for people. Default none.
        drain_grace: How long running tasks may take to end once the host drains. Default 30 s.
        machine_figures: Whether it reports the use of processors and memory. Default True.
        lifespan: Makes a context manager, async or not, that is open while handlers run; what it yields is their
            `task.state`, a dict as an object with its items as attributes. Each worker process has its own. Default
            none.
        codec: Decodes inputs and encodes outputs, as the clients' codec does. Default none.
        middleware: What is called around each handler, the outermost first, see `middleware`. Default none.
        lease_secs: Deprecated, use `lease`.
        drain_grace_secs: Deprecated, use `drain_grace`.
        install_signal_handlers: Deprecated, use `run(handle_signals=...)`.
        **access: Who it is, and how the connection is encrypted, see `CredentialOptions`. Default what the environment
            or a profile says.

    Raises:
        ValueError: There are no slots, the address, the namespace or a token is malformed, a file cannot be read, or
            the token would be sent in the clear to another machine.
        TypeError: There is no host id, slots are no numbers, or `capabilities` is one name instead of several.
    """

    def __init__(
        self,
        address: Addresses = None,
        host_id: str | None = None,
        *,
        slots: Slots = 10,
        capabilities: Sequence[str] = (),
        namespace: str | None = None,
        project: str | None = None,
        labels: Mapping[str, str] | None = None,
        lease: Span | None = None,
        display_name: str | None = None,
        drain_grace: Span = DEFAULT_DRAIN_GRACE,
        machine_figures: bool = True,
        lifespan: Lifespan | None = None,
        codec: Codec | None = None,
        middleware: Sequence[Middleware] = (),
        lease_secs: int | None = None,
        drain_grace_secs: float | None = None,
        install_signal_handlers: bool | None = None,
        **access: Unpack[CredentialOptions],
    ) -> None:
        if not isinstance(host_id, str) or not host_id:
            raise TypeError("host_id: is needed: Host(address, 'host-1'), or Host(host_id='host-1')")
        if lease_secs is not None:
            _deprecated("lease_secs", "lease=timedelta(seconds=...)")
            lease = lease_secs
        if drain_grace_secs is not None:
            _deprecated("drain_grace_secs", "drain_grace=timedelta(seconds=...)")
            drain_grace = drain_grace_secs
        if install_signal_handlers is not None:
            _deprecated("install_signal_handlers", "run(handle_signals=...)")
        if isinstance(capabilities, str):
            raise TypeError("capabilities: is a sequence of names, not one name")
        credentials = find_credentials(address, namespace, **access)
        credentials.check_files()
        self._options = HostOptions(
            credentials=credentials,
            host_id=host_id,
            slots=checked_slots(slots),
            capabilities=capabilities,
            project=project,
            labels=dict(labels or {}),
            lease_secs=None if lease is None else whole_seconds(lease, "lease"),
            display_name=display_name,
            drain_grace_secs=seconds(drain_grace),
            machine_figures=machine_figures,
        )
        self._handles_signals = bool(install_signal_handlers)
        self._actions = Actions(lifespan, codec)
        self._actions.middleware += middleware
        self._run: HostRun | None = None

    def handles(
        self, action: Action[I, O], *, runs_in: RunsIn | None = None, capture_output: bool = False
    ) -> Registering[I, O]:
        """Register the decorated function as the handler of a typed action.

        The function takes the input, or the input and a `RunningTask`, and returns the output. Its keyword-only
        parameters are the `inputs` of the task, results of other tasks, in their annotated types. What does not fit its
        type, or has no value and no default, fails the task before the function is called, with the code `bad_input`.

        Args:
            action: The action.
            runs_in: `loop`, `thread` or `process`. Default the loop for an async function, a thread for a plain one.
            capture_output: Whether what its process, and what that starts, write to standard output and standard error
                is output of the task, in the channels `stdout` and `stderr`. Only with `process`. Default False.

        Returns:
            The decorator, which returns the function unchanged. It raises ValueError if the action has a handler
            already, and TypeError if the annotations of the function are not the action's types, or it cannot run
            there: a process imports it by its name.

        Raises:
            TypeError: The action has no types, or is none.
        """
        if not isinstance(action, Action):
            raise TypeError(f"write @host.handles(action) with an Action, not {action!r}; @host.action() takes names")
        return Registering(self._actions, action, runs_in, capture_output)

    def action(
        self, name: str | None = None, *, runs_in: RunsIn | None = None, capture_output: bool = False
    ) -> Callable[[H], H]:
        """Register the decorated function as the handler of an action. It takes a `RunningTask`, and inputs by keyword.

        Args:
            name: The action. Default the name of the function.
            runs_in: As for `handles`. Default the loop for an async function, a thread for a plain one.
            capture_output: As for `handles`. Default False.

        Returns:
            The decorator, which returns the function unchanged. It raises ValueError if the action has a handler
            already, and TypeError if the function is annotated to return what is no JSON, or it cannot run there.

        Raises:
            TypeError: It is used without brackets.
        """
        if name is not None and not isinstance(name, str):
            raise TypeError("write @host.action() or @host.action('name')")

        def register(handler: H) -> H:
            function: Any = handler
            self._actions.add(name or function.__name__, handler, runs_in=runs_in, capture_output=capture_output)
            return handler

        return register

    def middleware(self, middleware: M) -> M:
        """Register the decorated function as what is called around each handler, within those registered before it.

        It is `async def (task, call_next)`: it returns `await call_next(task)`, or something else in its place, and may
        raise what a handler may raise. It runs where the handler runs: for threads in the loop, for processes there.

        Args:
            middleware: The function.

        Returns:
            The function unchanged.

        Raises:
            TypeError: It is no async function.
        """
        if not inspect.iscoroutinefunction(middleware) and not inspect.iscoroutinefunction(type(middleware).__call__):
            raise TypeError(f"a middleware is `async def (task, call_next)`, not {middleware!r}")
        self._actions.middleware.append(middleware)
        return middleware

    def any_action(self, handler: H) -> H:
        """Register the decorated function as the handler of all actions without one of their own.

        With it the host takes tasks of every action.

        Args:
            handler: The function.

        Returns:
            The function unchanged.

        Raises:
            ValueError: There is such a handler already.
        """
        self._actions.add_any(handler)
        return handler

    async def run(self, *, handle_signals: bool = False) -> None:
        """Connect, work, reconnect whenever the connection is lost, and return when the host has drained.

        Args:
            handle_signals: Whether SIGTERM and SIGINT drain it, and with it all hosts of the program that take them; a
                second signal ends the process. What handled them before does so again at the end. Default False.

        Raises:
            TaskyardError: The server refuses the host for good: `bad_request`, `unauthenticated`, `permission_denied`,
                `unimplemented`, or `conflict` if another stream of this very host has replaced its stream.
            ValueError: The host has no handlers, or its slots do not fit them.
            RuntimeError: The host runs already, its event loop was stopped, it is to handle signals outside of the main
                thread, or a worker process cannot be set up, or this is one: then the program runs the host without
                `if __name__ == "__main__":`.
            TypeError: The lifespan, the middleware or the codec cannot be found again in a worker process.
            Exception: What the lifespan raises.
        """
        if current_process.is_worker:
            raise RuntimeError('a worker process runs no host: begin what runs it with `if __name__ == "__main__":`')
        if not self._actions:
            raise ValueError("the host has no handlers: decorate some with @host.action()")
        if self._run is not None:
            raise RuntimeError("the host runs already")
        # Worker processes import hosts and never run one: they need no grpc.
        from .hosting.host_run import HostRun

        self._run = HostRun(self._options, self._actions)
        takes_signals = handle_signals or self._handles_signals
        try:
            with draining_by_signals(self.drain) if takes_signals else nullcontext():
                await self._run.run()
        finally:
            self._run.discard()
            self._run = None

    def drain(self) -> None:
        """Take no more tasks, finish what runs within the grace period, then let `run` return.

        Any thread may call it. Handlers that still run after the grace period are cancelled and their tasks given
        back, so that another host takes them. A plain function that does not return then is left running; Python waits
        for its thread when the process ends.
        """
        run = self._run
        if run is not None:
            run.drain()


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated: use {instead}", DeprecationWarning, stacklevel=3)
