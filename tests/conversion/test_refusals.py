"""Items refused in conversion keep their place among the engine's outcomes."""

from taskyard_server.conversion.refusals import converted, with_refusals
from taskyard_server.core.errors import BadRequest

FIRST, SECOND = BadRequest("first"), BadRequest("second")


def test_the_engine_gets_only_converted_items():
    assert converted([FIRST, "a", "b", SECOND]) == ["a", "b"]


def test_outcomes_are_in_the_order_of_the_items():
    assert with_refusals([FIRST, "a", "b", SECOND], [1, 2]) == [FIRST, 1, 2, SECOND]


def test_a_refusal_by_the_engine_takes_the_place_of_its_item():
    assert with_refusals(["a", FIRST, "b"], [SECOND, 2]) == [SECOND, FIRST, 2]


def test_without_refusals_the_outcomes_of_the_engine_are_returned_unchanged():
    outcomes = [1, 2]
    assert with_refusals(["a", "b"], outcomes) is outcomes
