"""Checks of a handler's annotations when it is registered: sooner than after its first work."""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin

from taskyard.values.shapes import shape_of

from .hints import hints_of
from .running_task import RunningTask

JSON_CLASSES: Final = (type(None), bool, int, float, str, list, tuple, dict, Mapping)
TASK_NAMES: Final = frozenset({"task", "_task"})


class InputParameter(NamedTuple):
    """A parameter of a handler that takes an input of its task: the name, the type, and whether it has no default."""

    name: str
    kind: Any
    is_required: bool


def inputs_of(function: Callable[..., Any], name: str) -> tuple[InputParameter, ...]:
    """List the inputs that a handler takes: its keyword-only parameters.

    Args:
        function: The handler.
        name: The action, for the error.

    Returns:
        The parameters.

    Raises:
        TypeError: The type of one without a default cannot be sent, or its annotation cannot be read.
    """
    found = []
    for each in _parameters(function) or []:
        if each.kind is not each.KEYWORD_ONLY:
            continue
        kind = Any if each.annotation is each.empty else hints_of(function).get(each.name, each.annotation)
        is_required = each.default is each.empty
        if is_required:
            try:
                if isinstance(kind, str):
                    raise TypeError(f"{kind!r} names nothing in the module of the handler")
                shape_of(kind)
            except TypeError as error:
                raise TypeError(f"the handler of {name!r} takes the input {each.name}: {error}") from None
        found.append(InputParameter(each.name, kind, is_required))
    return tuple(found)


def takes_task(function: Callable[..., Any], name: str) -> bool:
    """Find out whether the handler of a typed action takes the task beside the input.

    Args:
        function: The handler.
        name: The action, for the error.

    Returns:
        Whether it does.

    Raises:
        TypeError: It can be called neither with the input nor with the input and the task.
    """
    parameters = _parameters(function)
    if parameters is None:
        return False
    positional = _positional(parameters)
    needed = [each for each in positional if each.default is each.empty]
    keywords = [each for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    takes_more = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    if any(each.name in TASK_NAMES for each in keywords) or len(needed) > 2 or not (positional or takes_more):
        raise TypeError(f"the handler of {name!r} takes (input) or (input, task), not {_signature(function)}")
    if len(needed) == 2:
        return True
    return len(positional) > 1 and (positional[1].name in TASK_NAMES or _hint(function, positional[1]) is RunningTask)


def check_typed(function: Callable[..., Any], name: str, input_type: Any, output_type: Any) -> None:
    """Check the annotations of a handler against the types of its action. What is not annotated is not checked.

    Args:
        function: The handler.
        name: The action, for the error.
        input_type: The type of the action's input.
        output_type: The type of its output.

    Raises:
        TypeError: An annotation is another type than the action's.
    """
    for parameter, kind in zip(_positional(_parameters(function) or []), (input_type, RunningTask), strict=False):
        hint = _hint(function, parameter)
        is_option = kind is RunningTask and parameter.default is not parameter.empty
        if hint is not parameter.empty and not is_option and not _takes(hint, kind):
            raise TypeError(
                f"the handler of {name!r} takes {parameter.name}: {_name(hint)}, but gets {_name(kind)}"
                + (" by its action" if kind is input_type else "")
            )
    hint = hints_of(function).get("return", inspect.Parameter.empty)
    if hint is not inspect.Parameter.empty and not _takes(output_type, hint):
        raise TypeError(f"the handler of {name!r} returns {_name(hint)}, but its action has {_name(output_type)}")


def check_untyped(function: Callable[..., Any], name: str) -> None:
    """Check that a handler without a typed action is not annotated to return what is no JSON.

    Args:
        function: The handler.
        name: The action, for the error.

    Raises:
        TypeError: It is.
    """
    hint = hints_of(function).get("return", inspect.Parameter.empty)
    bad = None if hint is inspect.Parameter.empty else _not_json(hint)
    if bad is not None:
        raise TypeError(
            f"the handler of {name!r} returns {_name(bad)}, which is no JSON: give the action its types, "
            f"Action[Input, {_name(hint)}]({name!r}), and register it by @host.handles(...)"
        )


def _takes(wide: Any, narrow: Any) -> bool:
    """True if a place of one type takes values of another, as far as it can be told."""
    wide, narrow = _bare(wide), _bare(narrow)
    if wide == narrow or any(each is Any or isinstance(each, typing.TypeVar) for each in (wide, narrow)):
        return True
    if wide in (object, typing.NoReturn) or narrow in (typing.NoReturn, typing.Never):
        return True
    if _is_union(narrow):
        return all(_takes(wide, each) for each in get_args(narrow))
    if _is_union(wide):
        return any(_takes(each, narrow) for each in get_args(wide))
    if get_origin(narrow) is Literal:
        known = get_args(wide) if get_origin(wide) is Literal else ()
        return all(each in known or _takes(wide, type(each)) for each in get_args(narrow))
    if hasattr(narrow, "__supertype__"):
        return _takes(wide, narrow.__supertype__)
    if wide is float and narrow is int:
        # For type checkers, too, a whole number is a number.
        return True
    try:
        return issubclass(_class(narrow), _class(wide)) and _takes_items(wide, narrow)
    except TypeError:
        # TypedDicts, protocols and the like are told apart by being the same or not.
        return False


def _takes_items(wide: Any, narrow: Any) -> bool:
    """True if the items of a container fit those of another, as a `list[int]` those of a `Sequence[int]`."""
    items, given = get_args(wide), get_args(narrow)
    if _class(narrow) is tuple and _class(wide) is not tuple and len(items) == 1:
        return all(each is ... or _takes(items[0], each) for each in given)
    return len(items) != len(given) or all(map(_takes, items, given))


def _bare(hint: Any) -> Any:
    """A type without what is said about it."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return type(None) if hint is None else hint


def _not_json(hint: Any) -> Any:
    """The class within a type that is surely no JSON, None if there is none."""
    if _is_union(hint) or get_origin(hint) in (list, tuple, dict):
        return next((bad for each in get_args(hint) if (bad := _not_json(each)) is not None), None)
    if hint is Any or not isinstance(hint, type) or isinstance(hint, types.GenericAlias) or typing.is_typeddict(hint):
        return None
    try:
        fits = any(issubclass(hint, each) or issubclass(each, hint) for each in JSON_CLASSES)
    except TypeError:
        return None
    return None if fits else hint


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        # Some functions that are written in C have no signature.
        return None


def _positional(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    return [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    return hints_of(function).get(parameter.name, inspect.Parameter.empty)


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (typing.Union, types.UnionType)


def _class(hint: Any) -> Any:
    return get_origin(hint) or hint


def _signature(function: Callable[..., Any]) -> str:
    return str(inspect.signature(function))


def _name(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) and not get_args(hint) else str(hint)
