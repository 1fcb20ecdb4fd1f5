"""Writes what a Go proxy serves of the Go modules: python tools/packages/go_proxy.py FOLDER

For go it is a proxy by itself: GOPROXY=file://FOLDER. Of a module it has the files that are committed below it, but for
those of a module of its own, under the version of pyproject.toml.
"""

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = ("clients/go", "clients/go/taskyardotel")


def write(folder: Path) -> None:
    """Write list, version, go.mod and archive of each module."""
    version = "v" + tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for place in MODULES:
        module = (ROOT / place / "go.mod").read_text().split(maxsplit=2)[1]
        served = folder / module / "@v"
        served.mkdir(parents=True)
        (served / "list").write_text(f"{version}\n")
        (served / f"{version}.info").write_text(json.dumps({"Version": version}))
        (served / f"{version}.mod").write_text((ROOT / place / "go.mod").read_text())
        with zipfile.ZipFile(served / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name in _files_of(place):
                archive.write(ROOT / place / name, f"{module}@{version}/{name}")
            if not (ROOT / place / "LICENSE").exists():
                # As go itself does for a module below the root of its repository.
                archive.write(ROOT / "LICENSE", f"{module}@{version}/LICENSE")


def _files_of(place: str) -> list[str]:
    found = subprocess.run(["git", "ls-files"], cwd=ROOT / place, capture_output=True, text=True, check=True)
    inner = [f"{Path(other).relative_to(place)}/" for other in MODULES if other.startswith(f"{place}/")]
    return [name for name in found.stdout.splitlines() if not name.startswith(tuple(inner))]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
