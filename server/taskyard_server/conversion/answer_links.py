"""Links to one question, for people without a credential: tokens that say which, until when, and who has made them.

See docs/rules.md, Answer links.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from taskyard_server.core.errors import BadRequest, NotFound

from .page_tokens import Listing, Seal
from .waits import MAX_WAIT_SECS

KIND: Final = "answer link"
NO_LINK: Final = "no such link, or its time is over"


class AnswerLink(NamedTuple):
    """A link to a question of a task, good `until` then, in seconds; None: as long as it is open. `by` has made it.

    The question is the one that is open until `asked_until`: a later run of its task may ask another of its name.
    """

    task_id: str
    question: str
    asked_until: float | None
    until: float | None
    by: str | None

    @property
    def answerer(self) -> str:
        """The name under which an answer by the link is kept."""
        return "a link" if self.by is None else f"a link of {self.by}"


def link_token(link: AnswerLink, namespace: str, seal: Seal | None) -> str:
    """The token of a link. Without a `seal`, where nobody has to sign in, it can be read, and made by everybody."""
    times = ["" if each is None else repr(each) for each in (link.asked_until, link.until)]
    return Listing(KIND, namespace, seal=seal).token(" ".join((link.task_id, link.question, *times, link.by or "")))


def link_path(token: str, namespace: str) -> str:
    """Where the gateway has the page of a link. What comes after # is sent to no server."""
    return f"/ui/#/{namespace}/answer/{token}"


def link_secs(secs: float) -> float:
    """Check how long a link is to be good, in seconds. Raises `BadRequest`."""
    if not 1 <= secs <= MAX_WAIT_SECS:
        raise BadRequest(f"lifeSecs: must be from 1 to {MAX_WAIT_SECS:.0f}")
    return secs


def link_in(token: str, namespace: str, seal: Seal | None) -> AnswerLink:
    """The link of a token. Raises `NotFound` for one that was not made for this namespace."""
    try:
        text = Listing(KIND, namespace, seal=seal).start_name(token)
        task_id, question, *times, by = text.split(" ", 4)
        asked_until, until = [float(each) if each else None for each in times]
        return AnswerLink(task_id, question, asked_until, until, by or None)
    except (BadRequest, ValueError):
        raise NotFound(NO_LINK) from None
