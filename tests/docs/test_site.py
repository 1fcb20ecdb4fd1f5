"""The documents as a site: whole, searched, with versions, and nothing in it comes from another host."""

import re
import shutil
import subprocess
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.console.browsing import browser, chromium

pytestmark = pytest.mark.gate("needs what `make site` installs; the links of the documents are held by test_links.py")

ROOT = Path(__file__).parents[2]
# What a page loads by itself; a link is followed by its reader alone.
LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="?([^">\s]+)|<link\b[^>]*\bhref="?([^">\s]+)""")
LOADED_BY_STYLE = re.compile(r"""(?:url\(|@import )["']?([^"')\s]+)""")
PAGE = re.compile(r"(?m)^- \[.+\]\((.+?)\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site."""
    if shutil.which("zensical") is None:
        pytest.skip("needs zensical: make site")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run([ROOT / "tools/site/build.sh", folder], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "No issues found" in built.stderr
    return folder / "html"


@contextmanager
def served(folder: Path):
    """The base URL of a folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_llms_txt_lists_every_page_which_is_there_as_markdown_too(site):
    listed = PAGE.findall((site / "llms.txt").read_text())
    pages = {page.parent.relative_to(site).as_posix() for page in site.rglob("index.html")}
    assert {re.sub(r"/?(README)?\.md$", "", name) or "." for name in listed} == pages
    assert len(listed) == len(pages) > 25
    for name in listed:
        assert (site / name).read_text().lstrip().startswith(("# ", "<!--")), name
    assert {path.relative_to(site).as_posix() for path in site.rglob("*.md")} == set(listed)


def test_a_link_to_what_is_no_page_leads_to_the_repository(site):
    text = (site / "docs/operate/monitoring.md").read_text()
    assert "](https://github.com/taskyard/taskyard/blob/main/deploy/prometheus/rules.yaml)" in text
    assert "](durability.md" in text


def test_nothing_is_loaded_from_another_host(site):
    loaded = []
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        found = LOADED.findall(file.read_text()) if file.suffix == ".html" else []
        loaded += [one or other for one, other in found] + LOADED_BY_STYLE.findall(file.read_text())
    assert [url for url in loaded if re.match(r"(https?:)?//", url)] == []
    assert len(loaded) > 100


def test_a_reader_chooses_a_version_and_finds_the_fencing_token(site, tmp_path):
    if chromium() is None:
        pytest.skip("needs Chromium: tools/debian_tools.sh chromium")
    for version in ("0.9", "0.10", "main"):
        subprocess.run(["python", ROOT / "tools/site/versions.py", site, tmp_path, version], check=True)
    with served(tmp_path) as url, browser() as chrome:
        page = chrome.new_page()
        asked, problems = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.goto(f"{url}/")
        page.wait_for_url(f"{url}/latest/")
        page.locator(".md-version__link", has_text="0.9").wait_for(state="attached")
        page.keyboard.press("Control+k")
        page.keyboard.type("fencing token")
        first = page.locator("a", has_text="Fencing tokens").first
        first.click()
        page.wait_for_url("**/docs/rules/?h=*#fencing-tokens")
    assert problems == []
    assert [each for each in asked if not each.startswith((url, "data:", "blob:"))] == []
