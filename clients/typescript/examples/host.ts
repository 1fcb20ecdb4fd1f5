/** A host: runs the tasks of agents until SIGTERM or Ctrl-C. Start any number of hosts, each with its own id. */
import { setTimeout as sleep } from "node:timers/promises";
import { ActionFailed, Host } from "@taskyard/client";

const host = new Host({
  address: process.argv[2] ?? "127.0.0.1:50051",
  hostId: process.argv[3] ?? "example-host",
  slots: 2,
  logger: console,
  handleSignals: true,
});

host.action("greet", async ({ params }) => {
  if (typeof params.name !== "string") throw new ActionFailed("params.name is missing", { retryable: false });
  return { text: `Hello, ${params.name}!` };
});

host.action("count", async (task) => {
  const to = Number(task.params.to);
  for (let n = 1; n <= to; n++) {
    // The signal aborts when the task is cancelled or its lease is lost.
    await sleep(100, undefined, { signal: task.signal });
    task.progress({ fraction: n / to, message: `at ${n}` });
  }
  return { counted: to, attempt: task.attempt };
});

await host.run();
