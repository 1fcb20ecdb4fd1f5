"""Puts a built site beside those of other versions: python tools/site/versions.py SITE FOLDER VERSION

FOLDER is what is published. Each version lies in a folder of its own; `latest` leads to the highest number, and so does
the front. What has no number, as `main`, stands last. The selector of versions in each page reads versions.json.
"""

import json
import re
import shutil
import sys
from pathlib import Path

FRONT = '<!doctype html><title>Taskyard</title><meta http-equiv="refresh" content="0; url=latest/">\n'


def publish(site: Path, folder: Path, version: str) -> None:
    """Add or replace one version."""
    if not re.fullmatch(r"[\w.-]+", version) or version in ("latest", ".", ".."):
        sys.exit(f"{version!r} is no name for a version")
    shutil.rmtree(folder / version, ignore_errors=True)
    shutil.copytree(site, folder / version)
    versions = sorted((path.name for path in folder.iterdir() if path.is_dir() and not path.is_symlink()), key=_order)
    versions = [name for name in versions if (folder / name / "llms.txt").exists()]
    entries = [{"version": name, "title": name, "aliases": ["latest"] * (name == versions[0])} for name in versions]
    (folder / "versions.json").write_text(json.dumps(entries, indent=1))
    latest = folder / "latest"
    latest.unlink(missing_ok=True)
    latest.symlink_to(versions[0])
    (folder / "index.html").write_text(FRONT)


def _order(version: str) -> tuple[bool, list[int], str]:
    """The key that puts the highest number first."""
    numbers = [-int(number) for number in re.findall(r"\d+", version)]
    return not version[0].isdigit(), numbers, version


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
