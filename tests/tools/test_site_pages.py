"""The pages of the site and their versions are those that the repository says, whatever builds it."""

import json

import pytest

from tools.site import pages, versions

FILES = {
    "pyproject.toml": '[project]\ndescription = "Queues."\n',
    "README.md": "# Front\n\n[all](docs/README.md) [none](none.md)\n",
    "LICENSE": "free",
    "tools/it.py": "",
    "gateway/README.md": "# Gateway\n",
    "docs/README.md": "# All\n\n[Rules](rules.md).\n\n## Use it\n\n| page | answers |\n| --- | --- |\n"
    "| [Guide](use/guide.md), [gateway](../gateway/README.md) | how it is used |\n",
    "docs/rules.md": "# Rules\n",
    "docs/use/guide.md": "# Guide\n\n[a](../rules.md#x) [b](../../gateway/README.md) [c](../../tools/it.py#L3)\n"
    "[d](../../tools) [e](https://example.com) [f](#own) `[g](../../LICENSE)`\n\n```\n[h](../../LICENSE)\n```\n",
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small repository, where `pages` looks for it."""
    for name, text in FILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(pages, "ROOT", tmp_path / "tree")
    return tmp_path / "tree"


@pytest.mark.usefixtures("tree")
def test_a_link_to_a_page_stays_and_any_other_leads_to_the_repository(tmp_path):
    pages.gather(tmp_path / "site")
    assert (tmp_path / "site/pages/docs/use/guide.md").read_text() == (
        "# Guide\n\n[a](../rules.md#x) [b](../../gateway/README.md) [c](https://github.com/taskyard/taskyard/blob/main/"
        "tools/it.py#L3)\n[d](https://github.com/taskyard/taskyard/blob/main/tools) [e](https://example.com) [f](#own) "
        "`[g](../../LICENSE)`\n\n```\n[h](../../LICENSE)\n```\n"
    )
    assert (tmp_path / "site/pages/README.md").read_text() == FILES["README.md"]


@pytest.mark.usefixtures("tree")
def test_the_list_of_pages_makes_navigation_and_llms_txt(tmp_path):
    pages.gather(tmp_path / "site")
    assert json.loads((tmp_path / "site/mkdocs.yml").read_text())["nav"] == [
        "README.md",
        "docs/README.md",
        "docs/rules.md",
        {"Use it": ["docs/use/guide.md", "gateway/README.md"]},
    ]
    assert (tmp_path / "site/pages/llms.txt").read_text() == (
        "# Taskyard\n\n> Queues.\n\n- [Front](README.md)\n- [All](docs/README.md)\n- [Rules](docs/rules.md)\n\n"
        "## Use it\n\n- [Guide](docs/use/guide.md): how it is used\n- [Gateway](gateway/README.md): how it is used\n"
    )


def test_a_page_that_the_list_leaves_out_is_an_error(tree, tmp_path):
    (tree / "docs/use/lost.md").write_text("# Lost\n")
    with pytest.raises(SystemExit, match=r"^docs/README.md lists every page, but not docs/use/lost.md$"):
        pages.gather(tmp_path / "site")


def test_the_highest_number_is_the_latest_version(tmp_path):
    site, folder = tmp_path / "site", tmp_path / "published"
    site.mkdir()
    folder.mkdir()
    for text, version in [("one", "0.9"), ("two", "main"), ("three", "0.10"), ("four", "0.9")]:
        (site / "llms.txt").write_text(text)
        versions.publish(site, folder, version)
    assert [(entry["version"], entry["aliases"]) for entry in json.loads((folder / "versions.json").read_text())] == [
        ("0.10", ["latest"]),
        ("0.9", []),
        ("main", []),
    ]
    assert (folder / "latest/llms.txt").read_text() == "three"
    assert (folder / "0.9/llms.txt").read_text() == "four"
    assert "url=latest/" in (folder / "index.html").read_text()


@pytest.mark.parametrize("name", ["", "latest", "..", "a/b", "../x"])
def test_a_version_that_is_no_name_of_a_folder_is_refused(tmp_path, name):
    with pytest.raises(SystemExit, match="is no name for a version"):
        versions.publish(tmp_path, tmp_path, name)
    assert list(tmp_path.iterdir()) == []
