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


async def another_input_by_keyword(page: Links, *, before: Links) -> Links:
    """It takes the output, and an input by keyword."""
    return Links(page.found + before.found)


@host.handles(crawl)
def compare(page: Page, *, before: Links) -> Links:
    """It fits."""
    return Links([page.url, *before.found])


compare(Page("a"))  # wrong
compare(Page("a"), before=Page("b"))  # wrong
host.handles(crawl)(another_input_by_keyword)  # wrong
host.handles(crawl)(another_input)  # wrong
host.handles(crawl)(another_output)  # wrong
host.handles(crawl, runs_in="nowhere")(fitting)  # wrong
host.handles("crawl")(fitting)  # wrong
Retry("busy", after=30)  # wrong


async def links_of(page: Page) -> Links:
    """The function of a step."""
    return Links([page.url])


async def takes_steps(task: RunningTask) -> str:
    """Of steps the arguments are checked, and the types of the results."""
    await task.step("links", links_of, "a")  # wrong
    await task.step("links", links_of)  # wrong
    return await task.step("links", links_of, Page("a"))  # wrong


async def waits(task: RunningTask) -> Links:
    """Of questions the type of the answer is checked, of waits what is waited for."""
    await task.join([1])  # wrong
    await task.sleep("1 h")  # wrong
    return await task.ask("page", "Which?", type=Page)  # wrong
