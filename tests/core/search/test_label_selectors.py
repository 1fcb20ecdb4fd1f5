"""Label selectors: what they select, and how one that is malformed is refused (docs/rules.md, Label selectors)."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_server.core.errors import BadRequest
from taskyard_server.core.search.label_selectors import MAX_SELECTOR_CHARS, parse_selector
from tests.cases import every_case

SHOP = {"site": "shop", "env": "prod", "team": "a"}


def selects(text, labels):
    return parse_selector(text).matches(tuple(sorted(labels.items())))


@every_case(
    ("text", "holds"),
    [
        ("site=shop", True),
        ("site==shop", True),
        ("site=news", False),
        ("color=red", False),
        ("site!=news", True),
        ("site!=shop", False),
        ("color!=red", True),
        ("team in (a,b)", True),
        ("team in (b, c)", False),
        ("color in (red)", False),
        ("team notin (c)", True),
        ("team notin (a,c)", False),
        ("color notin (red)", True),
        ("site", True),
        ("color", False),
        ("!color", True),
        ("!site", False),
        ("site=shop,env!=dev,team in (a,b),team notin (c),env,!color", True),
        ("site=shop,env!=prod", False),
        (" site = shop , env!=dev ", True),
        ("site=", False),
        ("team in (,a)", True),
    ],
)
def test_a_selector_holds_if_all_its_requirements_do(text, holds):
    assert selects(text, SHOP) is holds


def test_a_requirement_without_a_value_asks_for_an_empty_one():
    assert selects("site=", {"site": ""})
    assert selects("site in (,x)", {"site": ""})
    assert not selects("site!=", {"site": ""})


def test_the_words_of_the_language_may_be_keys_and_values():
    assert selects("in in (in,notin)", {"in": "notin"})
    assert selects("notin=in,in", {"in": "x", "notin": "in"})


def test_any_key_and_value_may_stand_in_double_quotes():
    assert selects(r'"a key, (odd)"="say \"yes\" \\o/"', {"a key, (odd)": r'say "yes" \o/'})
    assert selects('a in ("b,c","")', {"a": "b,c"})
    assert selects('a=""', {"a": ""})


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_a_blank_text_selects_all(text):
    assert parse_selector(text) is None


@every_case(
    ("text", "message"),
    [
        ("site=shop,", "expected a key, found the end"),
        (",site", 'expected a key, found "," at character 1'),
        ("=shop", 'expected a key, found "=" at character 1'),
        ("!", "expected a key, found the end"),
        ('""=x', 'expected a key, found "" at character 1'),
        ("site shop", 'expected one of = != in notin, "," or the end, found "shop" at character 6'),
        ("site=shop news", 'expected "," or the end, found "news" at character 11'),
        ("!site=shop", 'expected "," or the end, found "=" at character 6'),
        ("site in shop", 'expected "(" after in, found "shop" at character 9'),
        ("site in ()", 'expected a value of in, found ")" at character 10'),
        ("site notin (a", 'expected "," or ")", found the end'),
        ("site in (a b)", 'expected "," or ")", found "b" at character 12'),
        ("site>1", "> at character 5 must stand in double quotes"),
        ('site="shop', '" at character 6 has no end'),
        ("a" * (MAX_SELECTOR_CHARS + 1), "must be at most 4096 characters"),
    ],
)
def test_a_malformed_selector_is_refused_with_the_place(text, message):
    with pytest.raises(BadRequest, match=f"^{re.escape('labels: ' + message)}$"):
        parse_selector(text)


def test_a_long_word_is_cut_in_a_refusal():
    with pytest.raises(BadRequest) as refused:
        parse_selector("site " + "x" * 4_000)
    assert len(refused.value.message) < 150


names = st.sampled_from(["a", "b", "in", "notin", "", "x y", '"', "\\", "é,(", "!="])
keys = names.filter(bool)
requirements = st.one_of(
    st.tuples(st.sampled_from(["=", "==", "!="]), keys, names),
    st.tuples(st.sampled_from(["in", "notin"]), keys, st.lists(names, min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["", "!"]), keys, st.none()),
)


def quoted(word):
    return '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'


def written(requirement):
    relation, key, value = requirement
    if value is None:
        return relation + quoted(key)
    if isinstance(value, list):
        return f"{quoted(key)} {relation} ({','.join(map(quoted, value))})"
    return f"{quoted(key)}{relation}{quoted(value)}"


def holds(requirement, labels):
    """What Kubernetes says of one requirement, told apart from the code under test."""
    relation, key, value = requirement
    there = key in labels
    if relation in ("=", "=="):
        return there and labels[key] == value
    if relation == "!=":
        return not there or labels[key] != value
    if relation == "in":
        return there and labels[key] in value
    if relation == "notin":
        return not there or labels[key] not in value
    return there == (relation == "")


@given(st.lists(requirements, min_size=1, max_size=4), st.dictionaries(keys, names, max_size=4))
def test_selectors_select_what_an_independent_matcher_does(wanted, labels):
    assert selects(",".join(map(written, wanted)), labels) is all(holds(each, labels) for each in wanted)


@given(st.text(alphabet='ab=!,() in"\\', max_size=30))
def test_any_text_is_a_selector_or_refused(text):
    with suppress(BadRequest):
        parse_selector(text)
