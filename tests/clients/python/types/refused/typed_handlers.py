"""Programs of hosts that type checkers must refuse, at each line that ends in `# wrong`."""

from dataclasses import dataclass

from taskyard import Action, Host, Retry, RunningTask


@dataclass
class Page:
    """An input."""

    url: str


@dataclass
class Links:
    """An output."""

    found: list[str]


crawl = Action[Page, Links]("crawl")
host = Host("localhost:50051", "host-1")


async def another_input(page: Links, task: RunningTask) -> Links:
    """It takes the output."""
    task.check()
    return page


async def another_output(page: Page) -> str:
    """It returns what the action does not."""
    return page.url


def fitting(page: Page) -> Links:
    """It fits."""
    return Links([page.url])


host.handles(crawl)(another_input)  # wrong
host.handles(crawl)(another_output)  # wrong
host.handles(crawl, runs_in="nowhere")(fitting)  # wrong
host.handles("crawl")(fitting)  # wrong
Retry("busy", after=30)  # wrong
