/** The operations of a worker without a host loop, by the raw stubs, and how payloads stand in steps. */
import { fromJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { Client } from "@taskyard/client";
import { Task_State } from "@taskyard/client/v1/task";

export type Outcome = Record<string, unknown>;

/** Performs an operation by one call. */
export async function workAlone(client: Client, operation: string, args: JsonObject): Promise<Outcome> {
  const text = (name: string) => args[name] as string;
  const number = (name: string) => args[name] as number;
  const { leases, hosts } = client.stubs;
  const hostId = text("host");
  const lease = { hostId, taskId: text("task"), fencingToken: number("token") };
  const claim = { hostId, leaseSecs: number("lease_secs"), waitMs: number("ms"), claimId: text("claim_id") };
  switch (operation) {
    case "register":
      return { host: (await hosts.registerHost({ hostId })).host?.id };
    case "claim": {
      const { claimed, taskId, fencingToken, task } = await leases.claimTask(claim);
      if (!claimed) return { claimed };
      return { claimed, task: taskId, token: fencingToken, ...payloadFields("input", task?.input) };
    }
    case "claim_many": {
      const { assignments } = await leases.claimTasks({ ...claim, maxTasks: number("count") });
      const granted = assignments.map(({ lease }) => lease);
      return { tasks: granted.map((each) => each?.taskId), tokens: granted.map((each) => each?.fencingToken) };
    }
    case "start":
      return stateOf(await leases.startTask(lease));
    case "complete": {
      const result = args.result === undefined ? undefined : fromJson(ValueSchema, args.result);
      const encoding = text("output_encoding");
      const output = args.output === undefined ? undefined : { data: bytesOf(args.output), encoding };
      return stateOf(await leases.completeTask({ ...lease, result, output, tokensUsed: number("tokens") }));
    }
    case "fail": {
      const failure = { error: text("error"), code: text("code"), traceback: text("traceback") };
      const retry = { retryable: args.retryable as boolean, retryAfterMs: number("retry_after_ms") };
      return stateOf(await leases.failTask({ ...lease, ...failure, ...retry }));
    }
    case "deregister":
      return { deregistered: (await hosts.deregisterHost({ hostId })).deregistered };
    case "drain": {
      const { host } = await hosts.drainHost({ hostId, gracePeriodSecs: number("grace_secs") });
      return { draining: host?.draining ?? false };
    }
    default:
      throw new Error(`there is no operation ${operation}`);
  }
}

/** The bytes of a payload, which stand in steps as a text. */
export function bytesOf(text: JsonValue | undefined): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text as string) as Uint8Array<ArrayBuffer>;
}

/** A payload as an outcome shows it. */
export function payloadFields(
  name: string,
  payload: { data: Uint8Array; encoding?: string | undefined } | undefined,
): Outcome {
  return {
    [name]: payload ? new TextDecoder().decode(payload.data) : null,
    [`${name}_encoding`]: payload?.encoding ?? null,
  };
}

function stateOf({ state }: { state?: Task_State | undefined }): Outcome {
  return { state: Task_State[state ?? 0]?.replace("STATE_", "").toLowerCase() };
}
