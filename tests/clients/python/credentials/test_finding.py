"""Where credentials come from: arguments, a profile that is asked for, the environment, another profile."""

import logging
from pathlib import Path

import pytest

from taskyard.connection.credentials import AT_THE_TERMINAL, PARTS, find_credentials
from tests.cases import every_case

PROFILES = """
default_profile = "home"

[profiles.home]
address = "127.0.0.1:1"
namespace = "kitchen"
token = "home-secret"

[profiles.work]
address = "https://work.example:443"
token_file = "work.token"
ca = "/etc/yard/ca.pem"
cert = "~/work.pem"
key = "~/work.key"

[profiles.bare]
address = "127.0.0.1:2"
"""


@pytest.fixture
def folder(tmp_path):
    """The folder of the file of profiles."""
    folder = tmp_path / "taskyard"
    folder.mkdir()
    (folder / "config.toml").write_text(PROFILES)
    (folder / "config.toml").chmod(0o600)
    (folder / "work.token").write_text("work-secret\n")
    (folder / "work.token").chmod(0o600)
    return folder


@pytest.fixture
def find(folder):
    """Finds credentials with these variables, in this folder."""

    def found(address=None, namespace=None, environment=None, **arguments):
        variables = {"XDG_CONFIG_HOME": str(folder.parent)}
        for name, value in (environment or {}).items():
            variables["TASKYARD_" + name] = value
        return find_credentials(address, namespace, environment=variables, **arguments)

    return found


def sent(credentials):
    return dict(credentials.metadata()).get("authorization")


def test_without_anything_it_is_the_server_of_this_machine(tmp_path):
    found = find_credentials(environment={"XDG_CONFIG_HOME": str(tmp_path)})
    assert (found.address, found.namespace, found.token, found.tls) == ("127.0.0.1:50051", "default", None, None)
    assert found.metadata() == (("taskyard-namespace", "default"),)


def test_the_default_profile_counts_where_nothing_is_said(find):
    found = find()
    assert (found.address, found.namespace, sent(found)) == ("127.0.0.1:1", "kitchen", "Bearer home-secret")
    assert found.tried == "the token given by the profile home"


@pytest.mark.parametrize("how", [{"address": "127.0.0.1:9"}, {"environment": {"ADDRESS": "127.0.0.1:9"}}], ids=str)
def test_the_token_of_the_default_profile_goes_to_its_own_server_alone(find, how):
    found = find(**how)
    assert (found.address, found.namespace, found.token) == ("127.0.0.1:9", "default", None)


def test_the_environment_goes_before_the_default_profile(find):
    found = find(environment={"TOKEN": "e", "NAMESPACE": "n"})
    assert (found.address, found.namespace, sent(found)) == ("127.0.0.1:1", "n", "Bearer e")
    assert found.tried == "the token given by TASKYARD_TOKEN"


def test_arguments_go_before_everything(find):
    environment = {"ADDRESS": "127.0.0.1:3", "TOKEN": "e", "NAMESPACE": "n", "PROFILE": "home"}
    found = find("127.0.0.1:4", "space", environment, token="a", profile="work")
    assert (found.address, found.namespace, sent(found)) == ("127.0.0.1:4", "space", "Bearer a")
    assert found.tried.startswith("the token given by token=")


def test_a_profile_that_an_argument_names_goes_before_the_environment(find):
    found = find(environment={"TOKEN": "e", "ADDRESS": "127.0.0.1:3"}, profile="home")
    assert (found.address, sent(found)) == ("127.0.0.1:1", "Bearer home-secret")


def test_a_token_of_the_environment_is_not_sent_beside_a_profile_that_shows_who_calls(find, folder):
    text = '[profiles.p]\naddress = "https://p.example:1"\ncert = "c"\nkey = "k"\n'
    (folder / "config.toml").write_text(text)
    assert find(environment={"TOKEN": "e"}, profile="p").token is None


def test_a_profile_without_credentials_takes_those_of_the_environment(find):
    found = find(environment={"TOKEN": "e"}, profile="bare")
    assert (found.address, sent(found)) == ("127.0.0.1:2", "Bearer e")


def test_a_profile_that_the_environment_names_comes_after_the_environment(find):
    found = find(environment={"PROFILE": "work", "TOKEN": "e"})
    assert (found.address, sent(found), found.tls.ca) == ("work.example:443", "Bearer e", "/etc/yard/ca.pem")


