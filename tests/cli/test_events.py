"""`taskyard send-event`: an event is sent to a name."""

import pytest


def test_an_event_is_sent(taskyard):
    sent = taskyard("send-event", "paid", '{"amount": 7}', "--life", "10m", "--id", "order-7")
    assert sent.out == "order-7 is sent: 0 tasks were waiting for it\n"
    assert "order-7 was sent before" in taskyard("send-event", "paid", '{"amount": 7}', "--id", "order-7").out
    answer = taskyard("send-event", "shipped", "--life", "0", "--json").json
    assert (answer["eventId"][:4], answer["waiting"]) == ("evt_", 0)


@pytest.mark.parametrize(
    ("words", "error"),
    [(["paid", "--life", "x"], "--life: must be a span"), (["a b"], "name: must have 1 to 256 letters")],
)
def test_what_is_malformed_is_refused(taskyard, words, error):
    assert error in taskyard("send-event", *words).err
