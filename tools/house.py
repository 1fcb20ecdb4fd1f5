"""The shape of the server in figures: `make house` prints them, and `tests/architecture/test_house.py` holds them.

Each figure is a count of what makes a stranger lose the way. Lines are those of Python files.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = "taskyard_server"
SERVER: Final = ROOT / "server" / PACKAGE
CRUMB_LINES: Final = 30


def loose_files() -> int:
    """Files of the server that are in no room."""
    return len(list(_loose()))


def lines_of_loose_files() -> int:
    """The lines of these."""
    return sum(map(_lines, _loose()))


def loose_files_with_one_importer() -> int:
    """Those of them that one module imports, whose room they could be in."""
    return sum(len(_graph().find_modules_that_directly_import(f"{PACKAGE}.{file.stem}")) == 1 for file in _loose())


def files_of_the_core() -> int:
    """Files of `core/` in no room of it."""
    return len([file for file in (SERVER / "core").glob("*.py") if file.stem != "__init__"])


def modules_in_circles() -> int:
    """Modules that reach themselves by what they import, types included."""
    graph = _graph()
    return sum(
        any(
            graph.chain_exists(importer=other, imported=module)
            for other in graph.find_modules_directly_imported_by(module)
        )
        for module in graph.modules
    )


def attributes_of_lifecycle() -> int:
    """Public attributes of the class that all parts of the core's transitions are given."""
    (owner,) = [each for each in ast.walk(_tree(SERVER / "core/lifecycle.py")) if _is_class(each, "Lifecycle")]
    names = {
        node.attr
        for node in ast.walk(owner)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return len([name for name in names if not name.startswith("_")])


def files_that_take_a_lifecycle() -> int:
    """Files with a function that is given all of it."""
    return sum(
        any(isinstance(node, ast.arg) and _names(node.annotation, "Lifecycle") for node in ast.walk(_tree(file)))
        for file in _files(SERVER)
    )


def reaches_into_the_core() -> int:
    """Places outside `core/` that reach for a part through `.life.`."""
    outside = [file for file in _files(SERVER) if SERVER / "core" not in file.parents]
    return sum(len(re.findall(r"\.life\.", file.read_text())) for file in outside)


def places_of_a_new_field() -> int:
    """Rows of the recipe for a field of a task, in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    recipe = text.partition("## Adding a field to a task")[2].partition("\n## ")[0]
    return len(re.findall(r"^\| `", recipe, re.MULTILINE))


def class_names_that_stand_twice() -> int:
    """Names that more than one class of the server has."""
    names = Counter(
        node.name for file in _files(SERVER) for node in ast.walk(_tree(file)) if isinstance(node, ast.ClassDef)
    )
    return sum(count > 1 for count in names.values())


def crumbs() -> int:
    """Files of the server of so few lines that they could be a part of another, without those that are empty."""
    return sum(1 < _lines(file) <= CRUMB_LINES for file in _files(SERVER))


def lines_of_the_server() -> int:
    """All of it."""
    return sum(map(_lines, _files(SERVER)))


def lines_of_the_python_sdk() -> int:
    """All of it, without what is generated."""
    sdk = ROOT / "clients/python/taskyard"
    return sum(_lines(file) for file in _files(sdk) if sdk / "v1" not in file.parents)


def lines_of_the_tests() -> int:
    """All of them."""
    return sum(map(_lines, _files(ROOT / "tests")))


FIGURES: Final[tuple[Callable[[], int], ...]] = (
    loose_files,
    lines_of_loose_files,
    loose_files_with_one_importer,
    files_of_the_core,
    modules_in_circles,
    attributes_of_lifecycle,
    files_that_take_a_lifecycle,
    reaches_into_the_core,
    places_of_a_new_field,
    class_names_that_stand_twice,
    crumbs,
    lines_of_the_server,
    lines_of_the_python_sdk,
    lines_of_the_tests,
)


def measured() -> Mapping[str, int]:
    """All figures, by what they count."""
    return {figure.__name__.replace("_", " "): figure() for figure in FIGURES}


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(PACKAGE, cache_dir=None)


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*.py")) if "__pycache__" not in file.parts)


def _loose() -> Iterator[Path]:
    return (file for file in sorted(SERVER.glob("*.py")) if file.stem not in ("__init__", "__main__"))


def _lines(file: Path) -> int:
    return len(file.read_bytes().splitlines())


def _is_class(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == name


def _names(annotation: ast.expr | None, name: str) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id == name


def main() -> None:
    """Print the figures."""
    for name, figure in measured().items():
        sys.stdout.write(f"{name:<32} {figure:>8,}\n")


if __name__ == "__main__":
    main()
