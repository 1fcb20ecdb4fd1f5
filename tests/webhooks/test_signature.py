"""With a secret, deliveries are signed as Standard Webhooks specifies (docs/rules.md, Webhooks)."""

from base64 import b64encode
from dataclasses import replace

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from taskyard_server.settings.config import WebhookSettings

SECRET = "whsec_" + b64encode(b"a secret of twenty-four.").decode()
OTHER_SECRET = "whsec_" + b64encode(b"the secret of the others").decode()
SIGNED_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


def verify(post, secret=SECRET):
    """The body of a post, verified as a receiver does it."""
    headers = {name.lower(): value for name, value in post.headers}
    return Webhook(secret).verify(post.body, headers)


async def test_a_receiver_with_the_secret_can_verify_a_delivery(make_server, receiver):
    (task,) = await (await make_server(secret=SECRET)).end(receiver.url)
    (post,) = await receiver.received()
    assert verify(post)["taskId"] == task.id


async def test_the_prefix_of_a_secret_may_be_left_out(make_server, receiver):
    await (await make_server(secret=SECRET.removeprefix("whsec_"))).end(receiver.url)
    (post,) = await receiver.received()
    assert verify(post)["state"] == "done"


async def test_a_delivery_does_not_verify_under_another_secret(make_server, receiver):
    await (await make_server(secret=SECRET)).end(receiver.url)
    (post,) = await receiver.received()
    with pytest.raises(WebhookVerificationError):
        verify(post, OTHER_SECRET)


async def test_a_changed_body_does_not_verify(make_server, receiver):
    await (await make_server(secret=SECRET)).end(receiver.url)
    (post,) = await receiver.received()
    forged = replace(post, body=post.body.replace(b'"done"', b'"failed"'))
    assert forged.body != post.body
    with pytest.raises(WebhookVerificationError):
        verify(forged)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
async def test_the_id_and_the_time_are_signed(make_server, receiver, name):
    await (await make_server(secret=SECRET)).end(receiver.url)
    (post,) = await receiver.received()
    other = {"webhook-id": "tsk_other", "webhook-timestamp": str(int(post.header("webhook-timestamp")) - 1)}
    forged = replace(post, headers=[(key, other[key] if key == name else value) for key, value in post.headers])
    with pytest.raises(WebhookVerificationError):
        verify(forged)


async def test_every_try_verifies(make_server, receiver):
    receiver.answers = [503, 503, 200]
    (task,) = await (await make_server(secret=SECRET)).end(receiver.url)
    posts = await receiver.received(3)
    assert [verify(post)["taskId"] for post in posts] == [task.id] * 3


async def test_text_that_is_not_ascii_verifies(make_server, receiver):
    server = await make_server(secret=SECRET)
    await server.submit(receiver.url)
    await server.fail("Zürich ☃")
    (post,) = await receiver.received()
    assert verify(post)["error"] == "Zürich ☃"


async def test_without_a_secret_nothing_is_signed(server, receiver):
    await server.end(receiver.url)
    (post,) = await receiver.received()
    assert post.header("webhook-id")
    assert [post.header(name) for name in SIGNED_HEADERS[1:]] == [None, None]


def test_the_secret_does_not_show_in_the_settings():
    settings = WebhookSettings(secret=SECRET)
    assert SECRET not in repr(settings)
    assert SECRET not in settings.model_dump_json()
