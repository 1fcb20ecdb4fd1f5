"""What keeps a stranger from losing the way: imports without circles that point one way, short files, telling names.

The order of packages stands in `[tool.importlinter]` of pyproject.toml, and its reasons in docs/develop/design.md.
"""

import subprocess
import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePosixPath

import grimp

from tests.architecture.circles import circles
from tests.cases import every_case

ROOT = Path(__file__).parents[2]
SERVER = "taskyard_server"

RECORDS = {
    "agents",
    "queue.bucket",
    "errors",
    "hosts",
    "queue.keys",
    "queue.lane",
    "queue.lane_order",
    "leases",
    "offers",
    "queue.ready_queue",
    "queue.strands",
    "task",
    "search.task_pages",
    "queue.weights",
}
"""The core's domain: a task is in its agent's lane and under a lease, which is one of a host, which makes offers."""
TRANSITIONS = {"attempts", "grants", "lifecycle", "liveness", "pending", "retention"}
"""`Lifecycle` owns the state of a namespace; each of the others does one part of its transitions, and calls it back."""

LAYERS = (
    {"cli", "app"},
    {"services", "metrics", "telemetry"},
    {"interceptors"},
    {"executors", "webhooks", "replicas", "access"},
    {"gateway"},
    {"engine"},
    {"store"},
    {"conversion", "net", "logs"},
    {"settings"},
    {"core"},
)
"""The packages as docs/develop/design.md has them, the highest first."""

MAX_LINES = 450
LONGER = {
    "deploy/grafana/actions.json": "Grafana reads a dashboard as one file",
    "deploy/grafana/overview.json": "the same",
    "deploy/grafana/store.json": "the same",
    "deploy/helm/taskyard/values.schema.json": "the half is generated from the settings, and Helm reads it as one file",
    "docs/use/api.md": "generated from the protos",
    "docs/use/python.md": "generated from the docstrings",
    "gateway/strict_json.lua": "a fourth is generated from the protos, and Envoy reads a filter as one file",
    "docs/rules.md": "every rule on one page, so that a heading alone tells which one is cited",
    "proto/taskyard/v1/runtime_host.proto": "a resource with its service is one file, by whose name programs import it",
    "proto/taskyard/v1/schedule.proto": "the same",
    "proto/taskyard/v1/task.proto": "the same",
}
"""The files that may be longer, and why."""

VAGUE = {"base", "bases", "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}


@cache
def imports(type_checking: bool) -> dict[str, set[str]]:
    """What each module of the server imports of it, with or without what stands under `if TYPE_CHECKING`."""
    found = grimp.build_graph(SERVER, exclude_type_checking_imports=not type_checking, cache_dir=None)
    return {
        _short(name): {_short(other) for other in found.find_modules_directly_imported_by(name)}
        for name in found.modules
    }


def _short(module: str) -> str:
    return module.removeprefix(f"{SERVER}.")


def layers() -> list[set[str]]:
    """The modules and packages below that of the server by import-linter's contract, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each["type"] == "layers"]
    return [{name.strip() for name in layer.split(":")} for layer in contract["layers"]]


@cache
def files() -> tuple[str, ...]:
    """The files of the work tree that git keeps or would keep, without generated ones."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    # What a link leads to is looked at under its own name.
    names = sorted({name for name in listed if (ROOT / name).is_file() and not (ROOT / name).is_symlink()})
    told = _git("check-attr", "--stdin", "-z", "linguist-generated", given="\0".join(names)).split("\0")
    generated = {name for name, value in zip(told[::3], told[2::3], strict=False) if value == "set"}
    return tuple(name for name in names if name not in generated)


def _git(*words: str, given: str | None = None) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, input=given, capture_output=True, text=True, check=True).stdout


def long_files() -> dict[str, int]:
    """The files that are over the limit, and how many lines they have."""
    texts = [name for name in files() if not name.endswith(".png")]
    counts = {name: len((ROOT / name).read_bytes().splitlines()) for name in texts}
    return {name: lines for name, lines in counts.items() if lines > MAX_LINES}


def test_no_files_import_one_another_when_the_server_runs():
    assert circles(imports(type_checking=False)) == []


def test_only_the_domain_of_the_core_knows_itself():
    # Counting the imports that only types need, as import-linter does.
    expected = [{f"core.{name}" for name in each} for each in (RECORDS, TRANSITIONS)]
    found = circles(imports(type_checking=True))
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))


def test_the_contract_orders_the_packages_as_the_design_does():
    height = {name: -number for number, names in enumerate(layers()) for name in names}
    for above, below in pairwise(LAYERS):
        assert min(height[name] for name in above) > max(height[name] for name in below), f"{above} is above {below}"


def test_each_module_of_the_server_has_its_layer():
    modules = {path.stem for path in (ROOT / "server" / SERVER).iterdir() if path.suffix == ".py"}
    packages = {path.parent.name for path in (ROOT / "server" / SERVER).glob("*/__init__.py")}
    assert (modules | packages) - {"__init__"} == set().union(*layers())


def test_no_import_leads_to_a_layer_above():
    height = {name: -number for number, names in enumerate(layers()) for name in names}
    back = [
        f"{module} imports {imported}"
        for module, others in imports(type_checking=True).items()
        for imported in others
        if SERVER not in (module, imported) and height[imported.split(".")[0]] > height[module.split(".")[0]]
    ]
    assert back == []


def test_no_file_is_too_long():
    too_long = {name: lines for name, lines in long_files().items() if name not in LONGER}
    assert not too_long, f"over {MAX_LINES} lines: look for the second job in each"


def test_each_exception_is_needed():
    assert set(LONGER) - set(long_files()) == set()


def test_no_file_or_folder_has_a_name_that_says_nothing():
    vague = [
        name
        for name in files()
        if any(
            VAGUE & {*part.lower().replace("-", "_").split("_")} for part in PurePosixPath(name).with_suffix("").parts
        )
    ]
    assert vague == []


@every_case(
    ("imported", "expected"),
    [
        ({}, []),
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"a"}}, []),
        ({"a": {"b"}, "b": {"a"}}, [{"a", "b"}]),
        ({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}, "e": {"a"}}, [{"b", "c", "d"}]),
        ({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}, [{"a", "b"}, {"c", "d"}]),
        ({"a": {"outside"}, "b": {"a"}}, []),
    ],
)
def test_circles_are_the_groups_in_which_each_reaches_each(imported, expected):
    assert sorted(map(sorted, circles(imported))) == sorted(map(sorted, expected))
