"""Brings a release of Taskyard as its users have it: `python -m tools.releases 0.3.0` prints the Python that runs it.

A release is a commit. Its wheel is built of that commit without a compiler, and installed with what was tested with it
into an environment of its own. It is made once, below the user's folder for caches, beside the files of the commit,
whose tests know its SDK. What is missing is the repository's history alone: then `MissingRelease` says so.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
NO_COMPILER = {"CC": "none"}
OLDER_THAN_ITS_FILES = {"0.2.0": "e02570ad5e892096506be3fd96eb4f44041b493d"}
"""The releases before `released/` was kept: no commit that added a file of theirs is theirs."""


class MissingRelease(Exception):
    """This is no repository, or one without the commit of a release."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A wheel in an environment of its own, and the `tree` that it was built of."""

    tree: Path
    environment: Path

    @property
    def python(self) -> Path:
        return self.environment / "bin/python"


def releases() -> dict[str, str]:
    """The commits of all releases by version, the oldest first."""
    found = {}
    for file in sorted((ROOT / "released").glob("*.binpb"), key=lambda path: _numbers(path.stem)):
        version = file.stem
        commit = OLDER_THAN_ITS_FILES.get(version) or _git(
            "log", "--diff-filter=A", "--format=%H", "--", f"released/{file.name}"
        )
        if commit:  # None while the release is being made.
            found[version] = commit
    return found


def last_release() -> str:
    """The version of the newest release that is not this commit itself. Raises `MissingRelease`."""
    head = _git("rev-parse", "HEAD")
    versions = [version for version, commit in releases().items() if commit != head]
    if not versions:
        raise MissingRelease("the history of this repository has no release")
    return versions[-1]


def bring(version: str) -> Installed:
    """A release, built and installed unless it is there. Raises `MissingRelease` if its commit is not."""
    commit = releases().get(version, "")
    if not commit or not _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"):
        raise MissingRelease(f"the history of this repository has no commit of {version}")
    folder = user_cache_path("taskyard") / "releases" / f"{commit}-{sys.implementation.cache_tag}"
    folder.mkdir(parents=True, exist_ok=True)
    installed, is_made = Installed(folder / "tree", folder / "environment"), folder / "made"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made.exists():
            shutil.rmtree(installed.tree, ignore_errors=True)
            installed.tree.mkdir()
            packed = subprocess.run(("git", "archive", commit), cwd=ROOT, capture_output=True, check=True)
            subprocess.run(("tar", "-x"), cwd=installed.tree, input=packed.stdout, check=True)
            wheel = build(installed.tree, folder, NO_COMPILER)
            install(installed, "--constraint", installed.tree / "constraints.txt", f"{wheel}[server,gateway]")
            is_made.touch()
    return installed


def build(tree: Path, folder: Path, environment: dict[str, str]) -> Path:
    """The wheel of a tree, built into a folder by the tools of this environment."""
    for old in folder.glob("*.whl"):
        old.unlink()
    _run(UV, "build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", folder, tree, **environment)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(into: Installed, *words: object) -> None:
    """Make its environment, and install there what uv is told."""
    _run(UV, "venv", "--quiet", "--clear", "--python", sys.executable, into.environment)
    _run(UV, "pip", "install", "--quiet", "--python", into.python, *words)


def _run(*command: object, **environment: str) -> None:
    subprocess.run([str(word) for word in command], env=os.environ | environment, check=True)


def _git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", help="by default the last one")
    given = parser.parse_args()
    try:
        print(bring(given.version or last_release()).python)
    except MissingRelease as missing:
        raise SystemExit(str(missing)) from None
