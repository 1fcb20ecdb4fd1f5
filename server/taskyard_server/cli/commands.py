"""The table of the commands, in the order of the help."""

from typing import Final

from .lazy_commands import CommandEntry

TASKS: Final = "Tasks"
MANY: Final = "Many tasks"
HOSTS: Final = "Hosts and shares"
SERVER: Final = "The server"

ENTRIES: Final = (
    CommandEntry("submit", "submit:submit", "Submit one task.", TASKS),
    CommandEntry("get", "tasks:get", "Show one task.", TASKS),
    CommandEntry("list", "tasks:list_tasks", "List tasks in order of submission.", TASKS),
    CommandEntry("watch", "watch:watch", "Show what happens to tasks until Ctrl-C.", TASKS),
    CommandEntry("logs", "logs:logs", "Show what a task has said.", TASKS),
    CommandEntry("artifacts", "artifacts:artifacts", "List the artifacts of a task, or save one.", TASKS),
    CommandEntry("steps", "steps:steps", "List the steps of a task, which its next run does not do again.", TASKS),
    CommandEntry("tree", "tree:tree", "Show a task with all that its work has submitted.", TASKS),
    CommandEntry("wait", "wait:wait", "Wait until tasks have ended.", TASKS),
    CommandEntry("why", "waiting:why", "Say why a task waits: each reason has to go before it runs.", TASKS),
    CommandEntry("questions", "questions:questions", "List the questions that tasks ask.", TASKS),
    CommandEntry("answer", "questions:answer", "Answer a question that a task asks.", TASKS),
    CommandEntry("send-event", "events:send_event", "Send an event to a name.", TASKS),
    CommandEntry("cancel", "tasks:cancel", "Cancel a task that has not ended.", TASKS),
    CommandEntry(
        "pause",
        "interruptions:pause",
        "Interrupt a task that is assigned or running.",
        TASKS,
    ),
    CommandEntry(
        "resume", "interruptions:resume", "Queue a paused or failed task again, or release a held one.", TASKS
    ),
    CommandEntry(
        "resolve", "interruptions:resolve", "End a paused or failed task as done, which frees its target.", TASKS
    ),
    CommandEntry("batch", "batch:app", "Submit tasks from a file, and follow them together.", MANY),
    CommandEntry("bulk", "bulk:app", "Cancel, pause, resume, resolve or reprioritize all tasks that match.", MANY),
    CommandEntry("operations", "operations:app", "Show and cancel what is done to many tasks at once.", MANY),
    CommandEntry("schedule", "schedules:app", "Submit tasks by the clock.", MANY),
    CommandEntry("schedules", "schedules:app", "Submit tasks by the clock.", hidden=True),
    CommandEntry("triggers", "triggers:triggers", "List the triggers of schedules, latest due first.", MANY),
    CommandEntry("targets", "targets:targets", "List the targets by name, with what each waits for.", MANY),
    CommandEntry("hosts", "hosts:hosts", "List the runtime hosts.", HOSTS),
    CommandEntry("drain", "hosts:drain", "Hand a host nothing new, and tell it to finish and leave.", HOSTS),
    CommandEntry("host", "host.command:app", "Run the host of a program.", HOSTS),
    CommandEntry("demand", "waiting:demand", "Show what the configured pools of hosts have to do.", HOSTS),
    CommandEntry("limits", "rules:limits", "Show, set and delete limits of concurrency keys.", HOSTS),
    CommandEntry("weights", "rules:weights", "Show, set and delete weights of agents.", HOSTS),
    CommandEntry(
        "fairness",
        "rules:fairness",
        "Show what each agent is entitled to by its weight.",
        HOSTS,
    ),
    CommandEntry(
        "up", "up.command:up", "Run the control plane: the gRPC server, the REST gateway, and the tab executor.", SERVER
    ),
    CommandEntry(
        "top",
        "top.command:top",
        "Show the queue, rates, agents and hosts live, and what holds tasks back, until q or Ctrl-C.",
        SERVER,
    ),
    CommandEntry("health", "stats:health", "Say whether the server lives, for health checks.", SERVER),
    CommandEntry(
        "doctor",
        "doctor.command:doctor",
        "Look at what may be wrong with a yard, before a start or beside a running server, and say what to do.",
        SERVER,
    ),
    CommandEntry("stats", "stats:stats", "Show the scheduler's figures.", SERVER),
    CommandEntry("namespace", "namespaces:app", "Show, limit and delete namespaces.", SERVER),
    CommandEntry("namespaces", "namespaces:app", "Show, limit and delete namespaces.", hidden=True),
    CommandEntry("replicas", "replicas:app", "List the replicas that share the store of the server.", SERVER),
    CommandEntry("store", "store.command:app", "Look after what a yard keeps: check, back up, restore, copy.", SERVER),
    CommandEntry("token", "tokens:app", "Make, show and revoke the tokens that calls come with.", SERVER),
    CommandEntry("tokens", "tokens:app", "Make, show and revoke the tokens that calls come with.", hidden=True),
    CommandEntry("whoami", "tokens:whoami", "Show who the server takes one for.", SERVER),
)
