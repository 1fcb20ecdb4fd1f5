"""An example for the help of each command and group, by its words. Tests parse them all."""

from typing import Final

TASK: Final = "tsk_01a206ede947"
FETCH: Final = "--agent ann --action fetch"
PARAMS: Final = """--params '{"url": "https://example.org"}'"""

EXAMPLES: Final[dict[str, str]] = {
    "": f"submit {FETCH} {PARAMS} --wait",
    "up": "up --store memory:// --executor http://127.0.0.1:9222",
    "top": "top --namespace default",
    "submit": f"submit {FETCH} {PARAMS} --wait --timeout 1m",
    "get": f"get {TASK} -o yaml",
    "list": "list --state failed --since 2h --sort ended --reverse",
    "watch": f"watch --task {TASK} --until-ended",
    "wait": f"wait {TASK} --timeout 10m",
    "why": f"why {TASK}",
    "cancel": f"cancel {TASK} --cancel-children --wait 10s",
    "pause": f"pause {TASK} --wait 10s",
    "resume": f"resume {TASK} --token-limit 5000",
    "resolve": f"""resolve {TASK} --result '{{"by": "hand"}}'""",
    "batch": "batch submit tasks.jsonl --agent ann --wait",
    "batch submit": "batch submit tasks.jsonl --agent ann --wait",
    "batch get": "batch get bat_01a206ede947",
    "batch wait": "batch wait bat_01a206ede947 --timeout 10m",
    "batch cancel": "batch cancel bat_01a206ede947",
    "bulk": "bulk cancel --label site=shop --state queued --dry-run",
    "bulk cancel": "bulk cancel --label site=shop --state queued --dry-run",
    "bulk pause": "bulk pause --host host-1",
    "bulk resume": "bulk resume --state paused --agent ann",
    "bulk resolve": "bulk resolve --target tree --state failed --result null",
    "bulk reprioritize": "bulk reprioritize --label team=a --priority -5",
    "operations": "operations list",
    "operations list": "operations list --limit 10",
    "operations get": "operations get stop-shop",
    "operations wait": "operations wait stop-shop",
    "operations cancel": "operations cancel stop-shop",
    "schedule": f"schedule create --id nightly {FETCH} --cron '0 3 * * *' --time-zone Europe/Berlin",
    "schedule create": f"schedule create --id nightly {FETCH} --cron '0 3 * * *' --time-zone Europe/Berlin",
    "schedule put": f"schedule put nightly {FETCH} --every 1h",
    "schedule get": "schedule get nightly",
    "schedule list": "schedule list --wide",
    "schedule update": "schedule update nightly --every 30m --priority 5",
    "schedule delete": "schedule delete nightly",
    "schedule pause": "schedule pause nightly",
    "schedule resume": "schedule resume nightly --catch-up last",
    "schedule trigger": "schedule trigger nightly",
    "schedule preview": "schedule preview nightly --count 5",
    "triggers": "triggers --schedule nightly --state failed,skipped",
    "targets": "targets --status blocked",
    "hosts": "hosts --wide",
    "drain": "drain host-1",
    "host": "host run examples.host:host --processes 2",
    "host run": "host run examples.host:host --processes 2 --slots crawl=8,render=2",
    "demand": "demand --pool browsers",
    "limits": "limits put 'site:*' --max-inflight 3 --per-second 5",
    "limits list": "limits list",
    "limits put": "limits put 'site:*' --max-inflight 3 --per-second 5",
    "limits delete": "limits delete 'site:*'",
    "weights": "weights put 'team-a/*' 3",
    "weights list": "weights list",
    "weights put": "weights put 'team-a/*' 3",
    "weights delete": "weights delete 'team-a/*'",
    "fairness": "fairness --limit 10",
    "stats": "stats -o yaml",
    "namespace": "namespace list",
    "namespace list": "namespace list --wide",
    "namespace create": "namespace create team-a maxInflight=50",
    "namespace show": "namespace show team-a",
    "namespace limit": "namespace limit team-a maxInflight=80 maxQueueSize=default",
    "namespace delete": "namespace delete team-a --yes",
    "replicas": "replicas --wide",
    "replicas drain": "replicas drain replica-2",
    "replicas resume": "replicas resume replica-2",
    "store": "store check",
    "store check": "store check --store sqlite:////var/lib/taskyard/yard.db",
    "store backup": "store backup /backups/yard-monday.db",
    "store restore": "store restore /backups/yard-monday.db --replace",
    "store copy": "store copy sqlite:////var/lib/taskyard/yard.db postgresql://yard@db/yard",
    "store migrate": "store migrate postgresql://owner@db/yard",
    "store stats": "store stats --json",
    "token": "token create ann --role agent --agent ann --expires 30d",
    "token create": "token create ann --role agent --agent ann --expires 30d",
    "token list": "token list --ended",
    "token show": "token show tok_4Zr1",
    "token revoke": "token revoke tok_4Zr1",
    "health": "health --ready --server https://yard.example:50051",
    "whoami": "whoami --token-file agent.token",
}
ALIASES = {name: f"{name}s" for name in ("namespace", "schedule", "token")}
EXAMPLES.update(
    {
        words.replace(name, alias, 1): text
        for name, alias in ALIASES.items()
        for words, text in list(EXAMPLES.items())
        if words == name or words.startswith(f"{name} ")
    }
)
