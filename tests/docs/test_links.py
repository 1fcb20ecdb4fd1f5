"""Links in the documents lead to files that are there, and to headings that these have."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.cases import every_case

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "gateway/README.md"])
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"(?s)```.*?```|`[^`\n]*`")


def anchors(markdown: str) -> set[str]:
    """The names under which GitHub lets a link lead to a heading."""
    titles = re.findall(r"(?m)^#+ +(.+?) *$", re.sub(r"(?s)```.*?```", "", markdown))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def lost_links(document: Path) -> list[str]:
    """The links of a document that lead nowhere."""
    lost = []
    for path, anchor in LINK.findall(CODE.sub("", document.read_text())):
        goal = document.parent / unquote(path) if path else document
        if not goal.exists() or (anchor and anchor not in anchors(goal.read_text())):
            lost.append(f"{path}#{anchor}" if anchor else path)
    return lost


@every_case("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_link_leads_somewhere(document):
    assert lost_links(document) == []


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("[a](other.md) [b](other.md#the-rule-of-3) [c](#own-title)", []),
        ("[a](https://example.com/none#none)", []),
        ("`[a](none.md)`\n```\n[b](none.md)\n```", []),
        ("[a](none.md)", ["none.md"]),
        ("[a](other.md#no-rule)", ["other.md#no-rule"]),
        ("[a](#nothing)", ["#nothing"]),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path, text, lost):
    (tmp_path / "other.md").write_text("# Other\n\n## The rule of `3`!\n")
    (tmp_path / "it.md").write_text(f"# Own title\n\n{text}\n")
    assert lost_links(tmp_path / "it.md") == lost
