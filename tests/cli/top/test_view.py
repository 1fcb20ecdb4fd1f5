"""What stands on the screen of `taskyard top`, at any size."""

import pytest
from rich.cells import cell_len

from taskyard.v1 import stats_pb2
from taskyard_server.cli.top.state import Panel, State
from taskyard_server.cli.top.view import marks, page, screen
from tests.cases import every_case
from tests.cli.top.top_figures import NOW, figures, host, share, stats


def drawn(given=None, width=100, height=30, **state):
    """The lines of a screen."""
    lines = screen(given or figures(), State(**{"namespace": "acme", **state}), width, height, address="h:1", now=NOW)
    return [line.plain.rstrip() for line in lines]


def line(lines, beginning):
    (found,) = [each for each in lines if each.startswith(beginning)]
    return found


def order(lines, *names):
    """These names, in the order of their lines."""
    return sorted(names, key=lambda name: next(at for at, each in enumerate(lines) if each.startswith(name)))


def test_the_figures_stand_beside_their_last_minutes():
    lines = drawn()
    assert lines[0].startswith("taskyard top  acme at h:1")
    assert lines[0].endswith("14:03:12")
    assert line(lines, "queued").split() == ["queued", "12", "▁▅█", "oldest", "7", "s"]
    assert line(lines, "in flight").split() == ["in", "flight", "8", "███", "of", "20"]
    assert line(lines, "submitted").split() == ["submitted", "12/s", "▁▅█"]
    assert "11/s" in line(lines, "handed out")
    assert "3.2 ms to hand-out" in line(lines, "handed out")
    assert line(lines, "done").split()[1:] == ["10/s", "▁▁▁", "90", "in", "all"]
    assert line(lines, "failed").split()[1] == "0.5/s"


def test_agents_come_by_their_share_and_hosts_by_their_load():
    lines = drawn()
    assert line(lines, "ann").split() == ["ann", "6", "10", "50%", "75%", "1", "60", "10"]
    assert line(lines, "crawler-2").split()[:5] == ["crawler-2", "busy", "████████", "6", "6"]
    assert line(lines, "crawler-1").split()[2] == "██░░░░░░"
    assert order(lines, "ann", "bob") == ["ann", "bob"]
    assert order(lines, "crawler-1", "crawler-2") == ["crawler-2", "crawler-1"]


def test_another_order():
    given = figures(agents=[share("ann", 6, 0.1), share("bob", 2, 0.9)])
    assert order(drawn(given), "ann", "bob") == ["bob", "ann"]
    assert order(drawn(given, agent_order="queued"), "ann", "bob") == ["ann", "bob"]
    assert order(drawn(given, host_order="host"), "crawler-1", "crawler-2") == ["crawler-1", "crawler-2"]


