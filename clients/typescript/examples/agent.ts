/** An agent: submits some work, follows it, and shows what came of it. Run a host as well, see host.ts. */
import { connect, TaskFailed, TaskyardError } from "@taskyard/client";

const client = connect({ address: process.argv[2] ?? "127.0.0.1:50051", agent: "example-agent" });

try {
  // One task, and its result.
  console.log(await client.run({ action: "greet", params: { name: "Ada" } }));

  // Several at once, and what happens to them.
  const tasks = Array.from({ length: 5 }, (_, n) => ({
    action: "count",
    params: { to: 5 * (n + 1) },
    deadline: 300_000,
    retryPolicy: { maxAttempts: 3 },
  }));
  const batch = await client.submitBatch(tasks);
  for (const { error } of batch.outcomes) if (error) console.error(`refused: ${error.reason}`);
  for await (const { kind, task } of client.watch({ batchId: batch.id, includeCurrent: true, untilEnded: true })) {
    const progress = task.progress ? ` ${Math.round(100 * (task.progress.fraction ?? 0))} %` : "";
    console.log(`${task.id} ${kind}: ${task.state}${progress} ${task.hostId ?? ""}`);
  }
  const { states } = await client.getBatch(batch.id);
  console.log(states);
} catch (error) {
  if (error instanceof TaskFailed) console.error(`the task ended as ${error.task.state}: ${error.task.error}`);
  else if (error instanceof TaskyardError) console.error(`${error.code}: ${error.reason}`);
  else throw error;
  process.exitCode = 1;
} finally {
  await client.close();
}
