"""The older version that `make bench` measures beside this one: its files, and its compiled form.

Each is taken from this repository once and kept in `.bench/`. It runs on the packages and the Python of this version.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".bench"
DEFAULT = "eacf6d19"
"""The last commit before the server was made faster under load."""
NONE = "none"
TAKEN = ".taken"
"""A file that says that all the others are there."""


def tree(ref: str) -> Path | None:
    """The folder with the files of the version `ref`, compiled; None for `none`, or if this is no repository with it.

    Raises `SystemExit` if it cannot be taken or compiled.
    """
    if ref == NONE:
        return None
    asked = ("git", "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        print(f"There is no {ref} here: no older version stands beside this one.", file=sys.stderr)
        return None
    folder = FOLDER / found.stdout.strip()
    try:
        if not (folder / TAKEN).exists():
            _take(folder)
        # It does nothing where the compiled form is up to date.
        subprocess.run((sys.executable, "tools/compile_server.py"), cwd=folder, stdout=sys.stderr, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"the older version {ref}: {error}") from None
    return folder


def _take(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packed = folder / "files.tar"
    subprocess.run(("git", "archive", "--output", str(packed), folder.name), cwd=ROOT, check=True)
    subprocess.run(("tar", "-xf", packed.name), cwd=folder, check=True)
    packed.unlink()
    (folder / TAKEN).touch()