def test_paths_of_a_profile_are_relative_to_its_file(find):
    found = find(profile="work")
    assert sent(found) == "Bearer work-secret"
    assert found.tls.cert == str(Path("~/work.pem").expanduser())


def test_an_empty_token_means_none_and_an_empty_variable_nothing(find):
    assert find(token="").token is None
    assert sent(find(environment={"TOKEN": "", "PROFILE": "", "ADDRESS": ""})) == "Bearer home-secret"


def test_the_variables_have_a_meaning_each(find, folder):
    environment = {
        "ADDRESS": "https://h:1",
        "TOKEN_FILE": str(folder / "work.token"),
        "CA": "a",
        "CERT": "c",
        "KEY": "k",
    }
    found = find(environment=environment)
    assert (found.address, found.tls.ca, found.tls.cert, found.tls.key) == ("h:1", "a", "c", "k")
    assert sent(found) == "Bearer work-secret"
    assert (
        found.tried
        == f"the token in the file {folder / 'work.token'} given by TASKYARD_TOKEN_FILE and the client certificate c"
    )


def test_the_readme_names_each_part_with_its_option_and_variable():
    table = Path(__file__).parents[4].joinpath("clients/python/README.md").read_text()
    for part in (*PARTS, "profile"):
        assert f"`{part}`" in table
        assert f"`TASKYARD_{part.upper()}`" in table
        assert part == "token" or f"`{AT_THE_TERMINAL.name(part)}`" in table


# Mistakes


@every_case(
    ("arguments", "problem"),
    [
        ({"token": "secret", "token_file": "f"}, "token and token_file: one of them, not both"),
        ({"cert": "c"}, "key: is missing beside cert"),
        ({"key": "k"}, "cert: is missing beside key"),
        ({"profile": "shop"}, "there is no profile 'shop'; there are: home, work, bare"),
        ({"token_file": "/nowhere/token"}, "token_file: /nowhere/token: No such file or directory"),
        ({"token_file": "/"}, "token_file: /: Is a directory"),
        ({"token": "se\ncret"}, "token: must be printable ASCII, on one line"),
        ({"address": "https://work.example"}, "address: must be HOST:PORT or https://HOST:PORT"),
        ({"address": "https://unix:/run/x"}, "address: must be HOST:PORT or https://HOST:PORT"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_that_names_its_argument_and_no_secret(find, arguments, problem):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        find(**arguments)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_mistake_at_the_terminal_names_the_flag(find):
    with pytest.raises(ValueError, match=r"^--token-file: /nowhere: No such file"):
        find(token_file="/nowhere", spelling=AT_THE_TERMINAL)
    with pytest.raises(ValueError, match=r"^--server: must be"):
        find("nonsense", spelling=AT_THE_TERMINAL)
    with pytest.raises(ValueError, match=r"^--key: is missing"):
        find(cert="c", spelling=AT_THE_TERMINAL)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[profiles.home]\ntoken = "secret" oops', "line 2"),
        ("[profiles.home]\ntokn = 'secret'", "profiles.home.tokn: unknown key"),
        ("[profiles.home]\ntoken = 17", "profiles.home.token: must be a text"),
        ("profiles = 'secret'", "profiles: must be tables"),
        ("[profiles.home]\ntoken = 'secret'\ntoken_file = 'f'", "profiles.home.token and profiles.home.token_file"),
        (b"\xff secret".decode("latin-1"), ""),
    ],
)
def test_a_malformed_file_is_one_line_without_its_secrets(find, folder, text, problem):
    (folder / "config.toml").write_text(text)
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        find(profile="home")
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_file_that_nobody_asks_for_need_not_be_readable(find, folder):
    (folder / "config.toml").unlink()
    (folder / "config.toml").mkdir()
    assert find().token is None
    with pytest.raises(ValueError, match="Is a directory"):
        find(profile="home")


def test_a_file_with_a_token_that_others_can_read_is_told_once(find, folder, caplog):
    (folder / "config.toml").chmod(0o640)
    find()
    find()
    (told,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    path = folder / "config.toml"
    assert told == f"{path} holds a secret and can be read by others: chmod 600 {path}"


def test_secrets_are_not_shown(find):
    found = find(token="secret")
    found.metadata()
    assert "secret" not in f"{found!r} {found} {found.token!r} {found.token.origin}"
