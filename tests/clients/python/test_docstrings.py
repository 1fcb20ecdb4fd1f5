"""Public functions and classes of the SDK document their parameters, results and attributes.

Ruff checks the form of docstrings, and that a list of parameters is complete; not that there is one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.cases import every_case

SDK = Path(__file__).parents[3] / "clients" / "python" / "taskyard"
BEHIND = {"contrib", "hosting", "testing", "v1", "workers"}
"""The rooms that have other rules, or none."""
MODULES = sorted(file for file in SDK.rglob("*.py") if file.relative_to(SDK).parts[0] not in BEHIND)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(module: Path) -> Iterator[tuple[str, Function]]:
    """The public functions and methods of a module, without properties."""
    tree = ast.parse(module.read_text())
    for node in tree.body:
        if isinstance(node, Function):
            yield node.name, node
        for method in node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else ():
            if isinstance(method, Function) and not is_property(method) and not is_overload(method):
                yield f"{node.name}.{method.name}", method


def classes(module: Path) -> Iterator[ast.ClassDef]:
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node


def is_property(method: Function) -> bool:
    return any(ast.unparse(decorator).endswith(("property", ".setter")) for decorator in method.decorator_list)


def is_overload(method: Function) -> bool:
    """True if it only declares one of the forms of a call, which are documented together."""
    return any(ast.unparse(decorator) == "overload" for decorator in method.decorator_list)


def parameters(function: Function) -> list[str]:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    names += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    names += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return [name for name in names if name not in ("self", "cls")]


def documented(node: Function | ast.ClassDef, section: str) -> list[str]:
    """The names that a section of the docstring describes."""
    docstring = ast.get_docstring(node) or ""
    found = re.search(rf"^{section}:\n((?:    .*\n|\n)+)", docstring + "\n", re.MULTILINE)
    return re.findall(r"^    (\*{0,2}\w+): \S", found[1], re.MULTILINE) if found else []


def fields(node: ast.ClassDef) -> list[str]:
    """The fields of a dataclass, none for another class."""
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return []
    return [
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]


@every_case("module", MODULES, ids=lambda module: module.stem)
def test_every_parameter_of_a_public_function_is_documented_in_order(module: Path) -> None:
    for name, function in functions(module):
        if not function.name.startswith("_"):
            assert documented(function, "Args") == parameters(function), f"{module.name}: {name}"


@every_case("module", MODULES, ids=lambda module: module.stem)
def test_every_public_function_says_what_it_returns(module: Path) -> None:
    for name, function in functions(module):
        returns = "None" if function.returns is None else ast.unparse(function.returns)
        if not function.name.startswith("_") and returns != "None":
            docstring = ast.get_docstring(function) or ""
            assert re.search(r"^(Returns|Yields):\n    \S", docstring, re.MULTILINE), f"{module.name}: {name}"


@every_case("module", MODULES, ids=lambda module: module.stem)
def test_every_public_function_names_the_errors_that_it_raises(module: Path) -> None:
    for name, function in functions(module):
        raises = any(isinstance(node, ast.Raise) for node in ast.walk(function))
        if not function.name.startswith("_") and raises:
            assert documented(function, "Raises"), f"{module.name}: {name}"


@every_case("module", MODULES, ids=lambda module: module.stem)
def test_every_public_class_documents_how_it_is_created(module: Path) -> None:
    for node in classes(module):
        constructors = [each for each in node.body if isinstance(each, Function) and each.name == "__init__"]
        expected = [name for constructor in constructors for name in parameters(constructor)]
        assert documented(node, "Args") == expected, f"{module.name}: {node.name}"


@every_case("module", MODULES, ids=lambda module: module.stem)
def test_every_field_of_a_public_dataclass_is_documented_in_order(module: Path) -> None:
    for node in classes(module):
        if node.name != "HostOptions":
            assert documented(node, "Attributes") == fields(node) or not fields(node), f"{module.name}: {node.name}"


def test_there_are_modules_to_check() -> None:
    assert len(MODULES) > 20
