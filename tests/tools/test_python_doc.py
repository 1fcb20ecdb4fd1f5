"""docs/use/python.md has every public name of the Python SDK, each with its methods and arguments, and is current."""

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cases import every_case
from tools import python_doc

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/use/python.md").read_text()
MODULES = ("taskyard", *python_doc.MODULES)
HEADING = re.compile(r"^### (?:`(?:async )?)?(\w+)", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)`", re.MULTILINE)


def public_names(module: str) -> set[str]:
    """What a module offers."""
    found = importlib.import_module(module)
    if hasattr(found, "__all__"):
        return set(found.__all__)
    return {
        name
        for name, each in vars(found).items()
        if not name.startswith("_") and getattr(each, "__module__", "") == module and callable(each)
    }


def entries() -> dict[str, str]:
    """What the page says of each name."""
    starts = [*HEADING.finditer(PAGE)]
    ends = [match.start() for match in starts[1:]] + [len(PAGE)]
    return {match[1]: PAGE[match.start() : end] for match, end in zip(starts, ends, strict=True)}


def public_methods() -> Iterator[tuple[str, Any, str]]:
    """The methods that users call, each with its name and with what is said of its class and of the public bases."""
    told = entries()
    for module in MODULES:
        for name in sorted(public_names(module)):
            found = getattr(importlib.import_module(module), name)
            if not inspect.isclass(found) or issubclass(found, enum.Enum) or name in python_doc.BLOCKING:
                continue
            said = "".join(told.get(each.__name__, "") for each in found.__mro__)
            for method, function in inspect.getmembers(found, inspect.isfunction):
                is_ours = function.__module__.startswith("taskyard") and function.__doc__
                if method[0] != "_" and is_ours and not python_doc.INTERNAL.fullmatch(function.__qualname__):
                    yield f"{name}.{method}", function, said


METHODS = {name: (function, said) for name, function, said in public_methods()}


def test_every_public_name_stands_once():
    names = HEADING.findall(PAGE) + ROW.findall(PAGE)
    options = [path.rpartition(".")[2] for path in python_doc.OPTIONS]
    assert sorted(names) == sorted([*options, *(name for module in MODULES for name in public_names(module))])


@every_case("method", METHODS)
def test_every_method_is_told_with_its_arguments(method):
    function, said = METHODS[method]
    assert re.search(rf"^#### `(?:async )?{function.__name__}\(", said, re.MULTILINE)
    for argument in inspect.signature(function).parameters:
        assert argument in ("self", "agent") or re.search(rf"^- `\**{argument}`:", said, re.MULTILINE), argument


@every_case("name", python_doc.BLOCKING)
def test_a_blocking_class_names_its_methods(name):
    module = "taskyard" if hasattr(importlib.import_module("taskyard"), name) else "taskyard.testing"
    cls = getattr(importlib.import_module(module), name)
    methods = {each for each, _ in inspect.getmembers(cls, inspect.isfunction) if not each.startswith("_")}
    shown = set(re.findall(r"`(\w+)`", entries()[name].partition("Methods, ")[2]))
    assert {each for each in methods if not python_doc.INTERNAL.fullmatch(f"{name}.{each}")} - shown == set()


def test_old_names_are_not_told():
    assert "- `agent`:" not in PAGE
    assert "first_delay_ms" not in PAGE
