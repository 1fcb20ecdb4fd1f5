#!/usr/bin/env python
"""Writes the reference of the Python SDK from its docstrings: `tools/python_doc.py >docs/use/python.md`.

It reads the sources and imports nothing of them. tools/generate.sh runs this.
"""

import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import griffe

SOURCES: Final = Path(__file__).parents[1] / "clients" / "python"
FOLDER: Final = "docs/use"
"""Where the page stands: its links begin there."""
GROUPS: Final = {
    "Actions": ("What is run, and with what.", "Action RetryPolicy NewTask task_of"),
    "Clients": (
        "Who submits tasks and follows them.",
        "Client TaskHandle as_completed TaskMap Outcome OperationHandle Schedules Namespaces Limits Agents Operations",
    ),
    "Clients without asyncio": (
        "The same calls, blocking, from any thread.",
        "SyncClient SyncTaskHandle SyncTaskMap SyncOperationHandle SyncSchedules SyncNamespaces SyncLimits SyncAgents "
        "SyncOperations",
    ),
    "Hosts": ("Who runs tasks.", "Host RunningTask TaskInput ActionFailed NotRetryable Retry Parked Child ChildFailed"),
    "Tasks": (
        "What calls return about tasks. All of it is frozen.",
        "Task TaskState Attempt Progress Submitted SubmittedBatch Batch BatchOutcome TaskEvent EventKind OutputChunk "
        "Artifact Step StepKind Park Wait WaitFor Question OpenQuestion Target TargetStatus Stopping Explanation "
        "WaitReason WaitKind Operation OperationKind OperationStatus",
    ),
    "Schedules": ("What calls return about schedules.", "Schedule CatchUp Overlap Trigger TriggerState"),
    "Figures and namespaces": (
        "What calls return about a namespace.",
        "Sample Stats QueueStats SchedulerMetrics SchedulerConfig AgentMetrics HostStats Namespace NamespaceLimits "
        "NamespaceTotals Limit KeyUsage AgentWeight AgentShare PoolDemand",
    ),
    "Payloads": ("Inputs and outputs on their way.", "Payload Codec FernetCodec"),
    "Errors": (
        "What is raised. Those with a code derive from `TaskyardError`.",
        "TaskFailed TaskCancelled TaskLost TaskyardError QueueFull BadRequest BadValue TooLarge BatchTooLarge NotFound "
        "AlreadyExists Conflict LeaseLost CursorExpired OutOfRange Unauthenticated PermissionDenied TooManyRequests "
        "Unavailable DeadlineExceeded CallCancelled ClientClosed Unimplemented Internal",
    ),
}
"""The public names of `taskyard`, each in one place."""
OPTIONS: Final = {
    "taskyard.connection.credentials.CredentialOptions": "The `**access` of clients and hosts.",
    "taskyard.calls.listing.TaskFilters": "The `**filters` of `Client.list`.",
    "taskyard.calls.listing.TaskCriteria": "The `**criteria` of `Client.cancel_tasks` and its like.",
}
"""Types of keyword arguments, which other docstrings name."""
MODULES: Final = ("taskyard.testing", "taskyard.contrib.opentelemetry")
OPTIONS_OF_PARSER: Final[Any] = {"returns_multiple_items": False, "returns_named_value": False}
BLOCKING: Final = {
    "SyncClient": "Client",
    "SyncTaskHandle": "TaskHandle",
    "SyncTaskMap": "TaskMap",
    "SyncSchedules": "Schedules",
    "SyncNamespaces": "Namespaces",
    "SyncOperationHandle": "OperationHandle",
    "SyncLimits": "Limits",
    "SyncAgents": "Agents",
    "SyncOperations": "Operations",
    "SyncYard": "Yard",
}
"""Classes whose methods are those of another one."""
MADE_FOR_USERS: Final = {
    *("TaskHandle", "TaskMap", "OperationHandle", "Schedules", "Namespaces", "Limits", "Agents", "Operations"),
    *("RunningTask", "YardHost", "RecordedTask"),
}
"""Classes of which users get objects and make none, so that the arguments are of no use; the blocking ones, too."""
INTERNAL: Final = re.compile(
    r"\w+\.(?:from|to)_\w+|Action\.fields_for|Task\.with_\w+"
    r"|TaskHandle\.(?:note|lost|output_of)|TaskMap\.take"
    r"|RunningTask\.(?:take_input|report)|YardHost\.(?:check|kill)"
)
"""Methods that other parts of the SDK call."""
OUTDATED: Final = re.compile(r"(?:The )?(?:old|former)\b|Deprecated", re.IGNORECASE)
QUOTES: Final = "'\""
CITATION: Final = re.compile(r"\((docs/[\w/]+\.md), ([\w -]+)\)")
HEAD: Final = """# The Python SDK

Made from the docstrings by `tools/python_doc.py`. The [tutorial](tutorial.md) shows the parts at work;
[clients/python](../../clients/python/README.md) says how addresses, tokens and certificates are found. All names above
[Options](#options) are those of the module `taskyard`. Spans are timedeltas, or numbers of seconds where that is said;
times have a time zone.
"""


