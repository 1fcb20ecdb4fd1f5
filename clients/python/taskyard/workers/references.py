"""How a function is named so that a worker process finds it again, and which functions cannot be."""

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

MAIN: Final = "__main__"


def reference(function: Callable[..., Any], name: str) -> str:
    """Name a function.

    Args:
        function: The function.
        name: The action that it handles, for the error.

    Returns:
        Its module and its name in there, `module:qualname`.

    Raises:
        TypeError: A worker process could not find it: it is a lambda, a closure, a bound method or another object, or
            its module is a `__main__` that cannot be imported.
    """
    start = f"the handler of {name!r} runs in a process, which imports it by its name:"
    if not inspect.isfunction(function):
        raise TypeError(f"{start} it must be a function, not {function!r}")
    path = function.__qualname__
    if function.__name__ == "<lambda>":
        raise TypeError(f"{start} a lambda has none; write a function of a module")
    if "<locals>" in path:
        raise TypeError(f"{start} {path} is made in another function; write it at the top of a module")
    if function.__module__ == MAIN:
        _check_main(start)
    return f"{function.__module__}:{path}"


def resolve(name: str) -> Any:
    """Find what `reference` has named.

    Args:
        name: `module:qualname`.

    Returns:
        The function.

    Raises:
        ImportError: The module cannot be imported, or has nothing of that name.
    """
    module_name, _, path = name.partition(":")
    found: Any = importlib.import_module(module_name)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ImportError(f"module {module_name} has no {path}: decorators must leave the function under its name")
        found = getattr(found, part)
    return found


def main_program() -> tuple[str, str] | None:
    """Say how a worker process imports the main program, as `multiprocessing` does when it spawns.

    Returns:
        `module` and its name, or `path` and the file; None if the main program is neither.
    """
    main = sys.modules[MAIN]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return "module", spec.name
    file = getattr(main, "__file__", None)
    return None if file is None else ("path", str(Path(file).resolve()))


def _check_main(start: str) -> None:
    file = getattr(sys.modules[MAIN], "__file__", None)
    if file is None or not Path(file).is_file():
        raise TypeError(f"{start} the main program has no file to import; write it in a module")
    if not _is_guarded(file):
        raise TypeError(
            f"{start} importing {Path(file).name} would run the program again. Begin what it runs with "
            f'`if __name__ == "__main__":`, or write the handler in a module of its own'
        )


@functools.cache
def _is_guarded(file: str) -> bool:
    """True if a program has an `if __name__ == "__main__"` at its top."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    tests = [node.test for node in tree.body if isinstance(node, ast.If)]
    return any(
        isinstance(test, ast.Compare)
        and {ast.unparse(each).strip("'\"") for each in (test.left, *test.comparators)} == {"__name__", MAIN}
        for test in tests
    )
