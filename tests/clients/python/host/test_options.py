"""What a host may be given: spans, an address from elsewhere, and the names that go with the next release."""

from datetime import timedelta

import pytest

from taskyard import Host


def made(**options):
    return Host("127.0.0.1:1", "h", **options)._options


def test_the_lease_and_the_grace_are_spans_of_time():
    options = made(lease=timedelta(minutes=1), drain_grace=timedelta(milliseconds=250))
    assert (options.lease_secs, options.drain_grace_secs) == (60, 0.25)
    assert (made().lease_secs, made().drain_grace_secs) == (None, 30.0)


def test_a_lease_has_whole_seconds():
    with pytest.raises(ValueError, match="lease: must be whole seconds"):
        made(lease=timedelta(seconds=1.5))


@pytest.mark.parametrize(
    ("old", "instead"), [({"lease_secs": 7}, "lease=timedelta"), ({"drain_grace_secs": 7}, "drain_grace=timedelta")]
)
def test_the_old_names_work_with_a_warning_that_names_the_new_ones(old, instead):
    with pytest.warns(DeprecationWarning, match=instead) as warned:
        options = Host("127.0.0.1:1", "h", **old)._options
    assert 7 in (options.lease_secs, options.drain_grace_secs)
    assert warned[0].filename == __file__


def test_without_an_address_a_host_goes_where_the_environment_says(monkeypatch):
    monkeypatch.setenv("TASKYARD_ADDRESS", "yard.example:1")
    monkeypatch.setenv("TASKYARD_NAMESPACE", "shop")
    credentials = Host(host_id="h")._options.credentials
    assert (credentials.address, credentials.namespace) == ("yard.example:1", "shop")
    assert Host(None, "h")._options.credentials.address == "yard.example:1"


def test_a_host_needs_an_id():
    with pytest.raises(TypeError, match="host_id: is needed"):
        Host("127.0.0.1:1")
