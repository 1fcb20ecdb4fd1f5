"""Gathers what the site is made of: the Markdown of the repository, where it lies. tools/site/build.sh runs it.

docs/README.md is the one list of pages. What it links to is a page, also outside of docs/, and its order is that of the
navigation and of llms.txt. A page keeps its path, so that a link between pages is the same on the site and in the
repository. A link to anything else leads to the repository.
"""

import json
import posixpath
import re
import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/taskyard/taskyard"
FRONT, LIST = "README.md", "docs/README.md"
SECTION = re.compile(r"(?m)^## (.+)\n((?:(?!## ).*\n)*)")
ROW = re.compile(r"(?m)^\| (.*\]\(.*) \| (.*) \|$")
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)[^)#\s]+")
CODE = re.compile(r"(?s)(```.*?```|`[^`\n]*`)")
TITLE = re.compile(r"(?m)^# (.+)$")


def gather(folder: Path) -> None:
    """Write pages/, with llms.txt, and a mkdocs.yml that knows them into a folder."""
    listed = (ROOT / LIST).read_text()
    first, *_ = listed.partition("\n## ")
    sections = {"": [FRONT, LIST, *_linked(first)]}
    sections |= {title: _linked(rows) for title, rows in SECTION.findall(listed)}
    pages = {name: (ROOT / name).read_text() for names in sections.values() for name in names}
    shutil.copytree(ROOT / "docs", folder / "pages/docs")
    if lost := {path.relative_to(folder / "pages").as_posix() for path in folder.rglob("*.md")} - pages.keys():
        sys.exit(f"{LIST} lists every page, but not {', '.join(sorted(lost))}")
    for name, markdown in pages.items():
        path = folder / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_led_to_repository(markdown, name, pages))
    description = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"]
    titles = {name: TITLE.findall(CODE.sub("", markdown))[0] for name, markdown in pages.items()}
    answers = {name: answer for links, answer in ROW.findall(listed) for name in _linked(links)}
    lines = ["# Taskyard", "", f"> {description}", ""]
    for section, names in sections.items():
        lines += [f"## {section}", ""] if section else []
        lines += [": ".join(filter(None, (f"- [{titles[name]}]({name})", answers.get(name)))) for name in names]
        lines += [""]
    (folder / "pages/llms.txt").write_text("\n".join(lines))
    ours = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "site_description": description,
        "docs_dir": "pages",
        "site_dir": "html",
        "nav": [*sections.pop(""), *({title: names} for title, names in sections.items())],
        "theme": {"custom_dir": str(ROOT / "tools/site/theme")},
        "extra": {"social": [{"icon": "fontawesome/brands/github", "link": REPOSITORY, "name": "The repository"}]},
    }
    (folder / "mkdocs.yml").write_text(json.dumps(ours, indent=1))


def _led_to_repository(markdown: str, name: str, pages: dict[str, str]) -> str:
    """The text of a page, in which links to files that are no pages lead to the repository."""

    def goal(link: re.Match[str]) -> str:
        path = _path(name, link[0])
        is_here = path in pages or path.startswith("docs/") or not (ROOT / path).exists()
        return link[0] if is_here else f"{REPOSITORY}/blob/main/{path}"

    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(goal, part) for part in parts[::2]]
    return "".join(parts)


def _linked(markdown: str) -> list[str]:
    """The files that the list links to in this part of it."""
    return [_path(LIST, link) for link in LINK.findall(markdown)]


def _path(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
