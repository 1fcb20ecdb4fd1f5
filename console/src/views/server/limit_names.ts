/** The limits that a namespace may have of its own: their names, what they bound, and the requests that a form makes. */
import type { NamespaceLimits } from "@v1/namespace_pb";

/** The name of a limit in messages. */
export type LimitName = Exclude<keyof NamespaceLimits, "$typeName" | "$unknown">;

export interface LimitField {
  name: LimitName;
  label: string;
  unit: string;
}

export const LIMIT_FIELDS: readonly LimitField[] = [
  { name: "maxQueueSize", label: "Queued tasks", unit: "tasks" },
  { name: "maxPerAgent", label: "Queued tasks of one agent", unit: "tasks" },
  { name: "maxInflight", label: "Tasks in flight", unit: "tasks" },
  { name: "maxPerAgentInflight", label: "Tasks in flight of one agent", unit: "tasks" },
  { name: "defaultDeadlineSecs", label: "Default deadline", unit: "s" },
  { name: "leaseSecs", label: "Length of a lease", unit: "s" },
  { name: "maxDeliveries", label: "Deliveries of a task", unit: "times" },
  { name: "resultTtlSecs", label: "Ended tasks are kept for", unit: "s" },
  { name: "maxRetainedTasks", label: "Ended tasks that are kept", unit: "tasks" },
  { name: "idempotencySecs", label: "Idempotency keys are known for", unit: "s" },
  { name: "maxSchedules", label: "Schedules", unit: "schedules" },
  { name: "maxConcurrent", label: "Triggers that execute at once", unit: "triggers" },
  { name: "maxQueuedTriggers", label: "Queued triggers of one schedule", unit: "triggers" },
];

/** The limits of a form as text, by name; empty where the server's holds. */
export type LimitTexts = Record<LimitName, string>;

export function textsOf(limits: NamespaceLimits | undefined): LimitTexts {
  const pairs = LIMIT_FIELDS.map(({ name }) => [name, String(limits?.[name] ?? "")]);
  return Object.fromEntries(pairs) as LimitTexts;
}

/** The limits that are given, and the names of those that differ from before, to be set or given back. */
export function limitsOf(texts: LimitTexts, before: LimitTexts) {
  const limits: { [name in LimitName]?: number } = {};
  for (const { name } of LIMIT_FIELDS) if (texts[name].trim()) limits[name] = Number(texts[name]);
  return { limits, changed: LIMIT_FIELDS.map(({ name }) => name).filter((name) => texts[name] !== before[name]) };
}
