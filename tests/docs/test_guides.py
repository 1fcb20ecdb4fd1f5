"""The guides for those who come from elsewhere: the side of Taskyard is a project, and what they say of it is true.

Its files are those of the page; the page's own tests run, and those in `tests/docs/guides/`.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import without_settings

pytestmark = pytest.mark.gate("a document that is followed as a reader would")

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# Taskyard: (\w+\.py)(, added)?\n(.*)", re.DOTALL)
GUIDES = {"celery": "# Celery\n", "temporal": "# Temporal\n", "rq": "# RQ\n", "hatchet": "# Hatchet\n"}
PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", "pytest_taskyard")
SETTINGS = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\npythonpath = .\n"
MOST_LINES = 150


def page(name: str) -> str:
    return (ROOT / f"docs/use/from_{name}.md").read_text()


@pytest.mark.parametrize("name", GUIDES)
def test_the_examples_pass_their_tests(name: str, tmp_path: Path) -> None:
    for block in BLOCK.findall(page(name)):
        if (file := FILE.fullmatch(block)) is not None:
            path = tmp_path / file[1]
            assert path.exists() == bool(file[2]), file[1]
            path.write_text(f"{path.read_text()}\n\n{file[3]}" if file[2] else file[3])
    (tmp_path / "test_what_is_said.py").write_text((ROOT / f"tests/docs/guides/{name}.py").read_text())
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--disable-plugin-autoload", *PLUGINS, "--strict-markers"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        env=without_settings() | {"PYTEST_ADDOPTS": ""},
        check=False,
    )
    written = sum(path.read_text().count("def test_") for path in tmp_path.glob("test_*.py"))
    assert written >= 8
    assert f"{written} passed in" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "theirs"), GUIDES.items())
def test_each_example_stands_beside_that_of_the_other_system(name: str, theirs: str) -> None:
    blocks = BLOCK.findall(page(name))
    assert len(blocks) % 2 == 0
    for theirs_block, ours in zip(blocks[::2], blocks[1::2], strict=True):
        assert theirs_block.startswith(theirs)
        assert FILE.fullmatch(ours)
        ast.parse(theirs_block)


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_is_short(name: str) -> None:
    assert page(name).count("\n") <= MOST_LINES
