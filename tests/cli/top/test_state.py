"""What the keys of `taskyard top` do."""

import pytest

from taskyard_server.cli.top.state import AGENT_ORDERS, HOST_ORDERS, Panel, State, Wish, keys_of, pressed
from tests.cases import every_case

NAMES = ["acme", "default", "umbrella"]


def after(*keys, **given):
    """What is chosen after these keys, and what the last one asked for."""
    state, wish = State(**{"namespace": "default", **given}), Wish.NOTHING
    for key in keys:
        state, wish = pressed(state, key, NAMES)
    return state, wish


@pytest.mark.parametrize("key", ["q", "\x04"])
def test_q_and_ctrl_d_end_it(key):
    assert after(key)[1] is Wish.QUIT


@pytest.mark.parametrize("key", ["p", " "])
def test_a_pause_holds_the_picture_and_its_end_reads_at_once(key):
    assert after(key) == (State("default", is_paused=True), Wish.NOTHING)
    assert after(key, key) == (State("default"), Wish.READ)


def test_r_reads_at_once():
    assert after("r")[1] is Wish.READ


def test_s_goes_through_the_orders_of_the_table_in_front():
    assert [after(*("s" * times))[0].agent_order for times in range(len(AGENT_ORDERS))] == list(AGENT_ORDERS)
    assert after(*("s" * len(AGENT_ORDERS)))[0] == State("default")
    assert after("tab", "s")[0].host_order == HOST_ORDERS[1]
    assert after("tab", "s")[0].agent_order == AGENT_ORDERS[0]


def test_tab_changes_the_table_in_front_and_begins_at_its_top():
    assert after("down", "tab")[0] == State("default", panel=Panel.HOSTS)
    assert after("tab", "tab")[0].panel is Panel.AGENTS


def test_n_goes_to_the_next_namespace_and_round():
    assert after("n") == (State("umbrella"), Wish.READ)
    assert after("n", "n")[0].namespace == "acme"
    assert after("N")[0].namespace == "acme"
    assert pressed(State("alone"), "n", [])[0].namespace == "alone"


def test_another_namespace_ends_a_pause():
    assert not after("p", "n")[0].is_paused


def test_arrows_scroll_and_stop_at_the_top():
    assert after("down", "j", "up")[0].scrolled == 1
    assert after("up", "k")[0].scrolled == 0
    assert after("page down", "page up", "page down")[0].scrolled == 10


def test_help_comes_and_goes():
    assert after("?")[0].has_help
    assert after("?", "h")[0] == State("default")


def test_other_keys_do_nothing():
    assert after("x", "Q", "é") == (State("default"), Wish.NOTHING)


@every_case(
    ("typed", "keys"),
    [
        ("sq", ["s", "q"]),
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1bOA\t\x1b[Z", ["up", "tab", "tab"]),
        ("\x1b[5~s", ["page up", "s"]),
        ("\x1b[15~\x1b[1;5Cq", ["q"]),
        ("\x1b", []),
        ("", []),
    ],
)
def test_sequences_of_a_terminal_are_keys_and_never_letters(typed, keys):
    assert keys_of(typed) == keys
