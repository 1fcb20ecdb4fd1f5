"""The packages in all languages have one version, one license and one repository, and say what a registry asks for."""

import json
import re
import tomllib
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cases import every_case
from tools.packages.go_proxy import MODULES, write
from tools.site.pages import REPOSITORY

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "clients"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
AUTHORS = "The Taskyard authors"
MAVEN = {"m": "http://maven.apache.org/POM/4.0.0"}


@pytest.fixture(scope="module")
def npm():
    """What package.json says."""
    return json.loads((CLIENTS / "typescript/package.json").read_text())


@pytest.fixture(scope="module")
def pom():
    """The text of an element of pom.xml, by its path."""
    project = ElementTree.parse(CLIENTS / "java/pom.xml").getroot()
    return lambda path: project.findtext("/".join(f"m:{name}" for name in path.split("/")), namespaces=MAVEN)


def test_all_packages_have_the_version_of_the_server(npm, pom):
    assert (npm["version"], pom("version")) == (VERSION, VERSION)
    spans = (CLIENTS / "go/taskyardotel/go.mod").read_text()
    # Who uses the spans gets the client that this asks for: `replace` counts here alone.
    assert re.findall(r"^\s*github.com/taskyard/taskyard/clients/go (\S+)$", spans, re.MULTILINE) == [f"v{VERSION}"]


@every_case(
    ("document", "words"),
    [
        ("clients/go/README.md", r"go get \S+@v(\S+)"),
        ("clients/java/README.md", r"<version>(.+?)</version>"),
        ("docs/operate/install.md", r"(?:clients/go@v|taskyard[\w-]*[-_:])(\d+\.\d+\.\d+)\b"),
    ],
)
def test_a_document_names_the_version_that_there_is(document, words):
    named = re.findall(words, (ROOT / document).read_text())
    assert named
    assert set(named) == {VERSION}


@pytest.mark.parametrize("client", ["go", "java", "typescript"])
def test_each_package_has_the_license(client):
    assert (CLIENTS / client / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_an_index_of_python_is_told_where_the_package_comes_from():
    urls = PROJECT["urls"]
    assert (urls["Homepage"], urls["Issues"]) == (REPOSITORY, f"{REPOSITORY}/issues")
    files = [url.removeprefix(f"{REPOSITORY}/blob/main/") for url in urls.values() if "/blob/" in url]
    assert files
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_npm_is_told_where_the_package_comes_from(npm):
    assert npm["repository"] == {
        "type": "git",
        "url": f"git+{REPOSITORY}.git",
        "directory": "clients/typescript",
    }
    assert (npm["license"], npm["author"], npm["bugs"]) == ("Apache-2.0", AUTHORS, f"{REPOSITORY}/issues")
    assert npm["homepage"].startswith(REPOSITORY)


def test_maven_is_told_all_that_its_central_repository_asks_for(pom):
    told = ["name", "description", "licenses/license/url", "developers/developer/url"]
    assert [path for path in told if not pom(path)] == []
    assert pom("licenses/license/name") == "Apache-2.0"
    assert pom("developers/developer/name") == AUTHORS
    assert (pom("url"), pom("scm/url")) == (REPOSITORY, REPOSITORY)
    assert pom("scm/connection") == f"scm:git:{REPOSITORY}.git"


@pytest.mark.parametrize("place", MODULES)
def test_a_go_module_is_named_as_the_place_where_it_lies(place):
    assert (ROOT / place / "go.mod").read_text().splitlines()[
        0
    ] == f"module {REPOSITORY.removeprefix('https://')}/{place}"


def test_a_go_proxy_serves_each_module_without_those_inside_it(tmp_path):
    write(tmp_path)
    names = {}
    for path in tmp_path.rglob("*.zip"):
        prefix = f"{path.relative_to(tmp_path).parent.parent}@v{VERSION}/"
        with zipfile.ZipFile(path) as archive:
            assert all(name.startswith(prefix) for name in archive.namelist())
            names[prefix] = {name.removeprefix(prefix) for name in archive.namelist()}
    client, spans = sorted(names.values(), key=len, reverse=True)
    assert client >= {"go.mod", "LICENSE", "README.md", "client.go", "v1/task.pb.go"}
    assert not any(name.startswith("taskyardotel/") for name in client)
    assert spans == {"go.mod", "go.sum", "LICENSE", "spans.go", "spans_test.go"}
