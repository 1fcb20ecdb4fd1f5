"""The screen of `taskyard top`, line by line: figures with their last minutes, what holds back, agents and hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from rich.text import Text

from taskyard.v1 import runtime_host_pb2, sample_pb2, stats_pb2
from taskyard_server.cli.listing import Head, number
from taskyard_server.cli.server import length_text, shown, size_text, time_ago

from .figures import TopFigures, interval_secs
from .state import Panel, State
from .table import beside, table_lines

MARKS: Final = "▁▂▃▄▅▆▇█"
SIDE_BY_SIDE: Final = 110
"""From this many columns on, agents and hosts stand side by side."""
BOTH: Final = 8
"""The lines that two tables need at least, one below the other."""
LABEL_WIDTH: Final = 11
VALUE_WIDTH: Final = 9
NOTE_WIDTH: Final = 26
NARROW: Final = 60
MAX_MARKS: Final = 90
MIB: Final = 1024 * 1024
BAR_CELLS: Final = 8
STYLES: Final = {"alive": "green", "idle": "cyan", "busy": "yellow", "dead": "red"}
HELP: Final = (
    "q  quit                    p  hold the picture, and go on",
    "s  sort by something else  tab  agents or hosts",
    "n  next namespace          N  the one before",
    "r  read at once            up, down  scroll",
    "A mark of the curves is 10 seconds. Rates are those since the last look.",
)


def screen(
    figures: TopFigures, state: State, width: int, height: int, *, address: str, now: datetime, problem: str = ""
) -> list[Text]:
    """All lines of the screen, at most `height`. `problem` says why the figures are not those of now."""
    top = [_title(figures, state, width, address, now, problem)]
    if problem:
        top.append(Text(problem, "red"))
    top += [*_curves(figures, width), *_held_back(figures)]
    if state.has_help:
        top += [Text(), *map(Text, HELP)]
    top.append(Text())
    footer = _footer(state)
    room = height - len(top) - 1
    body = _tables(figures, state, width, room) if room > 1 else []
    lines = [*top, *body][: height - 1]
    lines += [Text()] * (height - 1 - len(lines))
    lines.append(footer)
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def page(figures: TopFigures, state: State, width: int, *, address: str, now: datetime) -> list[Text]:
    """All of it one below the other, for what is no screen."""
    lines = [_title(figures, state, width, address, now, ""), *_curves(figures, width), *_held_back(figures), Text()]
    lines += [*_agents(figures, state, width), Text(), *_hosts(figures, state, width)]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
        line.rstrip()
    return lines


def _title(figures: TopFigures, state: State, width: int, address: str, now: datetime, problem: str) -> Text:
    left = Text.assemble(("taskyard top  ", "bold"), shown(figures.namespace), (f" at {address}", "dim"))
    if state.namespace != figures.namespace:
        left.append(f"  reading {state.namespace}", "yellow")
    right = Text(f"{now:%H:%M:%S}", "dim")
    if problem:
        right = Text.assemble(("no answer", "bold red"), "  ", right)
    elif state.is_paused:
        right = Text.assemble(("paused", "bold yellow"), "  ", right)
    left.truncate(max(1, width - right.cell_len - 1), overflow="ellipsis", pad=True)
    left.append(" ")
    return left.append_text(right)


def _curves(figures: TopFigures, width: int) -> list[Text]:
    queue, metrics, config = figures.stats.queue, figures.stats.metrics, figures.stats.config
    samples = figures.samples or ()
    last = samples[-1] if samples else sample_pb2.Sample()
    oldest = f"oldest {length_text(last.oldest_queued_secs)}" if last.HasField("oldest_queued_secs") else ""
    paused = f", {queue.total_paused:,.0f} paused" if queue.total_paused else ""
    parked = f"{queue.total_parked:,.0f} parked" if queue.total_parked else ""
    waiting = ", ".join(filter(None, (oldest, parked)))
    latency = f"{metrics.avg_dispatch_latency_ms:.1f} ms to hand-out" if metrics.dispatch_count else ""
    if last.HasField("avg_dispatch_latency_ms"):
        latency = f"{last.avg_dispatch_latency_ms:.1f} ms to hand-out"
    every = interval_secs(samples)

    def rate(name: str) -> str:
        return f"{_count(figures.rates[name])}/s" if name in figures.rates else "-"

    def past(of: Callable[[sample_pb2.Sample], float]) -> list[float]:
        return [of(each) for each in samples]

    rows: list[tuple[str, str, list[float], str, str]] = [
        ("queued", _count(queue.total_queued), past(lambda each: each.queued), waiting, "cyan"),
        (
            "in flight",
            _count(queue.total_inflight),
            past(lambda each: each.inflight),
            f"of {config.max_inflight:,}{paused}",
            "yellow",
        ),
        ("submitted", rate("submitted"), past(lambda each: each.submitted / every), "", "blue"),
        ("handed out", rate("dispatched"), past(lambda each: each.dispatched / every), latency, "blue"),
        ("done", rate("completed"), past(lambda each: each.completed / every), _sum(metrics.tasks_completed), "green"),
        ("failed", rate("failed"), past(lambda each: each.failed / every), _sum(metrics.tasks_failed), "red"),
    ]
    return [_curve(*row, width) for row in rows]


def _curve(label: str, value: str, past: Sequence[float], note: str, style: str, width: int) -> Text:
    line = Text(f"{label:<{LABEL_WIDTH}}")
    line.append(f"{value:>{VALUE_WIDTH}}", "bold")
    note_width = NOTE_WIDTH if width >= NARROW else 0
    cells = min(MAX_MARKS, width - LABEL_WIDTH - VALUE_WIDTH - 2 - note_width)
    if cells >= BAR_CELLS:
        line.append("  ")
        line.append(marks(past, cells).rjust(cells), style)
    if note and note_width:
        line.append(f"  {note}", "dim")
    return line


def marks(values: Sequence[float], cells: int) -> str:
    """The last values as a curve of this many cells, the highest at its top; what is not 0 is seen."""
    shown_values = values[-cells:]
    most = max(shown_values, default=0.0)
    if most <= 0:
        return MARKS[0] * len(shown_values)
    steps = len(MARKS) - 1
    return "".join(MARKS[0 if value <= 0 else max(1, round(value / most * steps))] for value in shown_values)


def _held_back(figures: TopFigures) -> list[Text]:
    """The reasons that keep tasks from running, and what would help."""
    queue, stats = figures.stats.queue, figures.stats
    told: list[str] = []
    if queue.total_queued and stats.HasField("hosts") and not stats.hosts.online:
        told.append("no host is online" + (f", {lost:,.0f} lost may come back" if (lost := stats.hosts.lost) else ""))
    if queue.limited_by:
        told.append(f"hosts have room and tasks wait: raise scheduler.{queue.limited_by}")
    if queue.noticed.waiting:
        notice = max(queue.noticed.notices, key=lambda each: queue.noticed.notices[each], default="")
        told.append(f"{queue.noticed.waiting:,.0f} tasks have no host: {notice}")
    if queue.targets.waiting:
        first = next(iter(queue.targets.waits_for.items()), None)
        told.append(
            f"{queue.targets.waiting:,.0f} wait for their target" + (f": {first[0]} for {first[1]}" if first else "")
        )
    if queue.keys.waiting:
        most = sorted(queue.keys.keys.items(), key=lambda each: (-each[1], each[0]))[:3]
        told.append(
            f"{queue.keys.waiting:,.0f} wait for keys: " + ", ".join(f"{key} ({count:,.0f})" for key, count in most)
        )
    if queue.after_others:
        told.append(f"{queue.after_others:,.0f} wait for other tasks")
    return [Text.assemble(("held back  ", "bold magenta"), shown(each)) for each in told]


def _tables(figures: TopFigures, state: State, width: int, room: int) -> list[Text]:
    if width >= SIDE_BY_SIDE:
        half = (width - 2) // 2
        agents, hosts = _agents(figures, state, half), _hosts(figures, state, half)
        return beside(_scrolled(agents, state, Panel.AGENTS, room), _scrolled(hosts, state, Panel.HOSTS, room), half)
    agents, hosts = _agents(figures, state, width), _hosts(figures, state, width)
    if room < BOTH:
        front = agents if state.panel is Panel.AGENTS else hosts
        return _scrolled(front, state, state.panel, room)
    least = room // 2
    agent_lines = min(len(agents), max(least, room - 1 - len(hosts)))
    host_lines = room - 1 - agent_lines
    return [
        *_scrolled(agents, state, Panel.AGENTS, agent_lines),
        Text(),
        *_scrolled(hosts, state, Panel.HOSTS, host_lines),
    ]


def _scrolled(lines: list[Text], state: State, panel: Panel, room: int) -> list[Text]:
    """The part of a table that is shown, with its two heads. What is in front is scrolled, never beyond its end."""
    heads, rows = lines[:2], lines[2:]
    space = max(0, room - len(heads))
    first = min(state.scrolled, max(0, len(rows) - space)) if panel is state.panel else 0
    heads[0].stylize("reverse" if panel is state.panel else "")
    if len(rows) > space:
        heads[0].append(f"  {first + 1} to {first + space} of {len(rows):,}", "dim")
    return [*heads, *rows[first : first + space]][:room]


def _agents(figures: TopFigures, state: State, width: int) -> list[Text]:
    counts, metrics = figures.stats.queue.agent_counts, figures.stats.metrics.agents
    shares = {each.agent_id: each for each in figures.agents or ()}
    names = sorted({*shares, *counts, *metrics})
    nobody, nothing = stats_pb2.AgentShare(), stats_pb2.AgentMetrics()
    orders: dict[str, Callable[[str], object]] = {
        "share": lambda name: (-shares.get(name, nobody).received, -shares.get(name, nobody).inflight),
        "queued": lambda name: -counts.get(name, 0),
        "in flight": lambda name: -shares.get(name, nobody).inflight,
        "done": lambda name: -metrics.get(name, nothing).completed,
        "failed": lambda name: -metrics.get(name, nothing).failed,
        "agent": lambda name: name,
    }
    names.sort(key=orders[state.agent_order])  # type: ignore[arg-type]
    heads = [
        *(Head("agent"), number("in flight", 1), number("queued"), number("entitled", 4), number("received", 3)),
        *(number("weight", 6), number("done", 2), number("failed", 5)),
    ]
    rows = []
    for name in names:
        share, figure = shares.get(name), metrics.get(name, nothing)
        known = [Text("")] * 4
        if share is not None:
            received = Text(f"{share.received:.0%}", "yellow" if share.runnable and not share.inflight else "")
            known = [Text(f"{share.inflight:,}"), Text(f"{share.entitled:.0%}"), received, Text(f"{share.weight}")]
        ended = [Text(_count(figure.completed)), Text(_count(figure.failed), "red" if figure.failed else "")]
        rows.append([shown(name), known[0], Text(_count(counts.get(name, 0))), *known[1:], *ended])
    title = Text(f"AGENTS by {state.agent_order}", "bold")
    if figures.agents is None:
        title.append("  shares need the role viewer", "dim")
    return [title, *table_lines(heads, rows, width)]


def _hosts(figures: TopFigures, state: State, width: int) -> list[Text]:
    title = Text(f"HOSTS by {state.host_order}", "bold")
    if figures.hosts is None:
        return [title, Text("need the role viewer", "dim")]
    orders: dict[str, Callable[[runtime_host_pb2.RuntimeHost], object]] = {
        "load": lambda host: (-_load(host), -host.leases, host.id),
        "leases": lambda host: (-host.leases, host.id),
        "cpu": lambda host: (-host.machine.cpu_percent, host.id),
        "memory": lambda host: (-host.machine.memory_mb, host.id),
        "host": lambda host: host.id,
    }
    heads = [
        *(Head("host"), Head("status", 1), Head("load", 4), number("leases"), number("slots", 2)),
        *(number("cpu", 3), number("memory", 5), number("seen", 6)),
    ]
    rows = [_host(host) for host in sorted(figures.hosts, key=orders[state.host_order])]  # type: ignore[arg-type]
    return [title, *table_lines(heads, rows, width)]


def _host(host: runtime_host_pb2.RuntimeHost) -> list[Text]:
    status = runtime_host_pb2.RuntimeHost.Status.Name(host.status)
    words = Text(status, STYLES.get(status, ""))
    if host.draining:
        words.append(", drains")
    elif host.HasField("lost_at") and status != "dead":
        words.append(f", lost {time_ago(host.lost_at)}")
    elif not host.online and status != "dead":
        words.append(", offline")
    machine, load = host.machine, _load(host)
    filled = round(min(1.0, load) * BAR_CELLS)
    bar = Text("█" * filled, "green" if load < 0.8 else "yellow")
    return [
        shown(host.id),
        words,
        bar.append("░" * (BAR_CELLS - filled), "dim"),
        Text(f"{host.leases:,}"),
        Text(f"{host.slots:,}" if host.HasField("slots") else ""),
        Text(f"{machine.cpu_percent:.0f} %" if machine.HasField("cpu_percent") else ""),
        Text(size_text(machine.memory_mb * MIB) if machine.HasField("memory_mb") else ""),
        Text(time_ago(host.last_heartbeat_at)),
    ]


def _load(host: runtime_host_pb2.RuntimeHost) -> float:
    """The part of a host's slots that is taken; a host that does not tell them is full with its first lease."""
    return host.leases / host.slots if host.slots else float(bool(host.leases))


def _footer(state: State) -> Text:
    keys = (
        *(("q", "quit"), ("p", "go on" if state.is_paused else "pause"), ("s", f"sort by {state.order}")),
        *(("tab", "hosts" if state.panel is Panel.AGENTS else "agents"), ("n", "namespace"), ("?", "help")),
    )
    footer = Text()
    for key, does in keys:
        footer.append(f" {key} ", "reverse").append(f" {does}  ")
    return footer


def _sum(count: float) -> str:
    return f"{count:,.0f} in all" if count else ""


def _count(count: float) -> str:
    """A number for people: `12`, `1,234`, `0.4`, `1.2 M`."""
    if 0 < count < 10 and count != int(count):
        return f"{count:.1f}"
    return f"{count:,.0f}" if count < 1e6 else f"{count / 1e6:.1f} M"
