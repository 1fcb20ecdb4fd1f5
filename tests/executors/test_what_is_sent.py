"""What the instance gets (scheduler-reference, How Tasks Execute; DESIGN, The tab executor)."""

from urllib.parse import unquote

import pytest

from taskyard_server.executors.tab_resolver import TabMap

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_a_task_is_posted_to_the_action_endpoint_of_its_tab(yard, instance):
    await yard.run(tab_id="8f9c7d4e1234567890abcdef12345678")
    (request,) = instance.requests
    assert request.method == "POST"
    assert request.target == "/tabs/8f9c7d4e1234567890abcdef12345678/action"
    assert request.headers["content-type"] == "application/json"


# The body


async def test_the_body_is_kind_ref_and_every_key_of_params(yard, instance):
    await yard.run({"text": "Alan Turing", "clear": True}, action="type", ref="e12")
    assert instance.requests[0].json == {"kind": "type", "ref": "e12", "text": "Alan Turing", "clear": True}


async def test_without_params_and_ref_the_body_is_the_kind_alone(yard, instance):
    await yard.run(action="reload")
    await yard.run({}, action="reload")
    assert [request.json for request in instance.requests] == [{"kind": "reload"}] * 2


async def test_params_never_overwrite_the_kind(yard, instance):
    await yard.run({"kind": "evil", "x": 1}, action="click")
    assert instance.requests[0].json == {"kind": "click", "x": 1}


async def test_params_never_overwrite_the_ref_of_the_task(yard, instance):
    await yard.run({"ref": "e99"}, ref="e12")
    assert instance.requests[0].json == {"kind": "click", "ref": "e12"}


async def test_the_ref_of_params_is_kept_where_the_task_has_none(yard, instance):
    await yard.run({"ref": "e99"})
    assert instance.requests[0].json == {"kind": "click", "ref": "e99"}


async def test_keys_that_look_like_fields_of_the_task_are_just_params(yard, instance):
    params = {"action": "a", "tabId": "b", "agentId": "c", "params": {"kind": "d"}}
    await yard.run(params)
    assert instance.requests[0].json == {"kind": "click", **params}


async def test_whole_numbers_are_sent_as_integers(yard, instance):
    await yard.run({"scrollY": 400, "deep": [{"n": -7}], "zero": 0, "exact": 2**53, "part": 0.5})
    body = instance.requests[0].body.decode()
    for written in ('"scrollY": 400', '"n": -7', '"zero": 0', '"exact": 9007199254740992', '"part": 0.5'):
        assert written in body
    assert "400.0" not in body


async def test_every_kind_of_json_value_arrives_as_it_was_sent(yard, instance):
    params = {"null": None, "yes": True, "no": False, "text": "", "list": [], "object": {}, "deep": [[{"a": [None]}]]}
    await yard.run(params)
    assert instance.requests[0].json == {"kind": "click", **params}


async def test_text_of_any_language_arrives_as_it_was_sent(yard, instance):
    params = {"größe": '工 🙂 \u2028 \x00 " \\ \n'}
    await yard.run(params, action="tippe-工", ref="é🙂")
    assert instance.requests[0].json == {"kind": "tippe-工", "ref": "é🙂", **params}


async def test_the_length_of_the_body_is_told(yard, instance):
    await yard.run({"text": "é" * 1000})
    request = instance.requests[0]
    assert int(request.headers["content-length"]) == len(request.body)


# The tab as one path segment


HARD_TO_ENCODE = ["a/b", "/", "a b", "a?b=c", "a#b", "%2e%2e", "%", "工🙂", "a\\b", "a;b", "a\r\nb", "\x00", "*", "~"]
HARD_TO_KEEP_AS_A_SEGMENT = [".", "..", "../../admin", "//evil.example", "@evil.example", ":80"]


@pytest.mark.parametrize("tab_id", HARD_TO_ENCODE + HARD_TO_KEEP_AS_A_SEGMENT)
async def test_whatever_the_tab_is_called_it_is_one_segment_of_the_path(yard, instance, tab_id):
    task = await yard.run(tab_id=tab_id)
    assert task.state == "done"
    (request,) = instance.requests
    _, tabs, segment, action = request.target.split("/")
    assert (tabs, action) == ("tabs", "action")
    assert unquote(segment) == tab_id
    assert segment.isascii()
    assert not set(segment) & set(" ?#\\")


async def test_dots_are_encoded_so_that_nobody_on_the_way_resolves_them(yard, instance):
    await yard.run(tab_id="..")
    assert instance.requests[0].target == "/tabs/%2E%2E/action"


@pytest.mark.parametrize("path", ["/browser", "/browser/"])
async def test_the_path_of_the_base_url_is_kept(start_yard, instance, path):
    yard = await start_yard(TabMap({}, instance.url + path))
    await yard.run()
    assert instance.requests[0].target == "/browser/tabs/tab/action"


# Headers


async def test_the_fencing_token_goes_with_the_request_and_grows_with_each_claim(yard, instance):
    task = await yard.submit()
    await yard.ended(task)
    assert instance.requests[0].headers["x-taskyard-fencing-token"] == "1"
    assert task.token == 1


async def test_a_task_that_was_handed_out_before_has_a_higher_token(start_yard, instance):
    yard = await start_yard(instance)
    instance.hold()
    task = await yard.submit()
    first = await instance.arrived.get()
    await yard.stop()
    instance.let_go()
    again = await start_yard(instance, yard.engine)
    await again.ended(task)
    second = await instance.arrived.get()
    assert [request.headers["x-taskyard-fencing-token"] for request in (first, second)] == ["1", "2"]


async def test_the_trace_of_the_task_goes_on(yard, instance):
    await yard.run(traceparent=TRACE)
    await yard.run()
    assert instance.requests[0].headers["traceparent"] == TRACE
    assert "traceparent" not in instance.requests[1].headers


async def test_no_proxy_of_the_environment_is_used(start_yard, instance, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    yard = await start_yard(instance)
    assert (await yard.run()).state == "done"
