"""The request that a task becomes: path, body and headers (docs/rules.md, Tab executor)."""

from urllib.parse import unquote

import pytest

from taskyard_server.core.task_options import TaskExtras
from taskyard_server.executors.tab_resolver import Endpoint, TabMap
from tests.cases import every_case

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_a_task_is_posted_to_the_action_endpoint_of_its_tab(server, instance):
    await server.run(tab_id="8f9c7d4e1234567890abcdef12345678")
    (request,) = instance.requests
    assert request.method == "POST"
    assert request.target == "/tabs/8f9c7d4e1234567890abcdef12345678/action"
    assert request.headers["content-type"] == "application/json"


# The body


async def test_the_body_is_kind_ref_and_every_key_of_params(server, instance):
    await server.run({"text": "Alan Turing", "clear": True}, action="type", ref="e12")
    assert instance.requests[0].json == {"kind": "type", "ref": "e12", "text": "Alan Turing", "clear": True}


async def test_the_body_is_the_kind_alone_without_params_and_ref(server, instance):
    await server.run(action="reload")
    await server.run({}, action="reload")
    assert [request.json for request in instance.requests] == [{"kind": "reload"}] * 2


async def test_params_never_overwrite_the_kind(server, instance):
    await server.run({"kind": "evil", "x": 1}, action="click")
    assert instance.requests[0].json == {"kind": "click", "x": 1}


async def test_params_never_overwrite_the_ref_of_the_task(server, instance):
    await server.run({"ref": "e99"}, ref="e12")
    assert instance.requests[0].json == {"kind": "click", "ref": "e12"}


async def test_the_ref_of_params_is_sent_where_the_task_has_none(server, instance):
    await server.run({"ref": "e99"})
    assert instance.requests[0].json == {"kind": "click", "ref": "e99"}


async def test_params_named_like_fields_of_the_task_are_sent_as_they_are(server, instance):
    params = {"action": "a", "agentId": "c", "params": {"kind": "d"}}
    await server.run({"tabId": "b", **params})
    assert instance.requests[0].json == {"kind": "click", **params}


async def test_the_selector_of_the_task_goes_along_and_params_never_overwrite_it(server, instance):
    extras = TaskExtras(selector="#btn")
    await server.run({"selector": "#evil"}, extras=extras)
    await server.run({"selector": "text:Sign in"}, ref="e12")
    assert [request.json for request in instance.requests] == [
        {"kind": "click", "selector": "#btn"},
        {"kind": "click", "ref": "e12", "selector": "text:Sign in"},
    ]


async def test_the_agent_goes_along_in_a_header(server, instance):
    for agent in ("crawler-1", "agent of 工", "a b"):
        await server.run(agent_id=agent)
    sent = [request.headers["x-agent-id"] for request in instance.requests]
    assert sent == ["crawler-1", "agent%20of%20%E5%B7%A5", "a b"]
    assert unquote(sent[1]) == "agent of 工"


async def test_whole_numbers_are_sent_as_integers(server, instance):
    await server.run({"scrollY": 400, "deep": [{"n": -7}], "zero": 0, "exact": 2**53, "part": 0.5})
    body = instance.requests[0].body.decode()
    for written in ('"scrollY": 400', '"n": -7', '"zero": 0', '"exact": 9007199254740992', '"part": 0.5'):
        assert written in body
    assert "400.0" not in body


async def test_every_kind_of_json_value_is_sent_unchanged(server, instance):
    params = {"null": None, "yes": True, "no": False, "text": "", "list": [], "object": {}, "deep": [[{"a": [None]}]]}
    await server.run(params)
    assert instance.requests[0].json == {"kind": "click", **params}


async def test_text_of_any_language_is_sent_unchanged(server, instance):
    params = {"größe": '工 🙂 \u2028 \x00 " \\ \n'}
    await server.run(params, action="tippe-工", ref="é🙂")
    assert instance.requests[0].json == {"kind": "tippe-工", "ref": "é🙂", **params}


async def test_the_content_length_is_that_of_the_body_in_bytes(server, instance):
    await server.run({"text": "é" * 1000})
    request = instance.requests[0]
    assert int(request.headers["content-length"]) == len(request.body)


# The tab as one path segment


RESERVED = ["a/b", "/", "a b", "a?b=c", "a#b", "%2e%2e", "%", "工🙂", "a\\b", "a;b", "a\r\nb", "\x00", "*", "~"]
RELATIVE = [".", "..", "../../admin", "//evil.example", "@evil.example", ":80"]


@every_case("tab_id", RESERVED + RELATIVE)
async def test_any_tab_id_is_one_segment_of_the_path(server, instance, tab_id):
    instance.requests.clear()
    task = await server.run(tab_id=tab_id)
    assert task.state == "done"
    (request,) = instance.requests
    _, tabs, segment, action = request.target.split("/")
    assert (tabs, action) == ("tabs", "action")
    assert unquote(segment) == tab_id
    assert segment.isascii()
    assert not set(segment) & set(" ?#\\")


async def test_dots_are_encoded_so_that_no_proxy_resolves_them(server, instance):
    await server.run(tab_id="..")
    assert instance.requests[0].target == "/tabs/%2E%2E/action"


@pytest.mark.parametrize("path", ["/browser", "/browser/"])
async def test_the_path_of_the_base_url_is_kept(start_server, instance, path):
    server = await start_server(TabMap({}, Endpoint(instance.url + path)))
    await server.run()
    assert instance.requests[0].target == "/browser/tabs/tab/action"


# Headers


async def test_the_fencing_token_goes_with_the_request_and_grows_with_each_claim(server, instance):
    task = await server.submit()
    await server.ended(task)
    assert instance.requests[0].headers["x-taskyard-fencing-token"] == "1"
    assert task.token == 1


async def test_a_task_that_is_claimed_again_has_a_higher_fencing_token(start_server, instance):
    server = await start_server(instance)
    instance.hold()
    task = await server.submit()
    first = await instance.arrived.get()
    await server.stop()
    instance.release()
    again = await start_server(instance, engine=server.engine)
    await again.ended(task)
    second = await instance.arrived.get()
    assert [request.headers["x-taskyard-fencing-token"] for request in (first, second)] == ["1", "2"]


async def test_the_trace_context_of_the_task_is_sent(server, instance):
    await server.run(traceparent=TRACE)
    await server.run()
    assert instance.requests[0].headers["traceparent"] == TRACE
    assert "traceparent" not in instance.requests[1].headers


async def test_proxies_of_the_environment_are_not_used(start_server, instance, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server = await start_server(instance)
    assert (await server.run()).state == "done"