@every_case(
    ("queue", "told"),
    [
        ({"limited_by": "maxInflight"}, "raise scheduler.maxInflight"),
        (
            {"noticed": {"waiting": 3, "notices": {"no live host offers the action x": 3}}},
            "3 tasks have no host: no live",
        ),
        (
            {"targets": {"waiting": 2, "waits_for": {"shop": "resume of tsk_1"}}},
            "2 wait for their target: shop for resu",
        ),
        ({"keys": {"waiting": 9, "keys": {"a": 1, "b": 5, "c": 2, "d": 1}}}, "9 wait for keys: b (5), c (2), a (1)"),
        ({"after_others": 4}, "4 wait for other tasks"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_what_holds_tasks_back_is_said(queue, told):
    assert told in line(drawn(figures(stats=stats(**queue))), "held back")


def test_without_hosts_that_is_what_holds_back():
    given = stats()
    given.hosts.online = 0
    assert line(drawn(figures(stats=given)), "held back") == "held back  no host is online"
    assert not [each for each in drawn() if each.startswith("held back")]


@pytest.fixture
def many():
    """More agents and hosts than any screen has lines."""
    return figures(
        agents=[share(f"agent-of-a-long-name-{at}", at, 0.01) for at in range(100)],
        hosts=[host(f"host-{at}", 1, 2) for at in range(100)],
    )


@every_case("width", [20, 40, 60, 80, 110, 250])
@every_case("height", [5, 10, 15, 24, 80])
@every_case("panel", Panel)
def test_it_fits_every_screen(many, width, height, panel):
    for has_help in (False, True):
        lines = drawn(many, width, height, panel=panel, has_help=has_help)
        assert len(lines) == height
        assert max(cell_len(each) for each in lines) <= width
        assert lines[-1].startswith(" q  quit")


def test_both_tables_have_room_one_below_the_other_and_stand_side_by_side_where_it_is_wide():
    assert "HOSTS" not in line(drawn(width=100), "AGENTS")
    assert line(drawn(width=100), "HOSTS")
    assert "HOSTS by load" in line(drawn(width=120), "AGENTS")


def test_on_a_low_screen_there_is_the_table_in_front():
    assert not [each for each in drawn(height=14) if each.startswith("HOSTS")]
    assert [each for each in drawn(height=14, panel=Panel.HOSTS) if each.startswith("HOSTS")]


def test_the_table_in_front_is_scrolled_and_never_beyond_its_end():
    many = figures(agents=[share(f"a-{at:02}", 50 - at, 0.01) for at in range(50)])
    assert not [each for each in drawn(many, scrolled=7) if each.startswith("a-06")]
    assert line(drawn(many, scrolled=7), "a-07")
    assert line(drawn(many, scrolled=1_000), "a-49")
    assert [each for each in drawn(many, scrolled=7, panel=Panel.HOSTS) if each.startswith("a-06")]


def test_a_caller_who_may_not_see_all_sees_the_rest():
    lines = drawn(figures(samples=None, agents=None, hosts=None))
    assert line(lines, "ann").split() == ["ann", "10", "60", "10"]
    assert line(lines, "AGENTS") == "AGENTS by share  shares need the role viewer"
    assert "need the role viewer" in lines


def test_rates_that_are_not_known_yet_are_no_zeros():
    assert line(drawn(figures(rates={}, samples=[])), "submitted").split() == ["submitted", "-"]


def test_trouble_stands_on_the_screen_beside_the_last_figures():
    lines = screen(
        figures(), State("acme"), 80, 24, address="h:1", now=NOW, problem="no figures for 5 s: connection refused"
    )
    assert "no answer" in lines[0].plain
    assert lines[1].plain == "no figures for 5 s: connection refused"
    assert lines[2].plain.startswith("queued")


def test_a_pause_and_a_namespace_that_is_read_just_now_are_told():
    assert "paused  14:03:12" in drawn(is_paused=True)[0]
    assert "reading umbrella" in drawn(namespace="umbrella")[0]


def test_names_of_callers_lose_their_control_characters():
    given = figures(agents=[share("ev\x1b[31mil\n", 1, 0.5)])
    assert line(drawn(given), "ev\ufffd[31mil\ufffd")


def test_what_is_no_screen_gets_everything_below_each_other():
    many = figures(hosts=[host(f"host-{at}", 1, 2) for at in range(100)])
    lines = [each.plain for each in page(many, State("acme"), 80, address="h:1", now=NOW)]
    assert len([each for each in lines if each.startswith("host-")]) == 100
    assert not [each for each in lines if each.startswith(" q")]
    assert all(each == each.rstrip() for each in lines)


def test_a_curve_has_its_highest_value_at_the_top_and_shows_what_is_little():
    assert marks([0, 1, 50, 100], 10) == "▁▂▅█"
    assert marks([5, 0, 100], 2) == "▁█"
    assert marks([0, 0], 10) == "▁▁"
    assert marks([], 10) == ""


def test_an_agent_that_starves_is_seen():
    given = figures(agents=[share("ann", 0, 0.0, runnable=3)])
    lines = screen(given, State("acme"), 100, 30, address="h:1", now=NOW)
    (found,) = [each for each in lines if each.plain.startswith("ann")]
    assert "yellow" in {span.style for span in found.spans}
    assert stats_pb2.AgentShare(agent_id="ann").inflight == 0


def test_parked_tasks_are_counted_while_there_are_any():
    assert line(drawn(figures(stats=stats(total_parked=34))), "queued").endswith("oldest 7 s, 34 parked")
    assert "parked" not in line(drawn(), "queued")
