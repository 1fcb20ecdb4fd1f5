"""The glossary: each word once, in order, with the files where it lives; and the words that many files use."""

import ast
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "server/taskyard_server"
MANY_FILES = 8
GLOSSARY = (ROOT / "docs/develop/glossary.md").read_text()
ENTRIES = re.findall(r"(?m)^- (.*(?:\n  .+)*)", GLOSSARY)
WORD = re.compile(r"\*\*(.+?)\*\*: ")
FILE = re.compile(r"`([\w./-]+\.(?:py|proto))`")


def test_each_word_stands_once():
    words = [match[1] for entry in ENTRIES if (match := WORD.match(entry))]
    assert len(words) == len(ENTRIES) > 50
    assert sorted(set(words)) == sorted(words)


def test_the_words_of_a_section_are_in_alphabetical_order():
    for section in GLOSSARY.split("\n## ")[1:]:
        words = re.findall(r"(?m)^- \*\*(.+?)\*\*", section)
        assert [(one, other) for one, other in pairwise(words) if one.lower() > other.lower()] == []


def test_each_word_names_files_that_are_there():
    for entry in ENTRIES:
        files = FILE.findall(entry)
        assert files, entry
        for name in files:
            assert (ROOT / ("" if name.startswith("proto/") else "server/taskyard_server") / name).is_file(), entry


def test_the_class_that_eight_files_use_is_a_word_of_the_glossary():
    # Refusals and other errors are explained by their messages.
    trees = {file: ast.parse(file.read_text()) for file in SERVER.rglob("*.py") if "_pb2" not in file.name}
    classes = {node.name: node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    users = defaultdict(set)
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("taskyard_server")):
                for name in node.names:
                    users[name.name].add(file)

    def is_error(name: str) -> bool:
        bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name)] if name in classes else []
        return any(base in ("Exception", "ValueError") or is_error(base) for base in bases)

    used = [name for name in classes if len(users[name]) >= MANY_FILES and not is_error(name)]
    words = {name: " ".join(re.findall("[A-Z][a-z0-9]*", name)).lower() for name in used}
    there = [match[1].lower() for entry in ENTRIES if (match := WORD.match(entry))]
    assert [name for name, word in words.items() if word not in there and word.removesuffix("s") not in there] == []
    assert len(used) > 40
