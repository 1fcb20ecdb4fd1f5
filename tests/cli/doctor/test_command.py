"""`taskyard doctor` as a whole: its forms, its exit codes, and that it keeps secrets."""

import json
import os
from pathlib import Path

import pytest

from taskyard_server.cli.up.secure_folder import secure_folder
from taskyard_server.settings.setting_types import MASK
from tests.cases import every_case
from tests.environment import without_settings
from tests.ports import free_port


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    for name in [name for name in os.environ if name not in without_settings()]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("TASKYARD_STORE__URL", raising=False)


@pytest.fixture
def config(tmp_path):
    """Writes a file of settings, on ports that nobody has."""

    def write(**settings):
        ports = {name: f"127.0.0.1:{free_port()}" for name in ("grpc", "rest", "metrics")}
        file = tmp_path / "taskyard.json"
        store = {"url": f"sqlite:///{tmp_path}/yard.db"}
        file.write_text(json.dumps({**ports, "gateway": False, "store": store, **settings}))
        file.chmod(0o600)
        return str(file)

    return write


def statuses(done):
    return {finding["check"]: finding["status"] for finding in done.json["findings"]}


def test_a_yard_before_its_start_is_well_and_nothing_is_made(anywhere, config, tmp_path):
    file = config(gateway=True)
    done = anywhere("doctor", "--config", file, "--json")
    assert (done.code, done.json["failures"]) == (0, 0), done.out
    assert {name for name, status in statuses(done).items() if status != "ok"} <= {"clock", "core"}
    assert [each.name for each in tmp_path.iterdir()] == ["taskyard.json"]


def test_that_no_server_answers_is_a_state_before_the_start_and_a_failure_where_one_is_named(anywhere, config):
    file, nobody = config(), f"127.0.0.1:{free_port()}"
    (seen,) = [
        each for each in anywhere("doctor", "--config", file, "--json").json["findings"] if each["check"] == "server"
    ]
    address = json.loads(Path(file).read_text())["grpc"]
    assert (seen["status"], seen["seen"]) == ("ok", f"no server answers at {address}")
    named = anywhere("doctor", "--config", file, "--server", nobody, "--json")
    assert (named.code, statuses(named)["server"]) == (1, "failure")


def test_a_server_that_is_named_is_asked(anywhere, config, address):
    done = anywhere("doctor", "--config", config(), "--server", address, "--json")
    assert done.code == 0, done.out
    assert {"check": "server", "status": "ok", "seen": f"the one at {address} takes tasks", "todo": ""} in done.json[
        "findings"
    ]


def test_the_folder_of_a_secure_start_is_taken_and_nothing_is_made_in_it(anywhere, tmp_path, monkeypatch):
    for name in ("GRPC", "REST", "METRICS"):
        monkeypatch.setenv(f"TASKYARD_{name}", f"0.0.0.0:{free_port()}")
    before = anywhere("doctor", "--secure", str(tmp_path / "yard"), "--json")
    (found,) = before.json["findings"]
    assert (before.code, found["status"], list(tmp_path.iterdir())) == (0, "warning", [])
    secure = secure_folder(tmp_path / "yard")
    made = {each.name: each.read_bytes() for each in (tmp_path / "yard").iterdir()}
    done = anywhere("doctor", "--secure", str(tmp_path / "yard"), "--json")
    assert (done.code, statuses(done)["certificate tls"]) == (0, "ok"), done.out
    assert secure.new_token not in done.out
    assert {each.name: each.read_bytes() for each in (tmp_path / "yard").iterdir()} == made
    assert anywhere("doctor", "--secure", "x", "--config", "y").code == 2


def test_a_failure_is_exit_code_1_and_says_how_many_there_are(anywhere, config, tmp_path):
    (tmp_path / "yard.db").write_text("something else")
    done = anywhere("doctor", "--config", config())
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("taskyard: 1 failure, ")
    (line,) = [line for line in done.out.splitlines() if line.startswith("failure")]
    assert "yard.db is not a file of Taskyard" in line
    assert line.rstrip().endswith("name another one with --store")


def test_on_a_terminal_what_to_do_stands_below(anywhere, config, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    (tmp_path / "yard.db").write_text("something else")
    lines = anywhere("doctor", "--config", config()).out.splitlines()
    assert max(map(len, lines)) <= 70
    assert any(line.strip().startswith("-> name another one") for line in lines)


def test_yaml_is_the_same(anywhere, config):
    done = anywhere("doctor", "--config", config(), "-o", "yaml")
    assert done.code == 0
    assert done.out.startswith("findings:\n")


@every_case(
    ("text", "words"),
    [
        ('{"schedular": {}}', "schedular: unknown key, did you mean scheduler?"),
        ('{"store": {"url": "sqlite://x"}}', "store.url: must be sqlite:///PATH"),
        ("{", "Expecting"),
    ],
)
def test_settings_that_are_not_valid_are_told_as_up_tells_them(anywhere, tmp_path, text, words):
    (tmp_path / "taskyard.json").write_text(text)
    done = anywhere("doctor", "--config", str(tmp_path / "taskyard.json"), "--json")
    (found,) = done.json["findings"]
    assert (done.code, found["check"], found["status"]) == (1, "settings", "failure")
    assert words in found["seen"]


def test_no_secret_is_shown(anywhere, config, tmp_path, monkeypatch):
    secrets = [f"s3cret-{number}-of-twenty-characters" for number in range(6)]
    (tmp_path / "token").write_text(secrets[5])
    monkeypatch.setenv("TASKYARD_METRICS_TOKEN", secrets[4])
    file = config(
        auth={"adminToken": secrets[0]},
        executor=f"http://ann:{secrets[1]}@127.0.0.1:9/",
        executorToken=secrets[2],
        store={"url": f"postgresql://ann:{secrets[3]}@127.0.0.1:{free_port()}/yard"},
    )
    os.chmod(file, 0o644)
    shown = ""
    for form in ("table", "wide", "json", "yaml"):
        done = anywhere("doctor", "--config", file, "--token-file", str(tmp_path / "token"), "-o", form)
        assert done.code == 1
        shown += done.out + done.err
    assert "every user of this machine can read" in shown
    assert not [secret for secret in secrets if secret in shown]
    assert MASK not in shown
