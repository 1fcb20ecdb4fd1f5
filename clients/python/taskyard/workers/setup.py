"""How a worker process is set up: what it imports, and the handlers that it runs."""

import contextlib
import logging
import os
import pickle
import sys
from dataclasses import dataclass, replace
from typing import Any

from taskyard.hosting.actions import Actions, Registered

from .references import MAIN, main_program, reference


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of a worker process. It holds nothing that must be imported first.

    Attributes:
        sys_path: Where modules are found.
        argv: The arguments of the program.
        folder: The working directory.
        main: How the main program is imported, see `main_program`. None if that is not needed.
        levels: The levels of loggers by name, that of the root under the empty name.
        body: A pickled `Body`.
    """

    sys_path: list[str]
    argv: list[str]
    folder: str
    main: tuple[str, str] | None
    levels: dict[str, int]
    body: bytes


@dataclass(frozen=True, slots=True)
class Body:
    """The handlers, and the parts around them.

    Attributes:
        handlers: The handlers by action. Their functions are names, see `references.reference`.
        any_action: The handler of all other actions, None if it does not run in processes.
        lifespan: Makes the context that is open while the worker lives, None for none.
        middleware: What is called around each handler.
        codec: The codec of the host, None for none.
        access: The pickled `Credentials` for artifacts and steps, empty if there are none.
    """

    handlers: dict[str, Registered]
    any_action: Registered | None
    lifespan: Any
    middleware: list[Any]
    codec: Any
    access: bytes


def setup_of(actions: Actions, credentials: Any = None) -> bytes | None:
    """Build what a worker process is told at its start.

    Args:
        actions: The handlers of the host.
        credentials: By what the server is reached for artifacts and steps. Default it is not.

    Returns:
        The setup, pickled. None if no handler runs in processes.

    Raises:
        TypeError: The lifespan, the middleware or the codec cannot be found again in another process.
    """
    handlers, any_action = actions.of_processes()
    if not handlers and any_action is None:
        return None
    for what, value in (("lifespan", actions.lifespan), ("middleware", actions.middleware), ("codec", actions.codec)):
        try:
            pickle.dumps(value)
        except Exception as error:
            text = f"{what}: cannot be sent to worker processes; write it at the top of a module: {error}"
            raise TypeError(text) from error
    named = {name: _by_name(name, each) for name, each in handlers.items()}
    any_named = None if any_action is None else _by_name("any action", any_action)
    body = pickle.dumps(
        Body(named, any_named, actions.lifespan, actions.middleware, actions.codec, _access(credentials))
    )
    # What is pickled names its module.
    main = main_program() if MAIN.encode() in body else None
    levels = {"": logging.root.level}
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET:
            levels[name] = logger.level
    return pickle.dumps(Setup(sys.path.copy(), sys.argv.copy(), os.getcwd(), main, levels, body))


def _access(credentials: Any) -> bytes:
    # Credentials of gRPC itself stay in their process.
    with contextlib.suppress(Exception):
        return b"" if credentials is None else pickle.dumps(credentials)
    return b""


def _by_name(name: str, handler: Registered) -> Registered:
    return replace(handler, function=reference(handler.function, name))
