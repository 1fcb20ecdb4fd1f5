"""The table of the commands, in the order of the help."""

from typing import Final

from .lazy_commands import Entry

TASKS: Final = "Tasks"
MANY: Final = "Many tasks"
HOSTS: Final = "Hosts and shares"
SERVER: Final = "The server"

ENTRIES: Final = (
    Entry("submit", "submit:submit", "Submit one task.", TASKS),
    Entry("get", "tasks:get", "Show one task.", TASKS),
    Entry("list", "tasks:list_tasks", "List tasks in order of submission.", TASKS),
    Entry("watch", "watch:watch", "Show what happens to tasks until Ctrl-C.", TASKS),
    Entry("wait", "wait:wait", "Wait until tasks have ended.", TASKS),
    Entry("why", "waiting:why", "Say why a task waits: each reason has to go before it runs.", TASKS),
    Entry("cancel", "tasks:cancel", "Cancel a task that has not ended.", TASKS),
    Entry(
        "pause",
        "interruptions:pause",
        "Interrupt a task that is assigned or running.",
        TASKS,
    ),
    Entry("resume", "interruptions:resume", "Queue a paused or failed task again, or release a held one.", TASKS),
    Entry("resolve", "interruptions:resolve", "End a paused or failed task as done, which frees its target.", TASKS),
    Entry("batch", "batch:app", "Submit tasks from a file, and follow them together.", MANY),
    Entry("bulk", "bulk:app", "Cancel, pause, resume, resolve or reprioritize all tasks that match.", MANY),
    Entry("operations", "operations:app", "Show and cancel what is done to many tasks at once.", MANY),
    Entry("schedule", "schedules:app", "Submit tasks by the clock.", MANY),
    Entry("schedules", "schedules:app", "Submit tasks by the clock.", hidden=True),
    Entry("triggers", "triggers:triggers", "List the triggers of schedules, latest due first.", MANY),
    Entry("targets", "targets:targets", "List the targets by name, with what each waits for.", MANY),
    Entry("hosts", "hosts:hosts", "List the runtime hosts.", HOSTS),
    Entry("drain", "hosts:drain", "Hand a host nothing new, and tell it to finish and leave.", HOSTS),
    Entry("host", "host.command:app", "Run the host of a program.", HOSTS),
    Entry("demand", "waiting:demand", "Show what the configured pools of hosts have to do.", HOSTS),
    Entry("limits", "rules:limits", "Show, set and delete limits of concurrency keys.", HOSTS),
    Entry("weights", "rules:weights", "Show, set and delete weights of agents.", HOSTS),
    Entry(
        "fairness",
        "rules:fairness",
        "Show what each agent is entitled to by its weight.",
        HOSTS,
    ),
    Entry(
        "up", "up.command:up", "Run the control plane: the gRPC server, the REST gateway, and the tab executor.", SERVER
    ),
    Entry(
        "top",
        "top.command:top",
        "Show the queue, rates, agents and hosts live, and what holds tasks back, until q or Ctrl-C.",
        SERVER,
    ),
    Entry("stats", "stats:stats", "Show the scheduler's figures.", SERVER),
    Entry("namespace", "namespaces:app", "Show, limit and delete namespaces.", SERVER),
    Entry("namespaces", "namespaces:app", "Show, limit and delete namespaces.", hidden=True),
    Entry("replicas", "replicas:app", "List the replicas that share the store of the server.", SERVER),
    Entry("store", "store.command:app", "Look after what a yard keeps: check, back up, restore, copy.", SERVER),
    Entry("token", "tokens:app", "Make, show and revoke the tokens that calls come with.", SERVER),
    Entry("tokens", "tokens:app", "Make, show and revoke the tokens that calls come with.", hidden=True),
    Entry("whoami", "tokens:whoami", "Show who the server takes one for.", SERVER),
)
