"""Items that were refused in conversion keep their place among the engine's answers."""

from taskyard_server.conversion.refusals import converted, with_refusals
from taskyard_server.core.errors import BadRequest

FIRST, SECOND = BadRequest("first"), BadRequest("second")


def test_the_engine_gets_only_what_could_be_converted():
    assert converted([FIRST, "a", "b", SECOND]) == ["a", "b"]


def test_each_item_is_answered_in_its_place():
    assert with_refusals([FIRST, "a", "b", SECOND], [1, 2]) == [FIRST, 1, 2, SECOND]


def test_a_refusal_by_the_engine_stands_in_the_place_of_its_item():
    assert with_refusals(["a", FIRST, "b"], [SECOND, 2]) == [SECOND, FIRST, 2]


def test_without_a_refusal_the_answers_are_the_engines_own():
    outcomes = [1, 2]
    assert with_refusals(["a", "b"], outcomes) is outcomes
