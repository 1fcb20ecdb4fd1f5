"""What counts as a citation of a rule, and what it leads to."""

from tests.cases import every_case
from tests.docs.citations import Citation, citations_in, headings_of, old_names_in

HEADINGS = {"law.md": ["Leases", "Lost leases", "Claim order", "Claim order of hosts", "Time"], "more/law.md": ["Time"]}


def cited(text: str) -> list[str]:
    """The headings that a text cites, unknown ones with a question mark."""
    return [each.heading + "?" * (not each.is_known) for each in citations_in(text, HEADINGS)]


@every_case(
    "text",
    [
        '"""Once (docs/law.md, Claim order)."""',
        "See docs/law.md, Claim order.",
        "# docs/law.md, Claim order: of agents",
        "// docs/law.md, Claim order",
        "-- (other.md; docs/law.md, Claim order; `this`)",
        '"description": "Once (docs/law.md, Claim order).\\n\\nMore"',
        "docs/law.md, Claim order",
    ],
)
def test_a_citation_is_found_whatever_stands_around_it(text):
    assert cited(text) == ["Claim order"]


@every_case("leader", ["    ", "  // ", "# ", " * ", "-- ", "\t// "])
@every_case("text", ["(docs/law.md,|Claim order)", "(docs/law.md, Claim|order)", "(docs/law.md, Claim order|"])
def test_a_citation_may_be_broken_over_two_lines_of_a_comment(text, leader):
    assert cited(leader + text.replace("|", "\n" + leader)) == ["Claim order"]


def test_the_longest_heading_that_fits_is_the_cited_one():
    assert cited("(docs/law.md, Claim order of hosts)") == ["Claim order of hosts"]
    assert cited("(docs/law.md, Lost leases)") == ["Lost leases"]


def test_one_citation_may_name_several_headings():
    assert cited("(docs/law.md, Leases, Time, Claim order)") == ["Leases", "Time", "Claim order"]
    assert cited("(docs/law.md, Leases,\n# Time)") == ["Leases", "Time"]


def test_each_of_several_citations_is_found():
    assert cited("(docs/law.md, Leases; docs/more/law.md, Time) docs/law.md, Time") == ["Leases", "Time", "Time"]


@every_case(
    ("text", "lost"),
    [
        ("(docs/law.md, Lease)", "Lease?"),
        ("(docs/law.md, Leases of hosts)", "Leases of hosts?"),
        ("(docs/law.md, Claim orders)", "Claim orders?"),
        ("(docs/law.md, Claim Order)", "Claim Order?"),
        ("(docs/none.md, Leases)", "Leases?"),
        ("(docs/more/law.md, Leases)", "Leases?"),
    ],
)
def test_a_citation_that_leads_nowhere_is_told(text, lost):
    assert cited(text) == [lost]


def test_a_later_heading_of_a_citation_may_lead_nowhere_too():
    assert cited("(docs/law.md, Leases, Tim)") == ["Leases", "Tim?"]


@every_case(
    "text",
    [
        "docs/law.md, which holds it",
        "docs/law.md",
        "law.md, Leases",
        "[law](docs/law.md) Leases",
        "docs/law.py, Leases",
    ],
)
def test_what_only_names_a_document_is_no_citation(text):
    assert cited(text) == []


def test_prose_may_follow_a_heading_after_a_comma():
    assert cited("docs/law.md, Leases, and the comments of the RPCs") == ["Leases"]


def test_a_citation_knows_its_line_and_its_document():
    text = "one\n\n# two (docs/law.md,\n# Leases)\n// (docs/more/law.md, Time)\n"
    assert list(citations_in(text, HEADINGS)) == [Citation(3, "law.md", "Leases"), Citation(5, "more/law.md", "Time")]


def test_headings_are_those_below_the_title_and_outside_of_code():
    markdown = (
        "# Title\n\n## Leases\ntext\n### Lost leases ##\n```sh\n## no heading\n```\n#### Time  \n##No\n    ## No\n"
    )
    assert headings_of(markdown) == ["Leases", "Lost leases", "Time"]


@every_case(
    "text",
    [
        "(DESIGN, Leases)",
        "DESIGN's rules",
        "(scheduler-reference, Submit A Task)",
        "scheduler-daemon: triggers",
        "x (runtime-host-model)",
        "queueing-and-execution, Resume flow",
        "scheduler-architecture",
        "(FACTS, The store)",
        "GATEWAY.md",
    ],
)
def test_documents_that_are_not_in_the_repository_are_found_by_name(text):
    ((line, name),) = old_names_in(f"first line\n{text}\n")
    assert line == 2
    assert name in text


@every_case("text", ["docs/design.md", "REDESIGNED", "GATEWAY_PORT = 1", "the facts", "my-scheduler-daemons"])
def test_other_words_are_no_names_of_old_documents(text):
    assert list(old_names_in(text)) == []
