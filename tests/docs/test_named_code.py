"""The files and functions that documents name are there: a name that moves takes its mentions along."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.cases import every_case

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "server/taskyard_server"
DOCUMENTS = ["CONTRIBUTING.md", "docs/develop/design.md", "docs/develop/glossary.md", "docs/develop/testing.md"]
SPAN = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"([\w./-]+\.(?:py|lua|md|proto|sh|toml|yaml|json|txt))(?:: ([\w., ]+))?")
FOLDER = re.compile(r"[\w./-]+/")


def missing(markdown: str) -> list[str]:
    """What a document names in code spans, `path`, `folder/` or `path.py: Class.method, function`, and is not there."""
    text = re.sub(r"(?s)```.*?```", "", markdown)
    # A span over two lines would not be looked at.
    lost = [line for line in text.splitlines() if line.count("`") % 2]
    for span in SPAN.findall(text):
        if match := FILE.fullmatch(span):
            path = _found(match[1])
            if path is None:
                lost.append(span)
            elif match[2]:
                lost += [f"{match[1]}: {name}" for name in match[2].split(", ") if name not in _names_in(path)]
        elif FOLDER.fullmatch(span) and _found(span) is None:
            lost.append(span)
    return lost


def _found(name: str) -> Path | None:
    """A path below the server or the root; without a folder also anywhere."""
    for folder in (SERVER, ROOT):
        if (folder / name).exists():
            return folder / name
    return None


@cache
def _names_in(path: Path) -> frozenset[str]:
    """The classes, functions and constants of a module, and the methods of its classes as `Class.method`."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names |= {node.name, *(f"{node.name}.{its.name}" for its in node.body if isinstance(its, _FUNCTIONS))}
        elif isinstance(node, _FUNCTIONS):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return frozenset(names)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_names_is_there(document):
    assert missing((ROOT / document).read_text()) == []


@every_case(
    ("text", "lost"),
    [
        ("`core/task.py` `core/` `tools/histories.py` `docs/rules.md`", []),
        ("`core/task.py: Task.is_overdue, Task, LEGAL, TERMINAL`", []),
        ("`core/tasks.py` and `helpers/`", ["core/tasks.py", "helpers/"]),
        ("`core/task.py: Task.is_late, Job`", ["core/task.py: Task.is_late", "core/task.py: Job"]),
        ("`no code` `make test` `2.5` `a.b`", []),
        ("```\n`core/tasks.py`\n```", []),
        ("`core/task.py:\nTask`", ["`core/task.py:", "Task`"]),
    ],
)
def test_a_name_that_is_not_there_is_found(text, lost):
    assert missing(text) == lost