def main() -> None:
    """Print the page."""
    loader = griffe.GriffeLoader(
        search_paths=[str(SOURCES)], docstring_parser="google", docstring_options=OPTIONS_OF_PARSER
    )
    package = loader.load("taskyard")
    loader.resolve_aliases(implicit=True)
    sys.stdout.write(CITATION.sub(linked, "\n".join(page(package))).rstrip() + "\n")


def linked(citation: re.Match[str]) -> str:
    """A link to a rule that a docstring cites."""
    document, heading = citation.groups()
    return f"([{heading}]({posixpath.relpath(document, FOLDER)}#{heading.lower().replace(' ', '-')}))"


def page(package: Any) -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    for title, (text, names) in GROUPS.items():
        yield f"## {title}\n\n{text}\n"
        yield from objects(package[name] for name in names.split())
    yield "## Options\n"
    for path, text in OPTIONS.items():
        found = package[path.removeprefix("taskyard.")]
        yield f"### {found.name}\n\n{text} {sections(found)['text']}\n"
        yield from entries(sections(found), "attributes")
    for path in MODULES:
        module = package[path.removeprefix("taskyard.")]
        yield f"## {path}\n\n{sections(module)['text']}\n"
        names = exported(module)
        yield from objects(module[name] for name in names)


def exported(module: Any) -> list[str]:
    """The public names of a module: those of its `__all__`, else what it defines itself."""
    if module.exports is not None:
        return [str(name) for name in module.exports]
    return [
        name
        for name, each in module.members.items()
        if not name.startswith("_") and not each.is_alias and (each.is_class or each.is_function)
    ]


def objects(found: Iterable[Any]) -> Iterator[str]:
    """Classes and functions one by one, and in one table those of which there is but a sentence to tell."""
    short = []
    for each in found:
        it = each.final_target if each.is_alias else each
        if it.is_function:
            yield from function(it, "###")
        elif is_short(it):
            short.append(it)
        else:
            yield from whole_class(it)
    if short:
        yield "| | |\n| --- | --- |"
        for it in short:
            members = [f"`{value}`" for value in values(it)]
            more = f" {', '.join(members)}." if members else ""
            code = it.members.get("code")
            name = f"`{it.name}`" if code is None else f"`{it.name}`, `{str(code.value).strip(QUOTES)}`"
            yield f"| {name} | {one_line(sections(it)['text'])}{more} |"
        yield ""


def is_short(it: Any) -> bool:
    """True if a class has a text and no more."""
    return not {"parameters", "attributes"} & set(sections(it)) and not list(methods(it))


def whole_class(it: Any) -> Iterator[str]:
    """A class with its arguments, attributes, properties and methods."""
    parts = sections(it)
    yield f"### {it.name}\n\n{parts['text']}\n"
    arguments = {each.name for each in parts.get("parameters", ())}
    attributes = {each.name for each in parts.get("attributes", ())}
    is_made = it.name not in MADE_FOR_USERS and BLOCKING.get(it.name, "") not in MADE_FOR_USERS
    is_made = is_made and not is_error(it) and not attributes >= {"task_id", "message"}
    is_value = attributes <= arguments
    if is_made:
        yield from entries(parts, "parameters", "Arguments" if attributes and not is_value else "")
    shown = [each for each in parts.get("attributes", ()) if not (is_made and is_value)]
    rows = [f"- `{each.name}`: {one_line(each.description)}" for each in shown]
    rows += [f"- `{each.name}`: {one_line(sections(each)['text'])}" for each in properties(it)]
    if rows:
        if is_made and arguments:
            yield "Attributes:\n"
        yield from (*rows, "")
    if is_made:
        yield from raised(parts)
    other = BLOCKING.get(it.name)
    if other is not None:
        names = {each.name for each in methods(it)} | set(blocking(it))
        shown = ", ".join(f"`{name}`" for name in sorted(names))
        if shown:
            yield f"Methods, which are those of [{other}](#{other.lower()}): {shown}.\n"
        return
    for each in methods(it):
        yield from function(each, "####")


