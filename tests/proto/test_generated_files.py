"""Which committed files are generated: they are marked for git and for reviews, and Java has none."""

import re
import subprocess

import pytest

from tests.proto.protoc import ROOT

# The comment by which protoc and its plugins mark their files.
HEADER = re.compile(
    "^(?://|#)? ?(?:@generated|Generated|Code generated) by (?:protoc-gen-|mypy-protobuf|the protocol buffer|the gRPC)",
    re.MULTILINE,
)
# Files whose formats have no comments, and the page that is built from console/.
WITHOUT_HEADER = {"gateway/console.html", "gateway/openapi.json", "gateway/taskyard.binpb"}


def git(*words: str, given: str | None = None) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, check=True).stdout


def committed() -> list[str]:
    """The files that a commit of the work tree holds."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    return sorted(name for name in names if (ROOT / name).is_file())


def generated() -> set[str]:
    """The committed files that are made from the protos, or built from other sources."""
    found = {name for name in committed() if HEADER.search((ROOT / name).read_text(errors="replace"))}
    return found | WITHOUT_HEADER | {name for name in committed() if name.startswith("released/")}


def marked(attribute: str, value: str) -> set[str]:
    """The committed files for which `.gitattributes` gives an attribute that value."""
    lines = git("check-attr", "--stdin", attribute, given="\n".join(committed())).splitlines()
    return {line.removesuffix(f": {attribute}: {value}") for line in lines if line.endswith(f": {value}")}


@pytest.mark.parametrize(("attribute", "value"), [("linguist-generated", "set"), ("diff", "unset")])
def test_generated_files_are_marked_and_no_others(attribute: str, value: str) -> None:
    assert marked(attribute, value) == generated()


def test_no_generated_java_is_committed() -> None:
    assert [name for name in generated() if name.startswith("clients/java/")] == []
