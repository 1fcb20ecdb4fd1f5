"""Deliveries are signed as Standard Webhooks say, when a secret is configured (DESIGN, Webhooks)."""

from base64 import b64encode
from dataclasses import replace

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from taskyard_server.config import WebhookSettings

SECRET = "whsec_" + b64encode(b"a secret of twenty-four.").decode()
OTHER_SECRET = "whsec_" + b64encode(b"another secret, not ours").decode()
SIGNED_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


def verify(post, secret=SECRET):
    """What a receiver does; the verified body."""
    headers = {name.lower(): value for name, value in post.headers}
    return Webhook(secret).verify(post.body, headers)


async def test_a_receiver_that_knows_the_secret_can_verify_a_delivery(make_yard, receiver):
    (task,) = await make_yard(secret=SECRET).end(receiver.url)
    (post,) = await receiver.received()
    assert verify(post)["taskId"] == task.id


async def test_a_secret_may_stand_without_its_prefix(make_yard, receiver):
    await make_yard(secret=SECRET.removeprefix("whsec_")).end(receiver.url)
    (post,) = await receiver.received()
    assert verify(post)["state"] == "done"


async def test_a_delivery_does_not_verify_under_another_secret(make_yard, receiver):
    await make_yard(secret=SECRET).end(receiver.url)
    (post,) = await receiver.received()
    with pytest.raises(WebhookVerificationError):
        verify(post, OTHER_SECRET)


async def test_a_changed_body_does_not_verify(make_yard, receiver):
    await make_yard(secret=SECRET).end(receiver.url)
    (post,) = await receiver.received()
    forged = replace(post, body=post.body.replace(b'"done"', b'"failed"'))
    assert forged.body != post.body
    with pytest.raises(WebhookVerificationError):
        verify(forged)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
async def test_id_and_time_are_part_of_what_is_signed(make_yard, receiver, name):
    await make_yard(secret=SECRET).end(receiver.url)
    (post,) = await receiver.received()
    other = {"webhook-id": "tsk_other", "webhook-timestamp": str(int(post.header("webhook-timestamp")) - 1)}
    forged = replace(post, headers=[(key, other[key] if key == name else value) for key, value in post.headers])
    with pytest.raises(WebhookVerificationError):
        verify(forged)


async def test_every_try_verifies_and_carries_the_same_id(make_yard, receiver):
    receiver.answers = [503, 503, 200]
    (task,) = await make_yard(secret=SECRET).end(receiver.url)
    posts = await receiver.received(3)
    assert [verify(post)["taskId"] for post in posts] == [task.id] * 3
    assert len({post.header("webhook-id") for post in posts}) == 1


async def test_two_tasks_have_different_ids(make_yard, receiver):
    await make_yard(secret=SECRET).end(receiver.url, receiver.url)
    posts = await receiver.received(2)
    assert len({post.header("webhook-id") for post in posts}) == 2


async def test_text_outside_of_ascii_verifies(make_yard, receiver):
    yard = make_yard(secret=SECRET)
    await yard.submit(receiver.url)
    await yard.fail("Zürich ☃")
    (post,) = await receiver.received()
    assert verify(post)["error"] == "Zürich ☃"


async def test_nothing_is_signed_without_a_secret(yard, receiver):
    await yard.end(receiver.url)
    (post,) = await receiver.received()
    assert [post.header(name) for name in SIGNED_HEADERS] == [None, None, None]


def test_the_secret_does_not_show_in_the_settings():
    settings = WebhookSettings(secret=SECRET)
    assert SECRET not in repr(settings)
    assert SECRET not in settings.model_dump_json()
