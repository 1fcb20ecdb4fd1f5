"""The rules that code, tests, protos and clients cite stand in docs/, under the headings that they name."""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docs.citations import Citation, citations_in, headings_of, old_names_in

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RULES = "rules.md"
NOT_CITED = Path(__file__).parent / "not_cited.txt"
EXAMPLES = "tests/docs/"
"""Holds citations that lead nowhere, as examples."""


@cache
def texts() -> dict[str, str]:
    """Every tracked file that is text, by its path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = {}
    for name in listed.stdout.rstrip("\0").split("\0"):
        path = ROOT / name
        if path.is_file() and not path.is_symlink() and not name.startswith(EXAMPLES):
            try:
                found[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
    return found


@cache
def headings() -> dict[str, list[str]]:
    """The headings of each document, by its name below `docs/`."""
    return {path.relative_to(DOCS).as_posix(): headings_of(path.read_text()) for path in DOCS.rglob("*.md")}


def citations() -> Iterator[tuple[str, Citation]]:
    """Every citation, with the path of the file where it stands."""
    for name, text in texts().items():
        if "docs/" in text:
            for citation in citations_in(text, headings()):
                yield name, citation


def test_every_citation_leads_to_a_heading():
    lost = [f"{name}:{it.line}: docs/{it.document}, {it.heading}" for name, it in citations() if not it.is_known]
    assert not lost, "no such heading:\n" + "\n".join(lost)


def test_no_document_is_cited_that_the_repository_does_not_hold():
    found = [f"{name}:{line}: {old}" for name, text in texts().items() for line, old in old_names_in(text)]
    assert not found, "not in the repository:\n" + "\n".join(found)


def test_each_rule_is_cited_or_listed_as_not_cited():
    # So no rule is renamed or removed unnoticed: one that is cited loses its citations, another its line in the list.
    cited = {citation.heading for _, citation in citations() if citation.document == RULES}
    not_cited = [heading for heading in headings()[RULES] if heading not in cited]
    listed = NOT_CITED.read_text().splitlines()
    assert not_cited == listed, (
        f"cite these, or list them in {NOT_CITED.name} in the order of {RULES}: {sorted({*not_cited} - {*listed})}; "
        f"take these out of the list, as they are cited or gone: {sorted({*listed} - {*not_cited})}"
    )


def test_each_heading_of_the_rules_stands_once_and_can_be_cited():
    names = headings()[RULES]
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if not name[0].isupper() or set(name) & set(",.:;()\"'`\\")] == []
