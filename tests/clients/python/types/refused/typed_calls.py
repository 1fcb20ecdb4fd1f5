"""Programs that type checkers must refuse, at each line that ends in `# wrong`."""

from dataclasses import dataclass
from datetime import timedelta

from taskyard import Action, Client, RetryPolicy, SyncClient, task_of


@dataclass
class Page:
    """An input."""

    host: str


@dataclass
class Links:
    """An output."""

    found: list[str]


crawl = Action[Page, Links]("crawl")
bad_target = Action[Page, Links]("crawl", target=lambda page: page.port)  # wrong
bad_timeout = Action[Page, Links]("crawl", run_timeout=30)  # wrong
bad_default = Action[Page, Links]("crawl", colour="red")  # wrong


async def agent(client: Client) -> None:
    """Calls with arguments that do not fit."""
    await client.run(crawl, "a")  # wrong
    await client.run(crawl, {"host": "a"})  # wrong
    await client.run(crawl)  # wrong
    await client.run(crawl, Page("a"), params={})  # wrong
    await client.run(crawl, Page("a"), deadline=5.0)  # wrong
    await client.run(crawl, Page("a"), colour="red")  # wrong
    await client.run("crawl", Page("a"))  # wrong
    await client.run("crawl", deadline="5s")  # wrong
    await client.submit("crawl", params=Page("a"))  # wrong
    await client.submit(crawl, Page("a"), when_full="later")  # wrong
    number: int = await client.run(crawl, Page("a"))  # wrong
    print(number, (await client.submit(crawl, Page("a"))).nothing)  # wrong
    client.map(crawl, ["a"])  # wrong
    client.map(crawl, [Page("a")], on_failure="stop")  # wrong
    client.map("crawl", [Page("a")])  # wrong
    links: Links = await client.handle("tsk_1", Action[Page, int]("size")).result()  # wrong
    print(links, task_of(crawl, "a"))  # wrong
    RetryPolicy(first_delay=5)  # wrong
    await client.submit("crawl", run_timeout=timedelta(seconds=5), retry=3)  # wrong
    await client.submit("crawl", after_policy="always")  # wrong
    await client.submit("crawl", after=[5])  # wrong
    await client.submit("crawl", inputs=["tsk_1"])  # wrong
    await client.submit("crawl", inputs={"page": 5})  # wrong
    await client.submit("crawl", on_conflict="replace")  # wrong
    await client.cancel_tasks(colour="red")  # wrong
    client.list(labels={"site": 3})  # wrong
    stopped: bool = await client.cancel("tsk_1", wait=5)  # wrong
    print(stopped)


def blocking_agent(client: SyncClient) -> None:
    """The same without asyncio."""
    client.run(crawl, "a")  # wrong
    client.submit(crawl, Page("a"), deadline=5.0)  # wrong
    number: int = client.submit(crawl, Page("a")).result()  # wrong
    print(number)
    client.map(crawl, ["a"])  # wrong
