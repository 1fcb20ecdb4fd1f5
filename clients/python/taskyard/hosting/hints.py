"""The annotations of the functions that users write."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_args, get_origin


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Read the annotations of a function, as far as they can be read: a name that is imported for checkers only cannot.

    Args:
        function: The function.

    Returns:
        The types by parameter, and that of what it returns under `return`.
    """
    target: Any = inspect.unwrap(function)
    while hasattr(target, "func"):
        target = target.func
    if not inspect.isroutine(target):
        target = type(target).__call__
    hints = {}
    for name, hint in getattr(target, "__annotations__", {}).items():
        if isinstance(hint, str):
            try:
                # As typing.get_type_hints does, but one by one.
                hint = eval(hint, getattr(target, "__globals__", {}))
            except Exception:
                continue
        hints[name] = hint
    return hints


def return_type_of(function: Callable[..., Any]) -> Any:
    """Find the type of what a function returns.

    Args:
        function: The function, plain or async.

    Returns:
        The type, of what is awaited if that is what it says; `Any` if it is not annotated, or cannot be read.
    """
    hint = hints_of(function).get("return", Any)
    is_awaited = isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Awaitable)
    return get_args(hint)[-1] if is_awaited else hint
