"""The names of `taskyard`: each is there, and is imported when it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import taskyard
from tests.cases import every_case

SOURCE = Path(taskyard.__file__).read_text()


def test_type_checkers_see_the_names_that_there_are():
    (shown,) = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.If)]
    seen = {node.module: tuple(sorted(each.name for each in node.names)) for node in shown.body}
    assert seen == taskyard._PLACES
    assert sorted(taskyard.__all__) == sorted(name for names in seen.values() for name in names)
    assert taskyard.__all__ == sorted(taskyard.__all__)


@every_case("name", taskyard.__all__)
def test_every_name_is_there(name):
    assert getattr(taskyard, name).__name__ == name
    assert name in dir(taskyard)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="module 'taskyard' has no attribute 'Nothing'"):
        taskyard.Nothing  # noqa: B018
    assert taskyard.errors.QueueFull is taskyard.QueueFull


def test_what_handlers_import_needs_no_grpc():
    program = "import sys\nfrom taskyard import Action, Host, RunningTask\nHost('127.0.0.1:1', 'h')\n"
    program += "assert 'grpc' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
