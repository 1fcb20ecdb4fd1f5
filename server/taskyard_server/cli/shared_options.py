"""Options that several commands share: one function has them as its parameters, and commands get what it returns."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

Command = Callable[..., Any]


def with_options(
    parameter_name: str, provide: Callable[..., Any], *required: str, without: Sequence[str] = ()
) -> Callable[[Command], Command]:
    """Give a command the options of `provide` in the place of one of its parameters, which gets what that returns.

    The options named here are required; those in `without` are not offered.
    """
    options = {
        name: option.replace(kind=option.KEYWORD_ONLY, default=option.empty if name in required else option.default)
        for name, option in inspect.signature(provide).parameters.items()
        if name not in without
    }

    def extend(command: Command) -> Command:
        own = {
            name: parameter.replace(kind=parameter.KEYWORD_ONLY)
            for name, parameter in inspect.signature(command).parameters.items()
        }

        def extended(**given: Any) -> Any:
            value = provide(**{name: given.pop(name) for name in options})
            return command(**{parameter_name: value}, **given)

        parameters = [each for name in own for each in (options.values() if name == parameter_name else (own[name],))]
        # These two are what typer reads a command's options from.
        extended.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        extended.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        extended.__name__, extended.__doc__ = command.__name__, command.__doc__
        return extended

    return extend
