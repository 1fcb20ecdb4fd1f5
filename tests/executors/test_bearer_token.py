"""An endpoint may have a bearer token, which is sent and never shown (docs/rules.md, Tab executor)."""

import base64
import logging

import pytest
import structlog
from structlog.testing import LogCapture

from taskyard_server.executors import tab_executor
from taskyard_server.executors.tab_resolver import Endpoint, TabMap

TOKEN = "s3cr3t-t0ken/+=~"


async def test_the_token_is_sent_as_a_bearer_token(start_server, instance):
    server = await start_server(instance, token=TOKEN)
    await server.run()
    assert instance.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_without_a_token_no_credential_is_sent(server, instance):
    await server.run()
    assert "authorization" not in instance.requests[0].headers


async def test_each_instance_gets_its_own_token_and_no_other(start_server, start_instance):
    own, open_to_all, default = [await start_instance() for _ in range(3)]
    tabs = {"own": Endpoint(own.url, "for-own"), "open": Endpoint(open_to_all.url)}
    server = await start_server(TabMap(tabs, Endpoint(default.url, "for-default")))
    for tab_id in ("own", "open", "any"):
        await server.run(tab_id=tab_id)
    sent = [each.requests[0].headers.get("authorization") for each in (own, open_to_all, default)]
    assert sent == ["Bearer for-own", None, "Bearer for-default"]


async def test_a_redirect_does_not_carry_the_token_elsewhere(start_server, instance, start_instance, answer):
    other = await start_instance()
    instance.reply = answer("", "307 Temporary", location=f"{other.url}/tabs/tab/action")
    server = await start_server(instance, token=TOKEN)
    await server.run()
    assert other.requests == []


async def test_the_token_comes_before_a_user_and_password_in_the_url(start_server, instance):
    url = instance.url.replace("//", "//ann:pass@")
    server = await start_server(TabMap({"token": Endpoint(url, TOKEN)}, Endpoint(url)))
    await server.run(tab_id="token")
    await server.run(tab_id="other")
    basic = "Basic " + base64.b64encode(b"ann:pass").decode()
    assert [request.headers["authorization"] for request in instance.requests] == [f"Bearer {TOKEN}", basic]


async def test_params_cannot_set_the_credential(server, instance):
    await server.run({"authorization": "Bearer evil", "headers": {"authorization": "Bearer evil"}})
    assert "authorization" not in instance.requests[0].headers


async def test_the_token_does_not_show_in_a_representation():
    assert TOKEN not in repr(Endpoint("http://a", TOKEN))


@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized"])
@pytest.mark.parametrize(
    "body",
    [{"success": False, "error": f"wrong token: {TOKEN}"}, {"success": False, "token": TOKEN}],
    ids=["in the error", "elsewhere"],
)
async def test_an_error_that_quotes_the_token_is_masked(start_server, instance, answer, status, body):
    instance.reply = answer(body, status)
    server = await start_server(instance, token=TOKEN)
    task = await server.run()
    assert task.state == "failed"
    assert TOKEN not in task.error
    assert "***" in task.error


async def test_the_token_is_masked_before_the_error_is_cut(start_server, instance, answer):
    instance.reply = answer("x" * 990 + TOKEN, "401 Unauthorized")
    server = await start_server(instance, token=TOKEN)
    assert (await server.run()).error == "executor returned 401: " + "x" * 990 + "***"


async def test_the_token_is_not_logged(start_server, instance, answer, caplog, capfd):
    caplog.set_level(logging.INFO)
    server = await start_server(instance, token=TOKEN)
    await server.run()
    instance.reply = answer({"error": "wrong token"}, "401 Unauthorized")
    await server.run()
    instance.reply = b"nonsense\r\n\r\n"
    instance.hangs_up = True
    await server.run()
    output = capfd.readouterr()
    assert TOKEN not in caplog.text + output.out + output.err


async def test_a_fault_of_the_executor_does_not_log_the_token(start_server, instance, monkeypatch):
    def fail(*_args):
        raise RuntimeError("a fault")

    capture = LogCapture()
    log = structlog.wrap_logger(None, processors=[structlog.processors.format_exc_info, capture])
    monkeypatch.setattr(tab_executor, "log", log)
    monkeypatch.setattr(tab_executor, "result_from_answer", fail)
    server = await start_server(instance, token=TOKEN)
    assert (await server.run()).error == "executor error"
    (entry,) = capture.entries
    assert "a fault" in entry["exception"]
    assert TOKEN not in str(entry)
