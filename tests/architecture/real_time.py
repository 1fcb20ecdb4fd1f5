"""Finds where tests depend on how fast the machine is: they sleep, bound real time, or have limits of their own."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.waiting import LIMIT_SECS

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}
OF_CLOCKS = {"time", "loop", "asyncio.get_running_loop()", "asyncio.get_event_loop()"}
NAMES = (ast.Name, ast.Attribute)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WORDS = re.compile(
    r"\b(sleep\(|monotonic|perf_counter|time\.time|(loop|loop\(\))\.time|asyncio\.(timeout|wait))|setattr\(.*time"
)
"""A file without any of them does nothing with real time, and is not parsed."""


def real_time(source: str) -> list[str]:
    """What a file of tests does with real time, each as `line: what`."""
    if not WORDS.search(source):
        return []
    tree = ast.parse(source)
    constants = {
        target.id: secs
        for node in tree.body
        if isinstance(node, ast.Assign) and (secs := _number(node.value, {})) is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    look = _Look(constants)
    look.body(tree)
    return [f"{line}: {what}" for line, what in sorted(look.found)]


@dataclass
class _Look:
    """A look at a function or the outermost level: `clocks` are the names of times, `spans` of what lay between two."""

    constants: dict[str, float]
    clocks: set[str] = field(default_factory=set)
    spans: set[str] = field(default_factory=set)
    found: set[tuple[int, str]] = field(default_factory=set)

    def body(self, scope: ast.AST) -> None:
        """Look at all of a scope. Functions inside one know its names."""
        nodes = list(_own_nodes(scope))
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target, value in _pairs(targets, node.value):
                    if self._is_span(value):
                        self.spans.add(ast.unparse(target))
                    elif self._is_of_clock(value):
                        self.clocks.add(ast.unparse(target))
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.Compare):
                self._compare(node)
            elif isinstance(node, (*FUNCTIONS, ast.Lambda)):
                inner = _Look(self.constants, set(self.clocks), set(self.spans), self.found)
                inner.body(node)
                # What a class keeps of a clock is known to all of its methods.
                self.clocks |= {name for name in inner.clocks if "." in name}
                self.spans |= {name for name in inner.spans if "." in name}

    def _call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        if name in ("time.sleep", "asyncio.sleep", "sleep") and node.args and _number(node.args[0], {}) != 0:
            self.found.add((node.lineno, "sleeps"))
        elif name.endswith("setattr") and any(_is(argument, "time") for argument in node.args):
            if any("loop" in ast.unparse(argument) for argument in node.args[:1]):
                self.found.add((node.lineno, "stops the time of the event loop"))
        elif name in ("asyncio.timeout", "asyncio.wait_for", "asyncio.wait"):
            given = [*node.args[-1:], *(keyword.value for keyword in node.keywords if keyword.arg == "timeout")]
            secs = _number(given[-1], self.constants) if given else None
            if secs is not None and 0 < secs < LIMIT_SECS:
                self.found.add((node.lineno, "waits with a limit of its own"))

    def _compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            ordered = {ast.Lt: (left, right), ast.LtE: (left, right), ast.Gt: (right, left), ast.GtE: (right, left)}
            lesser, greater = ordered.get(type(operator), (None, None))
            if lesser is None or greater is None:
                continue
            # A time that was told may well lie between two that were read.
            if self._is_span(lesser) or (self._is_of_clock(lesser) and self._is_of_clock(greater)):
                self.found.add((node.lineno, "bounds real time"))

    def _is_of_clock(self, value: ast.AST) -> bool:
        return any(
            _reads_clock(node) or (self.clocks and isinstance(node, NAMES) and ast.unparse(node) in self.clocks)
            for node in ast.walk(value)
        )

    def _is_span(self, value: ast.AST) -> bool:
        return any(
            self._is_of_clock(node.right) or (self._is_of_clock(node.left) and _number(node.right, {}) is None)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
            else self.spans and isinstance(node, NAMES) and ast.unparse(node) in self.spans
            for node in ast.walk(value)
        )


def _reads_clock(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCKS
        and ast.unparse(node.func.value) in OF_CLOCKS
    )


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """All below a node, but for what is inside the functions there."""
    todo = deque(ast.iter_child_nodes(scope))
    while todo:
        node = todo.popleft()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            todo += ast.iter_child_nodes(node)


def _pairs(targets: list[ast.expr], value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in targets:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            yield from zip(target.elts, value.elts, strict=False)
        else:
            yield target, value


def _is(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _number(node: ast.AST, constants: dict[str, float]) -> float | None:
    """The number that an expression is, with the constants of its file; None where it is none."""
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}, dict(constants))
    except Exception:
        return None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
