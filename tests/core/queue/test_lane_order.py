"""Lanes in order of their entries, in blocks: always that of a sorted list."""

from random import Random

from taskyard_server.core.agents import Agent
from taskyard_server.core.queue.bucket import Bucket
from taskyard_server.core.queue.keys import Keys
from taskyard_server.core.queue.lane import Lane
from taskyard_server.core.queue.lane_order import LaneOrder
from taskyard_server.core.queue.strands import Strands
from tests.cases import every_case


def lanes(count):
    bucket = Bucket((None, "click", frozenset(), False, False), Strands(Keys(), print))
    return [Lane(Agent(f"agent-{number}", number + 1), bucket) for number in range(count)]


@every_case("span", [1, 50, 1_000_000])
@every_case("count", [3, 2_000])
def test_the_first_one_is_that_of_the_lowest_entry_whatever_comes_and_goes(span, count):
    draw, order, present, last = Random(span), LaneOrder(), [], 1_000_000
    absent = lanes(count)
    for _ in range(3 * count):
        if absent and (not present or draw.random() < 0.6):
            lane = absent.pop(draw.randrange(len(absent)))
            last += 1
            lane.entry = (last - draw.randrange(span)) * count + lane.agent.rank
            order.add(lane)
            present.append(lane)
        elif draw.random() < 0.5:
            lane = min(present, key=lambda lane: lane.entry)
            assert order.first() is lane
            order.remove_first()
            present.remove(lane)
            absent.append(lane)
        else:
            lane = present.pop(draw.randrange(len(present)))
            order.remove(lane)
            absent.append(lane)
        if draw.random() < 0.05:
            assert [lane.entry for lane in order] == sorted((lane.entry for lane in present), reverse=True)
    order.clear()
    assert list(order) == []
