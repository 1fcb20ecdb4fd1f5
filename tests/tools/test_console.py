"""The console is built from packages that are named with their versions, and is committed as one file."""

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = json.loads((ROOT / "console/package.json").read_text())
OF_ALL = ("dependencies", "devDependencies", "overrides")


def test_each_package_has_its_version():
    named = {name: version for kind in OF_ALL for name, version in PACKAGE[kind].items()}
    assert [name for name, version in named.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    # Of what others bring along, these decide what the file is.
    assert {"rolldown", "lightningcss", "postcss", "@preact/signals-core"} <= PACKAGE["overrides"].keys()


def test_it_has_the_packages_of_the_client_whose_sources_it_takes():
    client = json.loads((ROOT / "clients/typescript/package.json").read_text())["dependencies"]
    shared = PACKAGE["dependencies"].keys() & client.keys()
    assert "@connectrpc/connect-web" in shared
    assert {name: client[name] for name in shared} == {name: PACKAGE["dependencies"][name] for name in shared}


def test_nothing_of_the_build_is_committed_but_its_outcome():
    committed = subprocess.run(
        ["git", "ls-files", "console", "gateway"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "gateway/console.html" in committed
    assert not [path for path in committed if "lock" in path or "node_modules" in path or "/dist/" in path]
