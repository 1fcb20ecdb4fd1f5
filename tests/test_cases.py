"""A table of cases in one test: all are tried, and a failure names those that do not hold."""

import pytest

from tests.cases import every_case


def test_all_cases_are_tried_and_those_that_do_not_hold_are_named():
    tried = []

    @every_case(("number", "limit"), [(1, 2), (3, 2), (4, 2), (0, 2)])
    def is_below(number, limit):
        tried.append(number)
        assert number < limit

    with pytest.raises(ExceptionGroup, match=r"^2 of 4 cases: 3-2, 4-2$") as failed:
        is_below()
    assert tried == [1, 3, 4, 0]
    assert [error.__notes__ for error in failed.value.exceptions] == [["in the case 3-2"], ["in the case 4-2"]]


def test_a_case_in_which_nothing_is_raised_is_named_too():
    @every_case("word", ["a", "b"], ids=["first", "second"])
    def is_refused(word):
        with pytest.raises(KeyError):
            {"a": 1}[word]

    with pytest.raises(BaseExceptionGroup, match=r"^1 of 2 cases: first$"):
        is_refused()


async def test_a_coroutine_is_awaited_for_each_case():
    @every_case("number", [1, 2])
    @every_case("other", [1, 2])
    async def is_same(number, other):
        assert number == other

    with pytest.raises(ExceptionGroup, match=r"^2 of 2 cases: 1, 2$"):
        await is_same()


def test_a_table_without_cases_is_refused():
    with pytest.raises(AssertionError, match="there are no cases of word"):
        every_case("word", [])
