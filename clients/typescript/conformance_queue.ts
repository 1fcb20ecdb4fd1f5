/** The operations of the conformance program on the queue, by the raw stubs. */
import { setTimeout as sleep } from "node:timers/promises";
import type { DescEnum, JsonObject } from "@bufbuild/protobuf";
import type { Client } from "@taskyard/client";
import { Operation_KindSchema, Operation_Status_ValueSchema } from "@taskyard/client/v1/operation";
import { WaitReason_KindSchema } from "@taskyard/client/v1/task";

/** The outcome of an operation on the queue; undefined if it is another operation. */
export async function onQueue(client: Client, operation: string, args: JsonObject): Promise<JsonObject | undefined> {
  const { limits, agents, operations, tasks } = client.stubs;
  const pattern = args.pattern as string;
  switch (operation) {
    case "explain": {
      const { runnable = null, reasons } = await tasks.explainTask({ taskId: args.task as string });
      const kinds = reasons.map(({ kind }) => nameOf(WaitReason_KindSchema, kind));
      return { runnable, kinds, names: reasons.map(({ name }) => name ?? null) };
    }
    case "put_limit": {
      const { limit } = await limits.putLimit({ pattern, maxInflight: args.max_inflight as number });
      const { maxInflight = null, perSecond = null } = limit ?? {};
      return { pattern: limit?.pattern ?? null, max_inflight: maxInflight, per_second: perSecond };
    }
    case "limits": {
      const found = await limits.listLimits({});
      return {
        limits: Object.fromEntries(found.limits.map(({ pattern, maxInflight }) => [pattern, maxInflight ?? null])),
        keys: Object.fromEntries(found.keys.map(({ key, inflight, waiting }) => [key, [inflight, waiting]])),
      };
    }
    case "delete_limit":
      await limits.deleteLimit({ pattern });
      return {};
    case "put_weight": {
      const { weight } = await agents.putAgentWeight({ pattern, weight: args.weight as number });
      return { pattern: weight?.pattern ?? null, weight: weight?.weight ?? null };
    }
    case "weights": {
      const { weights } = await agents.listAgentWeights({});
      return { weights: Object.fromEntries(weights.map(({ pattern, weight }) => [pattern, weight])) };
    }
    case "delete_weight":
      await agents.deleteAgentWeight({ pattern });
      return {};
    case "cancel_tasks": {
      const operationId = args.operation as string;
      const until = Date.now() + (args.ms as number);
      const filter = args.selector === undefined ? {} : { labels: args.selector as string };
      let { operation: found } = await operations.cancelTasks({ operationId, filter });
      while (found && !found.endedAt && Date.now() < until) {
        await sleep(20);
        ({ operation: found } = await operations.getOperation({ operationId }));
      }
      return {
        kind: nameOf(Operation_KindSchema, found?.kind),
        status: nameOf(Operation_Status_ValueSchema, found?.status),
        matched: found?.matched ?? null,
        done: found?.done ?? null,
        skipped: found?.skipped ?? null,
        failed: found?.failed ?? null,
      };
    }
    default:
      return undefined;
  }
}

/** The first name of an enum value, as JSON shows it. */
function nameOf(kind: DescEnum, number = 0): string | null {
  return kind.values.find((value) => value.number === number)?.name ?? null;
}
