/** An agent: submits tasks, follows them and prints their results. A host must run as well, see host.ts. */
import { connect, TaskFailed, TaskyardError } from "@taskyard/client";

const client = connect({ address: process.argv[2] ?? "127.0.0.1:50051", agentId: "example-agent" });

try {
  // Submit one task and wait for its result.
  console.log(await client.run({ action: "greet", params: { name: "Ada" } }));

  // Submit several tasks as a batch and watch them.
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
