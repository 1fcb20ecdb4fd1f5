"""The glossary: each word once, in order, with the files where it lives."""

import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
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
