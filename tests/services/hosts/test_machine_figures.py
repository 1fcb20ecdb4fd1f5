"""Figures of the machines of hosts (docs/rules.md, Registration, Liveness, Matching)."""

import pytest
from google.protobuf.json_format import ParseDict

from taskyard.v1.runtime_host_pb2 import Machine


def machine(**figures):
    return ParseDict(figures, Machine())


FIGURES = {"cpuPercent": 12.5, "memoryMb": 512.0, "activeWorkers": 3, "activeTeams": 1, "sessions": 0}


async def test_the_last_figures_of_the_machine_are_kept(api):
    await api.register()
    figures = machine(**FIGURES, context={"disk": {"free": 10, "mounts": ["/", None]}})
    assert (await api.heartbeat(machine=figures)).machine == figures
    assert (await api.heartbeat()).machine == figures
    assert (await api.get_host()).machine == figures


async def test_new_figures_replace_the_old_ones_as_a_whole(api):
    await api.register(machine=machine(**FIGURES))
    await api.heartbeat(machine=machine(cpuPercent=99))
    assert (await api.get_host()).machine == machine(cpuPercent=99)


async def test_a_registration_can_hold_figures(api):
    assert (await api.register(machine=machine(**FIGURES))).machine == machine(**FIGURES)


async def test_figures_that_are_too_large_or_nested_too_deep_are_refused_and_change_nothing(api, refused):
    await api.register(machine=machine(cpuPercent=1))
    large = machine(context={"text": "x" * 262_144})
    assert (await refused(api.heartbeat_call(machine=large))).code == "too_large"
    deep = {"leaf": 1}
    for _ in range(31):
        deep = {"in": deep}
    assert (await refused(api.heartbeat_call(machine=machine(context=deep)))).code == "bad_request"
    assert (await refused(api.register(display_name="new", machine=large))).code == "too_large"
    host = await api.get_host()
    assert (host.machine, host.display_name) == (machine(cpuPercent=1), "host")


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("cpu_percent", "machine.cpu_percent: must be from 0 to 100"),
        ("memory_mb", "machine.memory_mb: must be a finite number, 0 or more"),
    ],
)
async def test_figures_must_be_finite(api, refused, figure, message):
    await api.register()
    refusal = await refused(api.heartbeat_call(machine=Machine(**{figure: float("nan")})))
    assert (refusal.code, refusal.message) == ("bad_request", message)
    assert not (await api.get_host()).HasField("machine")
