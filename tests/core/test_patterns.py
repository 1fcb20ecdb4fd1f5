"""Patterns: which one counts for a name, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_server.core.patterns import PatternTable, check_pattern
from tests.cases import every_case

NAMES = st.text("ab:", max_size=6)
PATTERNS = st.builds(lambda name, star: name + star, NAMES, st.sampled_from(["", "*"])).filter(bool)


def test_a_pattern_is_a_name_or_the_beginning_of_names():
    table = PatternTable({"site:shop": 1, "user:*": 2})
    assert table.match("site:shop") == ("site:shop", 1)
    assert table.match("site:shop2") is None
    assert table.match("user:") == ("user:*", 2)
    assert table.match("user:ann") == ("user:*", 2)
    assert table.match("use") is None


def test_the_longest_beginning_alone_counts_and_a_name_in_full_is_the_longest():
    table = PatternTable({"*": 0, "site:*": 1, "site:shop*": 2, "site:shop": 3})
    assert [table.match(name) for name in ("x", "site:a", "site:shopping", "site:shop")] == [
        ("*", 0),
        ("site:*", 1),
        ("site:shop*", 2),
        ("site:shop", 3),
    ]


@given(st.dictionaries(PATTERNS, st.integers(), max_size=12), NAMES)
def test_a_match_is_the_longest_of_all_that_match(values, name):
    def matches(pattern):
        return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern

    fitting = sorted(filter(matches, values), key=lambda each: (not each.endswith("*"), len(each)))
    expected = (fitting[-1], values[fitting[-1]]) if fitting else None
    assert PatternTable(values).match(name) == expected


def test_a_name_that_ends_like_a_pattern_is_not_one():
    assert PatternTable({"a*": 1}).match("a*") == ("a*", 1)
    assert PatternTable({"ab*": 1, "a*": 2}).match("a*") == ("a*", 2)


@every_case(
    ("pattern", "fault"),
    [
        ("", "must be a name, or the beginning of names with a [*] at its end"),
        ("  ", "must be a name, or the beginning of names with a [*] at its end"),
        ("a*b", r"may hold a \* only at its end"),
        ("**", r"may hold a \* only at its end"),
        ("a\n", "must not hold control characters"),
        ("a" * 1025, "must be at most 1024 characters"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, fault):
    with pytest.raises(ValueError, match=fault):
        check_pattern(pattern)


def test_the_patterns_are_listed_by_name():
    table = PatternTable({"b": 1, "a*": 2})
    assert list(table.items()) == [("a*", 2), ("b", 1)]
    assert len(table) == 2
