/**
 * An agent program: twenty parts at once, words as they come, a budget, and a person in the middle.
 *
 * Kill it whenever you like, and run it again: it goes on where it was.
 */
import { connect, Host, type RunningTask } from "@taskyard/client";

const PART_TOKENS = 100;
const address = process.argv[2] ?? "127.0.0.1:50051";
const host = new Host({ address, hostId: "example-program", slots: 4, logger: { ...console, info() {} } });
const client = connect({ address, agentId: "example-agent" });

/** Stands for a language model: makes a text of a prompt, says it word by word, and counts the tokens. */
async function model(task: RunningTask<unknown>, prompt: string): Promise<string> {
  const words = `This is what is known of ${prompt}.`.split(" ");
  for (const word of words) {
    await task.emit(`${word} `);
    task.tokensUsed = (task.tokensUsed ?? 0) + 1;
  }
  await task.emit("\n");
  return words.join(" ");
}

host.action<{ topic: string; parts: number }>("study", async (task) => {
  const { topic, parts: count } = task.input;
  const outline = await task.step("outline", () => model(task, topic));
  const parts = await Promise.all(
    Array.from({ length: count }, (_, n) => {
      const params = { prompt: `part ${n} of: ${outline}` };
      return task.child(`part-${n}`, { action: "part", params, tokenLimit: PART_TOKENS });
    }),
  );
  await task.join(parts);
  const inputs = Object.fromEntries(parts.map(({ name, id }) => [name, id]));
  const report = await task.child<string>("report", { action: "report", inputs });
  const length = (await report.result())?.length.toLocaleString("en");
  await task.step("summary", () => model(task, `${count} parts in ${length} characters`));
  const answer = await task.ask("publish", "Publish the report?", { choices: ["yes", "no"] });
  return answer === "yes" ? `published ${length} characters` : "not published";
});

host.action<{ prompt: string }>("part", (task) => model(task, task.input.prompt));

// It makes more of the parts than fits a message: an artifact, and whoever asks for the result has it.
host.action("report", ({ inputs }) => {
  return Object.values(inputs)
    .map((each) => each.value<string>()?.padEnd(100_000, "."))
    .join("");
});

const working = host.run();
const params = { topic: "tides", parts: 20 };
const { id } = await client.submit({
  action: "study",
  params,
  tokenLimit: 500,
  uniqueKey: "tides",
  deadline: 86_400_000,
});
console.log(`To answer it: taskyard answer ${id} publish yes`);
for await (const { data } of client.output(id, { follow: true })) process.stdout.write(String(data));
const { state, result, error } = await client.wait(id);
console.log(state, result ?? error);
host.drain();
await working;
await client.close();
