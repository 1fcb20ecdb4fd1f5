"""How `taskyard top` reads figures: rates between two looks, new samples alone, and what a caller may not see."""

import grpc
import pytest

from taskyard.connection.credentials import Credentials
from taskyard_server.cli.connection import Connection
from taskyard_server.cli.top.figures import Reader, interval_secs
from tests.cli.top.top_figures import sample
from tests.cli.top.top_server import Answers, serving


class Yard:
    """A reader whose clock tests set, and its server."""

    def __init__(self, answers, channel, address):
        self.now = 0.0
        self.answers = answers
        self._channel = channel
        self.reader = Reader(Connection(Credentials(address)), lambda: self.now)

    def read(self, namespace="default"):
        return self.reader.read(self._channel, namespace)


@pytest.fixture
def yard():
    answers = Answers()
    with serving(answers) as address, grpc.insecure_channel(address) as channel:
        yield Yard(answers, channel, address)


def test_the_first_rates_are_those_of_the_last_sample(yard):
    assert yard.read().rates == {"submitted": 10.0, "dispatched": 0.0, "completed": 0.0, "failed": 0.0}


def test_later_rates_are_those_since_the_look_before(yard):
    yard.read()
    yard.now, yard.answers.submitted = 4.0, 150
    assert yard.read().rates["submitted"] == 12.5


def test_a_server_that_began_anew_has_the_rates_of_its_samples(yard):
    yard.read()
    yard.now, yard.answers.submitted = 4.0, 3
    assert yard.read().rates["submitted"] == 10.0


def test_another_namespace_begins_anew(yard):
    yard.read()
    yard.now, yard.answers.submitted = 4.0, 150
    found = yard.read("acme")
    assert (found.namespace, yard.answers.asked) == ("acme", ["default", "acme"])
    assert found.rates["submitted"] == 10.0
    assert len(found.samples) == 3


def test_samples_are_asked_for_once(yard):
    assert len(yard.read().samples) == 3
    assert len(yard.read().samples) == 3


def test_all_pages_are_read(yard):
    found = yard.read()
    assert [each.agent_id for each in found.agents] == ["ann", "bob"]
    assert len(found.hosts) == 2
    assert found.names == ["acme", "default"]


def test_what_a_caller_may_not_see_is_none(yard):
    yard.answers.denied = {"ListSamples", "GetFairness", "ListHosts", "ListNamespaces"}
    found = yard.read()
    assert (found.samples, found.agents, found.hosts, found.names) == (None, None, None, [])
    assert found.rates == {}


def test_without_the_stats_there_is_nothing(yard):
    yard.answers.denied = {"GetStats"}
    with pytest.raises(grpc.RpcError):
        yard.read()


def test_a_sample_stands_for_the_time_since_the_one_before():
    assert interval_secs([]) == 10.0
    assert interval_secs([sample(0), sample(1)]) == 10.0
