"""Makes small mutations of the sources, one at a time, and runs the tests to see which notice. Before a release.

    python tools/mutants.py --seed 31 --count 50 --list /tmp/mutants.json

The tests run in a clone of this repository (`--tree`), which is made and set up once, in stages: those nearest to the
changed file, then the tiers `test` and `gate`. In the first a mutant is alone. Later all that are left are applied
together, and each alone to the tests that fail then, so that a tier runs a few times and not once a mutant. A test
counts that fails twice. What is found stays in `--list`: another run goes on there, and a checkout of another commit
can be given the same mutants (`--tree FOLDER --stages all`, for one of before the tiers). Other words go to pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools.mutations import Mutation, applied, pick  # noqa: E402

SOURCES = ("server/taskyard_server", "clients/python/taskyard", "gateway")
GENERATED = re.compile(r"/v1/|/keda/")
OF_THE_GATEWAY = re.compile(r"gateway/|server/taskyard_server/gateway/")
STAGES = ("nearest", "test", "gate", "all")
LONGEST_SECS = 3600
"""A run that takes longer hangs."""
NEAREST_SECS, A_NEAREST_SECS = 150, 45
"""The first stage looks no longer than that, and a test that takes longer fails in it."""
MOST_FAILURES = 12
"""So many tests that fail are enough to find out whose they are."""
NOTHING_RAN = 5
"""What pytest exits with where no test was picked."""


@dataclass
class Mutant:
    """A mutation, and what has come of it: `noticed` is the stage in which `by` has failed."""

    number: int
    mutation: Mutation
    noticed: str = ""
    by: str = ""
    survived: list[str] = field(default_factory=list)

    @property
    def area(self) -> str:
        """What the table counts it as."""
        parts = Path(self.mutation.path).parts
        if OF_THE_GATEWAY.match(self.mutation.path):
            return "gateway"
        return "SDK" if parts[0] == "clients" else f"server, {parts[2]}" if len(parts) > 3 else "server"


@dataclass(frozen=True)
class Ended:
    """How a run of tests has ended: `failed` has their ids, and is empty too where none could begin, or one hung."""

    is_passed: bool
    failed: list[str]


class Tree:
    """A checkout with a .venv of its own, in which the tests run."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        self._workers = workers
        self.has_tiers = (folder / "tests/tiers.py").exists()

    @contextmanager
    def mutated(self, mutants: Sequence[Mutant]) -> Iterator[None]:
        """Apply them meanwhile. The times of the files come back too: what Python made of them stays good."""
        files = {self.folder / mutant.mutation.path for mutant in mutants}
        before = {file: (file.read_text(), file.stat()) for file in files}
        try:
            for file, (text, _) in before.items():
                here = [each.mutation for each in mutants if self.folder / each.mutation.path == file]
                file.write_text(applied(text, here))
            yield
        finally:
            for file, (text, stat) in before.items():
                file.write_text(text)
                os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def run(self, *words: str, workers: int | None = None, secs: float = LONGEST_SECS) -> Ended:
        """Run tests, so long at most. pytest's list of what failed has the ids as they can be given to it again."""
        venv = self.folder / ".venv/bin"
        # What Python makes of a mutated source is kept for nobody.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PATH": f"{venv}:{os.environ['PATH']}"}
        environment.pop("CI", None)
        with tempfile.TemporaryDirectory() as cache:
            count = self._workers if workers is None else workers
            # A signal does not end what a mutant lets turn for ever: a thread ends the whole process.
            command = [str(venv / "pytest"), "--quiet", "--timeout-method=thread"]
            with subprocess.Popen(
                [*command, f"--numprocesses={count}", "--dist=worksteal", "-o", f"cache_dir={cache}", *words],
                cwd=self.folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process:
                try:
                    code = process.wait(secs)
                except BaseException as error:
                    os.killpg(process.pid, signal.SIGKILL)
                    if not isinstance(error, subprocess.TimeoutExpired):
                        raise
                    return Ended(secs < LONGEST_SECS, [])
            kept = Path(cache, "v/cache/lastfailed")
            return Ended(code in (0, NOTHING_RAN), sorted(json.loads(kept.read_text())) if kept.exists() else [])

    def notices(self, mutants: Sequence[Mutant], failed: Sequence[str], *words: str) -> str:
        """The test that fails with these, of those that have failed before; empty for none."""
        with self.mutated(mutants):
            ended = self.run("-x", *words, *failed, workers=0)
        return "" if ended.is_passed else ended.failed[0] if ended.failed else "none could run"

    def nearest(self, path: str) -> list[str]:
        """The tests that import a module or are named after it, or else those of the folder that mirrors its own."""
        file = Path(path)
        tests = self.folder / "tests"
        if file.suffix != ".py":
            return ["tests/gateway"]
        parts = file.with_suffix("").parts[1 if path.startswith("server/") else 2 :]
        package, module = ".".join(parts[:-1]), parts[-1]
        imports = re.compile(rf"\b{re.escape('.'.join(parts))}\b|from {re.escape(package)} import .*\b{module}\b")
        every = sorted(tests.rglob("test_*.py"))
        near = [each for each in every if f"_{module}" in each.stem or imports.search(each.read_text())]
        mirrored = tests / "clients/python" if parts[0] == "taskyard" else tests.joinpath(*parts[1:-1])
        if not near and mirrored != tests and mirrored.is_dir():
            near = [mirrored]
        return [str(each.relative_to(self.folder)) for each in near]


def alone(tree: Tree, mutant: Mutant, words: Sequence[str]) -> None:
    """The first stage: the nearest tests, until one fails twice."""
    tests = tree.nearest(mutant.mutation.path)
    by_chance: list[str] = []
    while tests and not mutant.noticed:
        with tree.mutated([mutant]):
            given = ("-x", f"--timeout={A_NEAREST_SECS}", *words, *(f"--deselect={test}" for test in by_chance))
            ended = tree.run(*given, *tests, secs=NEAREST_SECS)
        if ended.is_passed:
            break
        mutant.by = tree.notices([mutant], ended.failed, given[1]) if ended.failed else "none could run"
        mutant.noticed = "nearest" if mutant.by else ""
        by_chance += ended.failed
    mutant.survived.append("nearest")


def together(tree: Tree, mutants: Sequence[Mutant], stage: str, words: Sequence[str], keep: Callable[[], None]) -> None:
    """A later stage: whoever alone fails a test that all together fail is noticed; again, until none fails any more."""
    left, excused = list(mutants), list[str]()
    while left:
        print(f"{stage}: {len(left)} together", flush=True)
        with tree.mutated(left):
            limit = f"--maxfail={MOST_FAILURES}"
            ended = tree.run(limit, *words, *(f"--deselect={test}" for test in excused))
        if ended.is_passed or (ended.failed and set(ended.failed) <= set(excused)):
            break
        without = tree.run(*ended.failed) if ended.failed else ended
        told = [test for test in ended.failed if test not in without.failed]
        for mutant in left if told else ():
            mutant.by = tree.notices([mutant], told)
            mutant.noticed = stage if mutant.by else ""
            say(mutant)
            keep()
        if len(left) == 1 and not ended.failed:
            left[0].noticed, left[0].by = stage, "none could run, or one hung"
        count = len(left)
        left = [mutant for mutant in left if not mutant.noticed]
        if len(left) == count:
            if not ended.failed or (told and tree.notices(left, told)):
                # They hide one another, or it takes several of them.
                given = [*words, *(f"--deselect={test}" for test in excused)]
                together(tree, left[: count // 2], stage, given, keep)
                together(tree, left[count // 2 :], stage, given, keep)
                return
            print(f"fail without mutants too, or by chance: {' '.join(ended.failed)}", flush=True)
            excused += ended.failed
    for mutant in left:
        mutant.survived.append(stage)
    keep()


def say(mutant: Mutant) -> None:
    """A line for each mutant that a run was about."""
    print(f"{mutant.number:3} {mutant.mutation.path}:{mutant.mutation.line}: {mutant.by or 'survives'}", flush=True)


def table(mutants: Sequence[Mutant]) -> str:
    """How many were noticed in which stage, by area, and each survivor as a difference."""
    rows: list[tuple[str, ...]] = [("", "mutants", *STAGES, "survived")]
    for area in [*sorted({mutant.area for mutant in mutants}), "in all"]:
        counts = Counter(each.noticed for each in mutants if area in (each.area, "in all"))
        rows.append((area, *map(str, (counts.total(), *(counts[stage] for stage in STAGES), counts[""]))))
    lines = [f"{row[0]:22}" + "".join(f"{cell:>9}" for cell in row[1:]) for row in rows]
    return "\n".join([*lines, *(f"\n{each.number}: {each.mutation}" for each in mutants if not each.noticed)])


def read(file: Path) -> list[Mutant]:
    """The mutants of a list."""
    return [Mutant(**{**each, "mutation": Mutation(**each["mutation"])}) for each in json.loads(file.read_text())]


def write(file: Path | None, mutants: Sequence[Mutant]) -> None:
    """Keep the mutants in a list, if there is to be one."""
    if file is not None:
        file.write_text(json.dumps([asdict(mutant) for mutant in mutants], indent=1) + "\n")


def prepared(folder: Path) -> None:
    """Make a clone of what is committed here, and set it up."""
    if not folder.exists():
        subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    subprocess.run(["make", "--silent", "-C", folder, "setup"], check=True, stdout=subprocess.DEVNULL)
    if subprocess.run(["git", "status", "--porcelain"], cwd=folder, capture_output=True, check=True).stdout:
        sys.exit(f"{folder}: has changes that are not committed; it must be a checkout that nobody works in")


def picked(folder: Path, under: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """The mutants of a seed."""
    listed = subprocess.run(["git", "ls-files", *under], cwd=folder, capture_output=True, text=True, check=True).stdout
    paths = [each for each in listed.split() if each.endswith((".py", ".lua", ".yaml")) and not GENERATED.search(each)]
    texts = {path: (folder / path).read_text() for path in paths}
    return [Mutant(number, mutation) for number, mutation in enumerate(pick(texts, count, seed), 1)]


def main() -> None:
    """Find or read the mutants, and run each stage that they have not been through."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="which mutations (%(default)s)")
    parser.add_argument("--count", type=int, default=50, help="how many (%(default)s)")
    parser.add_argument("--under", nargs="+", default=SOURCES, metavar="PATH", help="of these files or folders alone")
    parser.add_argument(
        "--list", type=Path, metavar="FILE", help="read them there if it exists, and keep what is found"
    )
    parser.add_argument("--only", type=int, metavar="N", help="this one alone")
    parser.add_argument("--stages", nargs="*", default=STAGES[:3], choices=STAGES, help="the tests that run")
    parser.add_argument("--tree", type=Path, default=ROOT / ".bench/mutants", help="the clone (%(default)s)")
    parser.add_argument("--workers", type=int, default=3, help="tests at once (%(default)s)")
    given, words = parser.parse_known_args()
    os.nice(10)
    # On SIGTERM, too, the sources are as they were.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    prepared(given.tree)
    tree = Tree(given.tree.resolve(), given.workers)
    # A word that pytest does not know is not to look like a mutant that is noticed.
    if not tree.run("--collect-only", *words, workers=0).is_passed:
        sys.exit(f"pytest cannot run there: {' '.join(words)}")
    is_kept = given.list is not None and given.list.exists()
    mutants = read(given.list) if is_kept else picked(tree.folder, given.under, given.count, given.seed)
    write(given.list, mutants)
    chosen = [mutant for mutant in mutants if given.only in (None, mutant.number)]
    for mutant in chosen:
        file = tree.folder / mutant.mutation.path
        if not file.exists() or mutant.mutation.place(file.read_text()) is None:
            sys.exit(f"is not in {tree.folder}: {mutant.number}: {mutant.mutation}")
    for stage in given.stages:
        tier = [f"--tier={stage}"] if stage in ("test", "gate") else []
        left = [mutant for mutant in chosen if not mutant.noticed and stage not in mutant.survived]
        if stage != "nearest":
            together(tree, left, stage, [*words, *tier], lambda: write(given.list, mutants))
        for mutant in left if stage == "nearest" else ():
            alone(tree, mutant, [*words, *(["--tier=test"] if tree.has_tiers else [])])
            say(mutant)
            write(given.list, mutants)
    print(table(chosen))


if __name__ == "__main__":
    main()
