"""tools/mutations.py: which small changes a source can have, and what they make of it."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tools.mutations import applied, pick, possible

ROOT = Path(__file__).parents[2]
SOURCE = '''"""Doubles 2."""
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from limits import Limit

__all__ = ["double"][:1]
MOST: Annotated[int, range(9)] = 7


def double(number: int) -> int:
    """Twice, and not 3 times."""
    if number < MOST:
        log.info("small", number + 1)
    return number


def tell(self) -> None:
    self.told = True
    say(max(1, 2), strict=True)
    assert not self.quiet
    return


class Pair:
    def all(self, most: int = 5) -> None: ...

    def __repr__(self):
        return "1" if self.one else "2"
'''


def of(source: str, path: str = "it.py") -> list[str]:
    """What each mutation makes of a source."""
    return [applied(source, [mutation]) for mutation in possible(path, source)]


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = a == b in c", ["x = a != b in c", "x = a == b not in c"]),
        ("x = (a) and (b)", ["x = (a) or (b)"]),
        ("x = not (a or b)", ["x = (a or b)", "x = not (a and b)"]),
        ("x = 7", ["x = 8"]),
        ("x = 2.5", ["x = 3.5"]),
        ("x = True", ["x = False"]),
        ("x = a - b", ["x = a + b"]),
        ("x = 'a' + b", []),
        ("x += y", ["x -= y"]),
        ("x.y = z", ["pass"]),
        ("await run()", ["pass"]),
        ("x = min(a, b)", ["x = max(a, b)"]),
        ("if a:\n    x = b", ["if not (a):\n    x = b"]),
        ("if not a:\n    x = b", ["if a:\n    x = b"]),
        ("def f():\n    return a", ["def f():\n    return None"]),
        ("def f() -> None:\n    return a", []),
        ("def f():\n    return\n    return None", []),
        ("ä = 'é'; b = 1", ["ä = 'é'; b = 2"]),
        ("say(\n    a\n)", ["pass"]),
    ],
)
def test_python_has_these_mutations(source: str, changed: list[str]) -> None:
    assert of(source) == changed


def test_what_no_test_is_to_hold_stays() -> None:
    changed = [
        next(new for new, old in zip(text.split("\n"), SOURCE.split("\n"), strict=True) if new != old)
        for text in of(SOURCE)
    ]
    assert changed == [
        "MOST: Annotated[int, range(9)] = 8",
        "    if not (number < MOST):",
        "    if number <= MOST:",
        "    return None",
        "    pass",
        "    self.told = False",
        "    pass",
        "    say(min(1, 2), strict=True)",
        "    say(max(2, 2), strict=True)",
        "    say(max(1, 3), strict=True)",
    ]


def test_lua_has_these_mutations() -> None:
    source = 'if not a and b ~= 0x0F then -- or 1\n  say("1 and 2")\nend'
    first = [text.split("\n")[0] for text in of(source, "it.lua")]
    assert first == [
        "if a and b ~= 0x0F then -- or 1",
        "if not a or b ~= 0x0F then -- or 1",
        "if not a and b == 0x0F then -- or 1",
        "if not a and b ~= 16 then -- or 1",
    ]


def test_yaml_has_these_mutations() -> None:
    source = 'a: {status: 403, body: "true 1"} # 2\nb: {timeout: 30s, host: 127.0.0.1, on: true, v: v3}'
    assert of(source, "it.yaml") == [
        source.replace("403", "404"),
        source.replace("30s", "31s"),
        source.replace("on: true", "on: false"),
    ]


def test_a_seed_picks_the_same_each_time_and_each_on_a_line_of_its_own() -> None:
    files = {"it.py": SOURCE, "other.py": "x = 1\n" * 20}
    picked = pick(files, 10, seed=3)
    assert picked == pick(files, 10, seed=3) != pick(files, 10, seed=4)
    assert len({(mutation.path, mutation.line) for mutation in picked}) == 10
    together = applied(files["it.py"], [each for each in picked if each.path == "it.py"])
    assert together != files["it.py"]


def test_all_that_is_picked_compiles() -> None:
    path = "server/taskyard_server/core/grants.py"
    text = (ROOT / path).read_text()
    picked = pick({path: text}, 30, seed=1)
    assert len(picked) == 30
    for mutation in picked:
        ast.parse(applied(text, [mutation]))


def test_a_line_is_found_where_it_stands_in_another_version() -> None:
    source = "x = 1\ny = 2\n"
    first, second = possible("it.py", source)
    later = "x = 1\n\n# What it is.\ny = 2\nx = 1\n"
    assert applied(later, [first, second]) == "x = 2\n\n# What it is.\ny = 3\nx = 1\n"
    assert applied(later, [replace(first, line=5)]) == "x = 1\n\n# What it is.\ny = 2\nx = 2\n"
    with pytest.raises(ValueError, match=r"is not there: it\.py:2"):
        applied("x = 1\n", [second])


def test_a_mutation_is_shown_as_a_difference() -> None:
    one, several = possible("it.py", "x = 1\nsay(\n    x\n)\n")
    assert str(one) == "it.py:1\n-x = 1\n+x = 2"
    assert str(several) == "it.py:2\n-say(  (and 2 lines more)\n+pass"
