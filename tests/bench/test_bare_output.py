"""The ceiling of output answers hosts and followers as Taskyard does."""

import asyncio

from bare_output import Followers

from taskyard.v1 import output_pb2 as pb
from tests.waiting import LIMIT_SECS


def said(task_id: str, number: int, *texts: str) -> pb.Output:
    chunks = [pb.NewChunk(text=text) for text in texts]
    return pb.Output(leases=[pb.LeaseOutput(task_id=task_id, fencing_token=7, number=number, chunks=chunks)])


async def test_chunks_are_acknowledged_by_lease_and_followers_of_their_task_get_them() -> None:
    followers = Followers()
    follower = followers.read(pb.ReadOutputRequest(task_id="a", follow=True), None)
    async with asyncio.timeout(LIMIT_SECS):
        assert not pb.ReadOutputResponse.FromString(await anext(follower)).chunks
        (ack,) = followers.take(said("a", 1, "one", "two")).output_acks.acks
        assert (ack.task_id, ack.fencing_token, ack.taken) == ("a", 7, 2)
        followers.take(said("b", 1, "of another task"))
        followers.take(said("a", 3, "three"))
        # What is queued together comes together, and the fields beside the chunks are those of the last message.
        message = pb.ReadOutputResponse.FromString(await anext(follower))
    assert [(each.sequence, each.channel, each.text) for each in message.chunks] == [
        (1, "output", "one"),
        (2, "output", "two"),
        (3, "output", "three"),
    ]
    assert message.next_after == 3
    await follower.aclose()
    followers.take(said("a", 4, "nobody follows it any more"))
