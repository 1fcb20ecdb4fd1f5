"""The three tiers of tests. What a test needs decides which one it is in, not its folder.

See docs/develop/testing.md, Tiers.

`test` is what has no mark: it needs what `make test` installs. `gate` and `deep` are marks, whose words say what a test
needs besides, or which tests hold the same rule at a lower height. What a fixture needs, its tests need.
"""

import inspect
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar
from zlib import crc32

import pytest

TIERS: Final = ("test", "gate", "deep")
NEEDS: Final = {
    "chrome": "Chromium",
    "grpcurl": "Go",
    "helm": "Helm",
    "needs_promtool": "promtool",
    "postgres_server": "PostgreSQL",
}
"""What the fixtures of these names need that a newcomer has not got, or that takes seconds to start."""
LEFT_OUT: Final = (
    f"Left to `make test-all`: what needs {', '.join(sorted(NEEDS.values()))}, Node, Java or a compiler, what whole "
    "processes show once more, and the second forms of the server (docs/develop/testing.md, Tiers)."
)
TESTS: Final = Path(__file__).parent
ROOT: Final = TESTS.parent
_OF_A_FILE: Final = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(gate|deep)\(", re.MULTILINE)
_OF_MORE: Final = re.compile(rf"\b(gate\(|deep\(|spread\(|mutation\b|postgres|{'|'.join(NEEDS)})")
"""What a file says, or a conftest of its folders, some test of which is not of the first tier."""
T = TypeVar("T")
_HUNK: Final = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_LAST_DAY_SECS: Final = 24 * 3600
MOST_MUTATIONS: Final = 40
"""How many mutations of what has changed the gate tries, others at each commit; `make test-deep` tries all."""


def tier_of(item: pytest.Item) -> str:
    """The tier of a test."""
    marks = {mark.name for mark in item.iter_markers()}
    if "mutation" in marks:
        return "gate" if _is_touched(item) else "deep"
    if "deep" in marks:
        return "deep"
    if "gate" in marks or not NEEDS.keys().isdisjoint(getattr(item, "fixturenames", ())):
        return "gate"
    return "gate" if "postgres" in map(str, _params(item).values()) else "test"


def spread(cases: Sequence[Any], gate: int = 0) -> list[Any]:
    """Cases of which each is one more of a kind: the first in every run, the next ones in the gate, the rest deep."""
    marks = [(), *[pytest.mark.gate("more of a kind")] * gate]
    rest = pytest.mark.deep("many of a kind")
    return [pytest.param(case, marks=mark) for case, mark in zip_longest(cases, marks[: len(cases)], fillvalue=rest)]


def is_elsewhere(file: Path, tiers: Collection[str]) -> bool:
    """True if all tests of a file are of other tiers, as its own mark says: then it is not even imported."""
    if not file.name.startswith("test_"):
        return False
    if found := _OF_A_FILE.search(file.read_text()):
        return found[1] not in tiers
    return "test" not in tiers and not _has_more(file)


def keep(config: pytest.Config, items: list[pytest.Item], tiers: Collection[str]) -> None:
    """Leave out the tests of all other tiers."""
    tier = {item: tier_of(item) for item in items}
    touched = {item.nodeid: item for item in items if tier[item] == "gate" and item.get_closest_marker("mutation")}
    for name in touched.keys() - drawn(touched, _newest_commit()):
        tier[touched[name]] = "deep"
    if hidden := {item.path for item in items if tier[item] != "test" and not _has_more(item.path)}:
        # Said in each `make test`, so that no test is ever left out of the gate unseen.
        raise pytest.UsageError(f"tests/tiers.py does not see that these have tests of another tier: {hidden}")
    config.hook.pytest_deselected(items=[item for item in items if tier[item] not in tiers])
    items[:] = [item for item in items if tier[item] in tiers]


def drawn(names: Iterable[str], commit: str) -> set[str]:
    """The mutations that the gate tries at this commit, of those in functions that have changed."""
    return set(sorted(names, key=lambda name: crc32(f"{commit} {name}".encode()))[:MOST_MUTATIONS])


def in_shares(long: Sequence[T], rest: Sequence[T], workers: int) -> list[T]:
    """Tests in the order of which pytest-xdist gives each worker a part: each begins with a share of the long ones.

    So no long test is the last to begin, and none waits for all the others.
    """
    ordered, left = list[T](), list(rest)
    for worker in range(workers):
        own = long[worker::workers]
        size = (len(long) + len(rest) - len(ordered)) // (workers - worker)
        more = max(0, size - len(own))
        ordered += [*own, *left[:more]]
        del left[:more]
    return ordered


@cache
def _has_more(file: Path) -> bool:
    """True if a file may have tests that are not of the first tier."""
    conftests = [folder / "conftest.py" for folder in file.parents if TESTS in folder.parents]
    return any(path.exists() and _OF_MORE.search(path.read_text()) for path in (file, *conftests))


def _params(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _is_touched(item: pytest.Item) -> bool:
    """True if a mutation breaks a rule in a function of which the last day of commits has changed a line."""
    breach = _params(item).get("breach")
    tables = [table for table in vars(item.module).values() if isinstance(table, dict)]  # type: ignore[attr-defined]
    return any(_has_changed(edit[0], edit[1]) for table in tables for edit in table.get(breach, ()))


def _has_changed(owner: type | ModuleType, name: str) -> bool:
    function = inspect.unwrap(inspect.getattr_static(owner, name))
    function = getattr(function, "fget", None) or getattr(function, "__func__", function)
    file = str(Path(inspect.getsourcefile(function) or "").relative_to(ROOT))
    lines, first = inspect.getsourcelines(function)
    return any(first < end and begin < first + len(lines) for begin, end in _changed_lines().get(file, ()))


@cache
def _changed_lines() -> Mapping[str, Sequence[tuple[int, int]]]:
    """By file, the lines that differ from the commit of a day before the newest one, committed or not."""

    newest = _git("log", "-1", "--format=%ct")
    before = newest and _git("rev-list", "-1", f"--before={int(newest) - _LAST_DAY_SECS}", "HEAD")
    return changed_lines(_git("diff", "--unified=0", "--find-renames", before)) if before else {}


@cache
def _newest_commit() -> str:
    return _git("rev-parse", "HEAD")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def changed_lines(diff: str) -> dict[str, list[tuple[int, int]]]:
    """By file, the first line of each change and the one after its last, of a diff without context."""
    found: dict[str, list[tuple[int, int]]] = {}
    file = ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif hunk := _HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            # What was taken out stood between two lines.
            begin, end = (first, first + count) if count else (first, first + 2)
            found.setdefault(file, []).append((begin, end))
    return found
