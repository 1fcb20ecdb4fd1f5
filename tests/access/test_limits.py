"""How much one principal may ask for: calls a second, calls at once, and open streams."""

import itertools

import pytest

from taskyard_server.access import limits as limits_module
from taskyard_server.access.grants import Grant, Principal, Role
from taskyard_server.access.limits import CallBucket, Rate, RequestLimits
from taskyard_server.core.errors import TooManyRequests
from taskyard_server.settings.security import LimitSettings
from tests.cases import every_case

NOW = 1_000.0


def principal(credential: str = "tok_1", role: Role = Role.AGENT) -> Principal:
    return Principal(credential, credential, (Grant(role=role),))


def limits(**fields: float) -> RequestLimits:
    return RequestLimits({"agent": LimitSettings(**fields)})


def admitted(limits: RequestLimits, who: Principal, now: float, calls: int) -> int:
    """How many of so many calls at one time are admitted."""
    for count in range(calls):
        try:
            limits.admit(who, now)
        except TooManyRequests:
            return count
    return calls


# Calls


def test_twice_as_many_calls_as_a_second_may_come_at_once():
    assert admitted(limits(requests_per_sec=5), principal(), NOW, 100) == 10


def test_as_many_calls_as_the_burst_may_come_at_once():
    assert admitted(limits(requests_per_sec=5, burst=3), principal(), NOW, 100) == 3


def test_a_rate_below_one_a_second_lets_a_call_through():
    of_agents = limits(requests_per_sec=0.1)
    assert admitted(of_agents, principal(), NOW, 10) == 1
    assert admitted(of_agents, principal(), NOW + 10, 10) == 1


def test_calls_at_the_rate_are_never_refused():
    of_agents = limits(requests_per_sec=7, burst=1)
    for number in range(10_000):
        of_agents.admit(principal(), NOW + number / 7)


def test_after_a_rest_no_more_than_the_burst_may_come_at_once():
    of_agents = limits(requests_per_sec=5, burst=3)
    admitted(of_agents, principal(), NOW, 3)
    assert admitted(of_agents, principal(), NOW + 3_600, 100) == 3


@every_case("per_sec", [0.3, 1, 7, 1_000])
@every_case("burst", [1, 2, 9])
def test_a_call_after_the_named_time_is_admitted_and_one_before_it_is_not(per_sec, burst):
    of_agents = limits(requests_per_sec=per_sec, burst=burst)
    admitted(of_agents, principal(), NOW, 100)
    with pytest.raises(TooManyRequests) as refused:
        of_agents.admit(principal(), NOW)
    after = refused.value.retry_after_ms
    assert refused.value.details == {"retryAfterMs": after}
    with pytest.raises(TooManyRequests):
        of_agents.admit(principal(), NOW + (after - 1) / 1_000 - 1e-6)
    of_agents.admit(principal(), NOW + after / 1_000)


def test_refused_calls_cost_no_later_one():
    of_agents = limits(requests_per_sec=1, burst=1)
    admitted(of_agents, principal(), NOW, 1)
    for tenth in range(10):
        assert admitted(of_agents, principal(), NOW + tenth / 10, 5) == 0
    assert admitted(of_agents, principal(), NOW + 1, 5) == 1


def test_each_credential_has_its_own_limit():
    of_agents = limits(requests_per_sec=1, burst=1)
    of_agents.admit(principal("tok_1"), NOW)
    of_agents.admit(principal("tok_2"), NOW)


def test_a_role_without_a_limit_has_none():
    assert admitted(limits(requests_per_sec=1), principal(role=Role.HOST), NOW, 1_000) == 1_000


def test_the_strongest_role_of_a_principal_counts():
    both = Principal("both", "tok_1", (Grant(role=Role.AGENT), Grant(role=Role.OPERATOR)))
    assert admitted(limits(requests_per_sec=1), both, NOW, 1_000) == 1_000


def test_other_settings_hold_at_once():
    of_agents = limits(requests_per_sec=1, burst=1)
    admitted(of_agents, principal(), NOW, 10)
    of_agents.reconfigure({"agent": LimitSettings(requests_per_sec=100, burst=50)})
    assert admitted(of_agents, principal(), NOW, 1_000) == 50
    of_agents.reconfigure({})
    assert admitted(of_agents, principal(), NOW, 1_000) == 1_000


def test_no_more_is_remembered_than_principals_that_called_of_late(monkeypatch):
    monkeypatch.setattr(limits_module, "MAX_PRINCIPALS", 100)
    of_agents = limits(requests_per_sec=1)
    for number in range(10_000):
        of_agents.admit(principal(f"tok_{number}"), NOW + number)
    assert len(of_agents._buckets) <= 100


def test_a_principal_that_has_used_its_limit_up_is_not_forgotten(monkeypatch):
    monkeypatch.setattr(limits_module, "MAX_PRINCIPALS", 3)
    of_agents = limits(requests_per_sec=0.001, burst=1)
    for number in range(10):
        of_agents.admit(principal(f"tok_{number}"), NOW)
    with pytest.raises(TooManyRequests):
        of_agents.admit(principal("tok_0"), NOW)


# Streams


def test_so_many_streams_may_be_open_at_once():
    of_agents = limits(streams=2)
    for _ in range(2):
        of_agents.open_stream(principal())
    with pytest.raises(TooManyRequests, match="at most 2 streams may be open at once") as refused:
        of_agents.open_stream(principal())
    assert refused.value.retry_after_ms > 0
    of_agents.open_stream(principal("tok_2"))
    of_agents.close_stream(principal())
    of_agents.open_stream(principal())


def test_all_open_streams_are_counted_and_none_is_left():
    of_all = RequestLimits({})
    for number in range(5):
        of_all.open_stream(principal(f"tok_{number % 2}"))
    assert of_all.open_streams == 5
    for number in range(5):
        of_all.close_stream(principal(f"tok_{number % 2}"))
    assert of_all.open_streams == 0
    assert of_all._open == {}


# The bucket


def test_no_span_of_time_lets_more_through_than_its_rate_and_the_burst():
    rate = Rate(per_sec=10, burst=5)
    bucket = CallBucket(rate)
    times = [NOW + number * 0.013 for number in range(2_000)]
    taken = [now for now in times if not bucket.take(now)]
    for first, last in itertools.product(range(0, len(taken), 50), repeat=2):
        if first < last:
            assert last - first + 1 <= 10 * (taken[last] - taken[first]) + 5 + 1e-6