def is_error(it: Any) -> bool:
    """True if a class is one of the errors that calls raise."""
    return it.name in GROUPS["Errors"][1].split()


def function(it: Any, level: str) -> Iterator[str]:
    """A function with its arguments, and what it returns and raises."""
    parts = sections(it)
    yield f"{level} `{signature(it)}`\n"
    yield f"{parts['text']}\n"
    yield from entries(parts, "parameters")
    returned = [*parts.get("returns", ()), *parts.get("yields", ())]
    if returned:
        yield f"Returns: {one_line(returned[0].description)}\n"
    yield from raised(parts)


def signature(it: Any) -> str:
    """How a function is called. Types stand in what is said of the arguments."""
    words = []
    keywords = positional = False
    for each in it.parameters:
        kind = each.kind.value if each.kind is not None else ""
        if each.name in ("self", "cls"):
            continue
        if positional and kind != "positional-only":
            words.append("/")
            positional = False
        positional = positional or kind == "positional-only"
        if kind == "keyword-only" and not keywords:
            words.append("*")
            keywords = True
        if kind == "variadic positional":
            words.append(f"*{each.name}")
            keywords = True
        elif kind == "variadic keyword":
            words.append(f"**{each.name}")
        elif each.default is None:
            words.append(each.name)
        elif not is_outdated(it, each.name):
            default = str(each.default)
            words.append(f"{each.name}={'...' if default.isupper() else default}")
    begin = "async " if "async" in it.labels else ""
    answer = "" if it.returns is None else f" -> {it.returns}"
    return f"{begin}{it.name}({', '.join(words)}){answer}"


def is_outdated(it: Any, name: str) -> bool:
    """True if an argument is an old name of another one."""
    return any(each.name == name and OUTDATED.match(each.description) for each in sections(it).get("parameters", ()))


def entries(parts: dict[str, Any], kind: str, title: str = "") -> Iterator[str]:
    """A list of arguments or attributes, but for old names."""
    shown = [each for each in parts.get(kind, ()) if not OUTDATED.match(each.description)]
    if shown:
        if title:
            yield f"{title}:\n"
        yield from (f"- `{each.name}`: {one_line(each.description)}" for each in shown)
        yield ""


def raised(parts: dict[str, Any]) -> Iterator[str]:
    """A line about errors."""
    if "raises" in parts:
        words = [f"`{each.annotation}`: {one_line(each.description)}" for each in parts["raises"]]
        yield f"Raises {' '.join(words)}\n"


def sections(it: Any) -> dict[str, Any]:
    """The parts of a docstring by their kind; `text` is all of its text."""
    found: dict[str, Any] = {"text": ""}
    if it.docstring is not None:
        for part in it.docstring.parsed:
            if part.kind.value == "text":
                found["text"] = f"{found['text']}\n\n{part.value}".strip()
            else:
                found[part.kind.value] = part.value
    return found


def members(it: Any) -> Iterator[Any]:
    """The documented public members of a class, and those of its bases that are no public names themselves."""
    public = {name for _, names in GROUPS.values() for name in names.split()}
    inherited = [base for base in it.resolved_bases if base.path.startswith("taskyard.") and base.name not in public]
    seen = set()
    for cls in (*inherited, it):
        for name, each in cls.members.items():
            if not name.startswith("_") and name not in seen and not each.is_alias and each.docstring is not None:
                seen.add(name)
                if not OUTDATED.match(sections(each)["text"]):
                    yield each


def methods(it: Any) -> list[Any]:
    """The methods of a class."""
    return [
        each
        for each in members(it)
        if each.is_function and "property" not in each.labels and not INTERNAL.fullmatch(f"{it.name}.{each.name}")
    ]


def properties(it: Any) -> list[Any]:
    """The properties of a class."""
    return [each for each in members(it) if "property" in each.labels]


def blocking(it: Any) -> list[str]:
    """The methods that are made of those of another class."""
    made = re.compile(r"(?:blocking|iterating|beginning)\(")
    return [name for name, each in it.members.items() if each.is_attribute and made.match(str(each.value))]


def values(it: Any) -> list[str]:
    """The values of an enumeration."""
    if not any(str(base).endswith("Enum") for base in it.bases):
        return []
    return [str(each.value).strip("'\"") for name, each in it.members.items() if name.isupper() and each.is_attribute]


def one_line(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


if __name__ == "__main__":
    main()
