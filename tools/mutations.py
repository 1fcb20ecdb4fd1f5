"""Which small changes a source can have, which of them a seed picks, and what they make of a text. For `mutants.py`.

Each changes one place of one file. Left out is what no test is to hold: annotations, docstrings, decorators, logs,
`__repr__`, assertions, and what only type checkers read. All is made from texts alone, and so the same everywhere.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random

Edit = tuple[int, int, str]
"""From where to where in a text, and what stands there instead."""

OPPOSITE = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "~=": "==", "+": "-", "-": "+",
    "and": "or", "or": "and", "true": "false", "false": "true", "min": "max", "max": "min",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
COMPARISON = re.compile(r"[<>]=?|[=!]=|\b(?:is not|is|not in|in)\b")
LOGGING = {"debug", "info", "warning", "error", "exception", "critical"}
OF_NO_EFFECT = {"strict", "frozen", "slots", "maxsize"}
"""Arguments by name that only guard or speed up."""
STRING = r"""(?P<left>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|%s)|"""
LUA = re.compile(
    STRING % r"--[^\n]*"
    + r"(?P<number>\b(?:0x[0-9A-Fa-f]+|\d+)\b)|(?P<no>\bnot )|(?P<word>\b(?:and|or|true|false)\b|[<>]=?|[=~]=|[+-])"
)
YAML = re.compile(
    STRING % r"(?:^|(?<=\s))\#[^\n]*"
    + r"(?P<number>(?<![\w.&*:-])\d+(?=s?\b(?![.:])))|(?P<no>\b\B)|(?P<word>\b(?:true|false)\b)"
)


@dataclass(frozen=True, slots=True)
class Mutation:
    """`after` instead of `before` at this line, from 1, and column, from 0; `whole` is that line as it was."""

    path: str
    line: int
    column: int
    before: str
    after: str
    whole: str

    def place(self, text: str) -> int | None:
        """Where it begins in this form of the file: on the nearest line of the same words. None if there is none."""
        lines = text.split("\n")
        same = [number for number, line in enumerate(lines, 1) if line == self.whole]
        for number in sorted(same, key=lambda number: abs(number - self.line)):
            start = sum(len(line) + 1 for line in lines[: number - 1]) + self.column
            if text.startswith(self.before, start):
                return start
        return None

    def __str__(self) -> str:
        """Its place, and the line before and after."""
        first, *others = (self.whole[: self.column] + self.after).split("\n")
        rest = self.whole[self.column + len(self.before) :] if "\n" not in self.before else ""
        lost = self.before.count("\n")
        more = f"  (and {lost} lines more)" if lost else ""
        return f"{self.path}:{self.line}\n-{self.whole}{more}\n+{first}{' ...' if others else ''}{rest}"


def applied(text: str, mutations: Iterable[Mutation]) -> str:
    """The text with all of these. Raises `ValueError` for one whose place is not there."""
    places = [(mutation.place(text), mutation) for mutation in mutations]
    for start, mutation in sorted(places, key=lambda each: -1 if each[0] is None else each[0], reverse=True):
        if start is None or not text.startswith(mutation.before, start):
            raise ValueError(f"is not there: {mutation}")
        text = text[:start] + mutation.after + text[start + len(mutation.before) :]
    return text


def possible(path: str, text: str) -> list[Mutation]:
    """All mutations of a file."""
    edits = python_edits(text) if path.endswith(".py") else edits_by_rules(text, LUA if path.endswith(".lua") else YAML)
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    found: list[Mutation] = []
    number = 0
    for start, end, after in sorted(edits):
        while starts[number + 1] <= start:
            number += 1
        found.append(Mutation(path, number + 1, start - starts[number], text[start:end], after, lines[number]))
    return found


def pick(files: Mapping[str, str], count: int, seed: int) -> list[Mutation]:
    """So many mutations of these texts by their paths, each on a line of its own. Each line is as likely as another."""
    by_line: dict[tuple[str, int], list[Mutation]] = defaultdict(list)
    for path in sorted(files):
        for mutation in possible(path, files[path]):
            by_line[path, mutation.line].append(mutation)
    random = Random(seed)
    lines = sorted(by_line)
    random.shuffle(lines)
    picked: list[Mutation] = []
    taken: set[tuple[str, int]] = set()
    for path, line in lines:
        if len(picked) == count:
            break
        mutation = random.choice(by_line[path, line])
        covered = {(path, line + further) for further in range(mutation.before.count("\n") + 1)}
        if taken.isdisjoint(covered) and _is_sound(mutation, files[path]):
            picked.append(mutation)
            taken |= covered
    return picked


def edits_by_rules(text: str, rules: re.Pattern[str]) -> Iterator[Edit]:
    """The edits of a language that is not read as a tree: of numbers, comparisons and a few words."""
    for found in rules.finditer(text):
        if found["number"]:
            yield (*found.span(), str(int(found["number"], 0) + 1))
        elif found["no"]:
            yield (*found.span(), "")
        elif found["word"]:
            yield (*found.span(), OPPOSITE[found["word"]].replace("!=", "~="))


def python_edits(text: str) -> Iterator[Edit]:
    """The edits of a source in Python."""
    finder = _Finder(text)
    finder.visit(ast.parse(text))
    return iter(finder.edits)


def _is_sound(mutation: Mutation, text: str) -> bool:
    try:
        ast.parse(applied(text, [mutation]) if mutation.path.endswith(".py") else "")
    except SyntaxError:
        return False
    return True


class _Finder(ast.NodeVisitor):
    """Collects the edits of a tree."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))
        self.edits: list[Edit] = []
        self.returns_none = False

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        # A body of dots has nothing that runs: it is of an overload, or of a protocol.
        if node.name == "__repr__" or ast.unparse(node.body[-1]) == "...":
            return
        outer = self.returns_none
        self.returns_none = isinstance(node.returns, ast.Constant) and node.returns.value is None
        self._visit_all([*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body])
        self.returns_none = outer

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all([node.value] if node.value else [])

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            return
        if isinstance(node.targets[0], ast.Attribute):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Attribute):
            self._replace(node, "pass")
        self._swap(node.target, node.value, re.compile(r"[+-](?==)"))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and not _is_log(call):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _is_log(node):
            return
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            self._replace(node.func, OPPOSITE[node.func.id])
        self._visit_all([node.func, *node.args])
        self._visit_all([each.value for each in node.keywords if each.arg not in OF_NO_EFFECT])

    def visit_If(self, node: ast.If | ast.While) -> None:
        if ast.unparse(node.test).endswith("TYPE_CHECKING"):
            self._visit_all(node.orelse)
            return
        if not isinstance(node.test, (ast.UnaryOp, ast.Constant)):
            start, end = self._span(node.test)
            self.edits.append((start, end, f"not ({self.text[start:end]})"))
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self.visit_If(node)

    def visit_Return(self, node: ast.Return) -> None:
        is_plain = isinstance(node.value, ast.Constant) and node.value.value in (None, True, False)
        if node.value is not None and not is_plain and not self.returns_none:
            self._replace(node, "return None")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, right in pairwise([node.left, *node.comparators]):
            self._swap(left, right, COMPARISON)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in pairwise(node.values):
            self._swap(left, right, re.compile(r"\b(?:and|or)\b"))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = (ast.JoinedStr, ast.List, ast.Tuple)
        if not any(isinstance(side, texts) or _is_text(side) for side in (node.left, node.right)):
            self._swap(node.left, node.right, re.compile("[+-]"))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self._span(node)[0]
            self.edits.append((start, start + len("not "), ""))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, (int, float)):
            self._replace(node, repr(node.value + 1))

    def visit_Assert(self, node: ast.Assert) -> None:
        """It is for type checkers."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Before Python 3.12 what stands within has no places of its own."""

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Columns of a tree count bytes."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def _replace(self, node: ast.expr | ast.stmt, after: str) -> None:
        self.edits.append((*self._span(node), after))

    def _swap(self, left: ast.expr, right: ast.expr, operator: re.Pattern[str]) -> None:
        """An operator between two parts, unless a comment stands there too."""
        start, end = self._span(left)[1], self._span(right)[0]
        found = None if "#" in self.text[start:end] else operator.search(self.text, start, end)
        if found:
            self.edits.append((*found.span(), OPPOSITE[found[0]]))


def _is_log(call: ast.Call) -> bool:
    func = call.func
    return isinstance(func, ast.Attribute) and func.attr in LOGGING and "log" in ast.unparse(func.value).lower()


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
