"""Docstrings begin with a noun or a verb: what a thing is, or does (CONTRIBUTING.md, Rules)."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("server/taskyard_server", "clients/python/taskyard", "clients/python/pytest_taskyard")
RIDDLES = ("What ", "Whether ", "That of ", "Those of ", "For how ", "By how ", "By what ", "For which ")
"""Beginnings that make a reader look for the noun."""
MARKS = re.compile(r"\b([Ww]hoever|[Ss]o many(?! (that|others|bits|watch)\b)|so long(?! (that|ago|a)\b)(?!,))\b")
"""Words that nobody says: anyone who, this many, this long."""


def riddles(source: str) -> list[str]:
    """The first lines of docstrings, of whatever they document, that begin so."""
    texts = [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return [text.partition("\n")[0] for text in texts if text.startswith(RIDDLES)]


def sources() -> dict[str, str]:
    """The files of the server and of the SDK, without generated ones."""
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    return {str(file.relative_to(ROOT)): file.read_text() for file in files if not {"v1", "keda"} & set(file.parts)}


def test_no_docstring_begins_with_a_riddle():
    assert {name: lines for name, source in sources().items() if (lines := riddles(source))} == {}


def test_words_are_those_that_people_use():
    assert {name: found[0] for name, source in sources().items() if (found := MARKS.search(source))} == {}


def test_docstrings_of_all_that_is_documented_are_looked_at():
    source = (
        '"""What a."""\nB = 1\n"""Whether b."""\nclass C:\n    """A c."""\n    def d(self):\n        """That of d."""\n'
    )
    assert riddles(source) == ["What a.", "Whether b.", "That of d."]
