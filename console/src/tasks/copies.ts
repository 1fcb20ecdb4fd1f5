/** The submission of a task as a command or program, to be made again from elsewhere. */
import { base64Encode } from "@bufbuild/protobuf/wire";
import { inputOf } from "@client/payloads";
import type { Task } from "@client/tasks";
import type { ExactJson } from "@client/values";
import { credential } from "../credential";
import { namespace } from "../route";

const FIELDS = [
  "agentId",
  "action",
  "tabId",
  "ref",
  "selector",
  "params",
  "priority",
  "callbackUrl",
  "project",
  "requires",
  "labels",
  "target",
  "tokenLimit",
  "retryPolicy",
  "runTimeoutMs",
  "concurrencyKeys",
  "onTargetFailure",
] as const satisfies readonly (keyof Task)[];

/** What the submitter gave, as far as another task may have it, too: no keys, no times, no tasks that came before. */
function submission(task: Task): Record<string, unknown> {
  const isGiven = (value: unknown) =>
    value !== undefined && value !== 0 && !(typeof value === "object" && value !== null && !Object.keys(value).length);
  const given = (fields: object) => Object.fromEntries(Object.entries(fields).filter(([, value]) => isGiven(value)));
  const { retryPolicy, ...fields } = Object.fromEntries(FIELDS.map((name) => [name, task[name]])) as Partial<Task>;
  const input = task.input && { data: base64Encode(task.input.data), encoding: task.input.encoding };
  return given({ ...fields, input, retryPolicy: given(retryPolicy ?? {}) });
}

const QUOTE = "'";

function quoted(text: string): string {
  return QUOTE + text.replaceAll(QUOTE, `${QUOTE}\\${QUOTE}${QUOTE}`) + QUOTE;
}

function headers(): string[] {
  const kept = namespace.value === "default" ? [] : [`-H ${quoted(`taskyard-namespace: ${namespace.value}`)}`];
  return credential.value ? [...kept, '-H "authorization: Bearer $TASKYARD_TOKEN"'] : kept;
}

export function asCurl(task: Task): string {
  const parts = [
    `curl -X POST ${location.origin}/tasks`,
    ...headers(),
    "-H 'content-type: application/json'",
    `-d ${quoted(JSON.stringify(submission(task)))}`,
  ];
  return parts.join(" \\\n  ");
}

export function asGrpcurl(task: Task): string {
  const parts = [
    `grpcurl${location.protocol === "https:" ? "" : " -plaintext"}`,
    ...headers(),
    `-d ${quoted(JSON.stringify(submission(task)))}`,
    `${location.host}${location.port ? "" : location.protocol === "https:" ? ":443" : ":80"} taskyard.v1.TaskService/SubmitTask`,
  ];
  return parts.join(" \\\n  ");
}

export function asPython(task: Task): string {
  const { agentId, action, input, ...fields } = submission(task);
  // Numbers of any length stand in Python as they are; bytes of a codec are for those who have it.
  const rest = input && !task.input?.encoding ? { params: inputOf<ExactJson>(task), ...fields } : fields;
  const address = location.protocol === "https:" ? location.origin : location.host;
  const options = [`agent_id=${literal(agentId)}`];
  if (namespace.value !== "default") options.push(`namespace=${literal(namespace.value)}`);
  if (credential.value) options.push('token=os.environ["TASKYARD_TOKEN"]');
  const values = Object.entries(rest).map(([name, value]) => argument(name, value));
  const submit = [literal(action), ...values].join(",\n            ");
  const imports = ["import asyncio"];
  if (credential.value) imports.push("import os");
  if (values.some((value) => value.includes("timedelta("))) imports.push("from datetime import timedelta");
  const types = values.some((value) => value.includes("RetryPolicy(")) ? "Client, RetryPolicy" : "Client";
  return `${imports.join("\n")}

from taskyard import ${types}


async def main():
    async with Client(${literal(address)}, ${options.join(", ")}) as client:
        task = await client.submit(
            ${submit},
        )
        print(await task.result())


asyncio.run(main())
`;
}

function argument(name: string, value: unknown): string {
  if (name === "runTimeoutMs") return `run_timeout=timedelta(milliseconds=${value})`;
  if (name === "retryPolicy") {
    const { firstDelayMs, maxDelayMs, ...same } = value as NonNullable<Task["retryPolicy"]>;
    const fields = Object.entries(same).filter(([, each]) => each !== undefined && String(each) !== "");
    const times = [
      ["first_delay", firstDelayMs],
      ["max_delay", maxDelayMs],
    ].filter(([, ms]) => ms !== undefined);
    const all = [
      ...fields.map(([key, each]) => `${snake(key)}=${literal(each)}`),
      ...times.map(([key, ms]) => `${key}=timedelta(milliseconds=${ms})`),
    ];
    return `retry_policy=RetryPolicy(${all.join(", ")})`;
  }
  return `${snake(name)}=${literal(value)}`;
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A JSON value as Python writes it. */
function literal(value: unknown): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value as object)
    .map(([key, each]) => `${JSON.stringify(key)}: ${literal(each)}`)
    .join(", ")}}`;
}
