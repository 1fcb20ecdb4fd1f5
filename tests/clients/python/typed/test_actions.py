"""An action says what a kind of task takes and returns, and which fields its tasks have by default."""

from datetime import timedelta
from typing import Any, Generic, TypeVar

import pytest

from taskyard import Action, BadValue, Payload, RetryPolicy, task_of

from .crawling import Links, Page, count, crawl, ping


def test_an_action_knows_its_name_and_types():
    assert (crawl.name, crawl.input_type, crawl.output_type) == ("crawl", Page, Links)
    assert (count.input_type, count.output_type) == (list[int], int)


def test_a_class_of_actions_has_the_types_of_its_base():
    class Crawl(Action[Page, Links]):
        pass

    assert (Crawl("crawl").input_type, Crawl("crawl").output_type) == (Page, Links)


T = TypeVar("T")
U = TypeVar("U")


class Listing(Action[T, list[T]]):
    """What lists things."""


class Swapped(Action[U, T], Generic[T, U]):
    """Its types are in another order than the action's."""


class ListingPages(Listing[Page]):
    """What lists pages."""


def test_a_generic_class_of_actions_has_the_types_that_it_is_given():
    assert (Listing[int]("list").input_type, Listing[int]("list").output_type) == (int, list[int])
    assert (Swapped[int, str]("swap").input_type, Swapped[int, str]("swap").output_type) == (str, int)
    assert (ListingPages("list").input_type, ListingPages("list").output_type) == (Page, list[Page])
    with pytest.raises(TypeError, match="has no types"):
        _ = Listing("list").input_type


def test_an_action_without_types_is_refused_where_it_is_used():
    untyped: Action[Any, Any] = Action("crawl")
    with pytest.raises(TypeError, match=r"write Action\[Input, Output\]\('crawl'\)"):
        _ = untyped.input_type


@pytest.mark.parametrize("name", ["", None, 5])
def test_an_action_needs_a_name(name):
    with pytest.raises(ValueError, match="an action has a name"):
        Action[Page, Links](name)


def test_defaults_are_values_or_functions_of_the_input():
    task = task_of(crawl, Page("wiki/Turing"))
    assert (task.action, task.params) == ("crawl", {"url": "wiki/Turing", "size": 0})
    assert (task.target, task.labels, task.deadline) == ("wiki", {"kind": "crawl"}, timedelta(minutes=5))
    assert task.retry_policy == RetryPolicy(max_attempts=1, first_delay=timedelta(milliseconds=5))
    assert task_of(crawl, Page("turing")).target is None


def test_a_call_goes_before_the_defaults():
    policy = RetryPolicy(3)
    task = task_of(crawl, Page("wiki/Turing"), target="t", deadline=None, retry=policy)
    assert (task.target, task.deadline, task.retry_policy) == ("t", None, policy)


def test_an_input_that_params_cannot_hold_travels_as_a_payload():
    assert task_of(crawl, Page("a", 2**60)).input == Payload(b'{"url":"a","size":1152921504606846976}')
    assert task_of(count, [1, 2]).input == Payload(b"[1,2]")
    assert (task_of(ping, None).params, task_of(ping, None).input) == (None, None)


def test_an_input_that_does_not_fit_is_refused_with_its_place():
    with pytest.raises(BadValue, match=r"^input.size: expected `int`, got `str` \(action 'crawl'\)$") as raised:
        task_of(crawl, Page("a", "large"))  # type: ignore[arg-type]
    assert raised.value.path == "input.size"
    with pytest.raises(BadValue, match=r"^input: expected Page, got dict"):
        task_of(crawl, {"url": "a"})  # type: ignore[arg-type]
    with pytest.raises(BadValue, match=r"^input\[1\]: expected `int`, got `str`"):
        task_of(count, [1, "2"])  # type: ignore[list-item]


def test_params_are_not_for_typed_actions():
    with pytest.raises(TypeError, match="params: the input of 'crawl' is the second argument"):
        task_of(crawl, Page("a"), params={})  # type: ignore[call-arg]


def test_retry_is_short_for_retry_policy_and_only_one_is_given():
    with pytest.raises(TypeError, match="retry and retry_policy are the same"):
        task_of(crawl, Page("a"), retry=RetryPolicy(), retry_policy=RetryPolicy())
