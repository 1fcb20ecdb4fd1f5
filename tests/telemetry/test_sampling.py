"""What is traced, decided before a span exists (docs/rules.md, Telemetry)."""

import pytest

from taskyard_server.telemetry.sampling import Sampler, configured_sampler
from tests.cases import every_case
from tests.telemetry.conftest import NOT_RECORDED, RECORDED

LOW, HIGH = (f"00-{'5' * 16}{half}-00f067aa0ba902b7-00" for half in ("0" * 15 + "1", "f" * 16))


def test_what_callers_record_is_traced_and_nothing_else_of_theirs():
    sampler = Sampler(1.0)
    assert sampler.takes(RECORDED)
    assert not sampler.takes(NOT_RECORDED)


def test_a_share_of_the_traces_that_begin_here_is_taken():
    assert Sampler(0.0).begin() is None
    assert all(Sampler(1.0).begin() for _ in range(100))
    taken = sum(Sampler(0.25).begin() is not None for _ in range(4_000))
    assert 850 < taken < 1_150


def test_others_that_sample_by_ratio_take_the_same_traces():
    begun = [trace for _ in range(2_000) if (trace := Sampler(0.1).begin()) is not None]
    assert all(trace % 2**64 < 0.1 * 2**64 for trace in begun)
    assert all(trace >> 64 for trace in begun)


def test_a_sampler_that_is_not_parent_based_decides_by_the_trace():
    sampler = Sampler(0.5, parent_based=False)
    assert sampler.takes(LOW)
    assert not sampler.takes(HIGH)


def test_a_trace_context_without_a_trace_is_not_traced():
    assert not Sampler(1.0).takes(f"00-{'0' * 32}-00f067aa0ba902b7-01")


@every_case(
    ("name", "argument", "begins", "takes_recorded", "takes_others"),
    [
        (None, None, True, True, False),
        (None, "0", False, True, False),
        ("always_on", None, True, True, True),
        ("always_off", None, False, False, False),
        ("traceidratio", "1", True, True, True),
        ("parentbased_always_on", None, True, True, False),
        ("parentbased_always_off", "1", False, True, False),
        ("parentbased_traceidratio", "1", True, True, False),
    ],
)
def test_the_samplers_of_opentelemetry(name, argument, begins, takes_recorded, takes_others):
    given = {"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": argument}
    sampler = configured_sampler({key: value for key, value in given.items() if value is not None})
    assert (sampler.begin() is not None) == begins
    assert (sampler.takes(RECORDED), sampler.takes(NOT_RECORDED)) == (takes_recorded, takes_others)


def test_the_setting_comes_before_the_variables():
    assert configured_sampler({"OTEL_TRACES_SAMPLER": "always_off"}, 1.0).begin() is not None


@pytest.mark.parametrize(
    "given",
    [{"OTEL_TRACES_SAMPLER": "jaeger_remote"}, {"OTEL_TRACES_SAMPLER_ARG": "2"}, {"OTEL_TRACES_SAMPLER_ARG": "x"}],
)
def test_a_variable_that_says_nothing_is_refused_by_its_name(given):
    ((name, value),) = given.items()
    with pytest.raises(ValueError, match=f"^{name}: .* {value}$"):
        configured_sampler(given)
