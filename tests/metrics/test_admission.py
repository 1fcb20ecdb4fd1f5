"""The figures of who was let in: wrong credentials, denied calls, calls over a limit, open streams."""

import pytest

from taskyard_server.access.grants import Grant, Principal, Role
from taskyard_server.core.errors import TooManyRequests
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.settings.security import AuthSettings, LimitSettings

ANN = Principal("ann", "tok_1", (Grant(role=Role.AGENT),))


@pytest.fixture
def admission():
    return CallAdmission(
        AuthSettings(required=True, limits={"agent": LimitSettings(streams=1, requests_per_sec=1, burst=1)})
    )


async def test_who_was_let_in_is_counted(make_harness, admission):
    harness = await make_harness(admission=admission)
    for _ in range(3):
        admission.failures.note("192.0.2.1")
    admission.limits.open_stream(ANN)
    with pytest.raises(TooManyRequests):
        admission.limits.open_stream(ANN)
    admission.limits.admit(ANN, 0.0)
    with pytest.raises(TooManyRequests):
        admission.limits.admit(ANN, 0.0)
    admission.denied += 1
    scrape = await harness.scrape()
    assert scrape.value("taskyard_credentials_refused_total") == 3
    assert scrape.value("taskyard_calls_denied_total") == 1
    assert scrape.value("taskyard_calls_limited_total") == 2
    assert scrape.value("taskyard_open_streams") == 1


async def test_where_everybody_may_do_everything_there_are_no_such_figures(harness):
    scrape = await harness.scrape()
    assert not [
        name
        for name in scrape.families
        if "credential" in name or name in ("taskyard_calls_denied", "taskyard_calls_limited")
    ]
