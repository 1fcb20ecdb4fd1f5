"""A namespace in which something of everything is to be seen, for pictures and for the looks of views."""

import base64
import random
import threading

from tests.console.yards import Lease, Yard

STATES = {"pending", "queued", "assigned", "running", "paused", "parked", "done", "failed", "cancelled"}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SOURCE = "https://example.org/catalogue"


def populate(yard: Yard) -> None:
    """Fill it: tasks in every state, hosts that work, a target that is blocked, schedules, limits and weights."""
    _rules(yard)
    _hosts(yard)
    _tasks(yard)
    _targets(yard)
    _schedules(yard)
    found = {each["state"] for each in yard.tasks(pageSize=200)}
    # Rejected is what only a full queue makes.
    assert found == STATES, found


def _rules(yard: Yard) -> None:
    yard.call("PUT", "/limits/site:*", maxInflight=2, perSecond=5, burst=10)
    yard.call("PUT", "/limits/model:large", maxInflight=1)
    yard.call("PUT", "/agents/crawler-*", weight=3)


def _hosts(yard: Yard) -> None:
    for name, display, capabilities in (
        ("web-1", "Web 1", ["browser"]),
        ("web-2", "Web 2", ["browser"]),
        ("gpu-1", "GPU 1", ["gpu", "large-memory"]),
        ("gpu-2", "GPU 2", ["gpu"]),
    ):
        yard.host(name, display_name=display, capabilities=capabilities, slots=4)
    yard.call("POST", "/api/runtime-hosts/gpu-2/drain")


def _tasks(yard: Yard) -> None:
    def crawl(page: int, **fields: object) -> str:
        return yard.submit(
            "crawl",
            agentId=f"crawler-{page % 3}",
            params={"url": f"{SOURCE}/{page}", "depth": 2, "fields": ["title", "price"], "wait": {"idleMs": 500}},
            labels={"site": "shop", "team": "search"},
            concurrencyKeys=["site:example.org"],
            **{"requires": ["browser"], **fields},
        )

    for page in range(6):
        crawl(page)
    done, failed = yard.run("web-1"), yard.run("web-2")
    done.report("progress", progress={"fraction": 0.9, "message": "reading the last page"})
    done.report("complete", result={"title": "A catalogue", "products": [{"name": "Lamp", "price": 39.9}], "pages": 4})
    failed.report("fail", error="the page did not answer within 30 s", code="timeout")
    running = yard.run("web-1")
    running.report("progress", progress={"fraction": 0.4, "message": "3 of 8 pages"})
    running.say(
        1,
        {"text": "\x1b[32mGET\x1b[0m /3  \x1b[1m200\x1b[0m  41 ms\n", "channel": "stdout"},
        {"text": "/4 has no price\n", "channel": "stderr"},
        {"json": {"product": {"name": "Lamp", "price": 39.9}, "page": 3}},
    )
    running.put("products.json", b'[{"name":"Lamp","price":39.9}]', "application/json")
    running.put("page.png", PIXEL, "image/png")
    running.put("a-recording-of-all-that-the-page-has-done-while-it-was-read.webm", bytes(9_000), "video/webm")
    paused = yard.run("web-2")
    yard.call("POST", f"/tasks/{paused.task_id}/pause")
    paused.report("release")
    question = {"text": "The page asks for a postcode. Which one?", "choices": ["10115", "80331"]}
    yard.run("web-2").report("park", waits=[{"name": "postcode", "question": question}])
    retry = {"maxAttempts": 3, "firstDelayMs": 600_000, "maxDelayMs": 600_000}
    retried_id = yard.submit("render", agentId="artist", requires=["gpu"], retryPolicy=retry, params={"scene": "lobby"})
    retried = yard.run("gpu-1")
    assert retried.task_id == retried_id
    retried.report("fail", error="out of memory on the device", code="oom")
    yard.submit("render", agentId="artist", requires=["gpu"], concurrencyKeys=["model:large"], params={"scene": "hall"})
    yard.claim("gpu-1")
    yard.submit(
        "render", agentId="artist", requires=["gpu"], concurrencyKeys=["model:large"], params={"scene": "attic"}
    )
    yard.submit("train", agentId="artist", requires=["quantum"], params={"epochs": 3})
    report = yard.submit("report", agentId="reporter", hold=True, labels={"team": "finance"})
    yard.submit("send", agentId="reporter", after=[report])
    cancelled = yard.submit("report", agentId="reporter", priority=8)
    yard.call("POST", f"/tasks/{cancelled}/cancel")


def _targets(yard: Yard) -> None:
    for _ in range(3):
        yard.submit("checkout", agentId="shopper", target="shop-a", requires=["till"])
    yard.submit("checkout", agentId="shopper", target="shop-b", requires=["till"])
    yard.host("till-1", capabilities=["till"])
    for _ in range(2):
        lease = yard.run("till-1")
        if yard.task(lease.task_id)["target"] == "shop-a":
            lease.report("fail", error="the card reader is not there", code="no_reader")


def _schedules(yard: Yard) -> None:
    task = {"agentId": "indexer", "action": "index", "params": {"full": True}}
    nightly = {"scheduleId": "nightly-index", "cron": "0 3 * * *", "timeZone": "Europe/Berlin", "task": task}
    yard.call("POST", "/schedules", **nightly)
    yard.call("POST", "/schedules/nightly-index/trigger")
    hourly = {"scheduleId": "refresh", "interval": "1h", "task": {**task, "action": "refresh"}}
    yard.call("POST", "/schedules", **hourly)
    yard.call("POST", "/schedules/refresh/pause")


def work(yard: Yard, is_over: threading.Event) -> None:
    """Let agents submit and hosts work at a few tasks a second, until it is over."""
    chance = random.Random(20)
    for name in ("web-3", "web-4"):
        yard.host(name, display_name=name.replace("web-", "Web "), capabilities=["worker"], slots=4)
    with yard.plane.http(yard.namespace) as client:
        other = Yard(yard.plane, yard.namespace, client)
        turn = 0
        while not is_over.wait(0.2):
            turn += 1
            wave = 1 + (turn // 100) % 3
            for _ in range(wave):
                agent = chance.choice(["crawler-0", "crawler-1", "indexer", "artist"])
                site = chance.choice(["shop", "blog", "docs"])
                action = chance.choice(["extract", "index", "embed"])
                other.submit(action, agentId=agent, requires=["worker"], labels={"site": site})
            for _ in range(chance.randint(0, 2 * wave + 1)):
                answer = other.call("POST", f"/api/runtime-hosts/web-{chance.choice('34')}/tasks/claim", lease_secs=60)
                if not answer["claimed"]:
                    break
                host = answer["task"]["host_id"]
                lease = Lease(other, host, answer["task_id"], answer["fencing_token"])
                lease.report("start")
                if chance.random() < 0.06:
                    lease.report("fail", error="the page did not answer within 30 s", code="timeout")
                else:
                    lease.report("complete", result={"items": chance.randint(1, 40)})
            if turn % 50 == 0:
                for name in ("web-1", "web-2", "web-3", "web-4", "gpu-1", "till-1"):
                    machine = {"cpu_percent": chance.uniform(20, 80), "memory_mb": chance.uniform(900, 2_400)}
                    other.call("POST", f"/api/runtime-hosts/{name}/heartbeat", machine=machine)
