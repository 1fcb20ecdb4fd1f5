/** Which tasks are listed: the filters of the address, for the server and for the live list. */
import type { Task, TaskState } from "@client/tasks";
import { timestampFrom } from "@client/values";
import type { TaskFilter } from "@v1/task_pb";
import { selectorOf } from "./label_selector";

export const STATES = [
  "pending",
  "queued",
  "assigned",
  "running",
  "paused",
  "parked",
  "done",
  "failed",
  "cancelled",
  "rejected",
] as const satisfies readonly TaskState[];

export interface FilterField {
  readonly key: string;
  readonly label: string;
  readonly kind: "text" | "time";
  readonly hint?: string;
}

/** The filters beside the states, in the order of the form. */
export const FIELDS: readonly FilterField[] = [
  { key: "agentId", label: "Agent", kind: "text" },
  { key: "action", label: "Action", kind: "text" },
  { key: "target", label: "Target", kind: "text" },
  { key: "hostId", label: "Host", kind: "text", hint: "holds them, or held them last" },
  { key: "labels", label: "Labels", kind: "text", hint: "such as site=shop,env!=dev,team in (a,b),!old" },
  { key: "error", label: "Error holds", kind: "text" },
  { key: "concurrencyKey", label: "Concurrency key", kind: "text" },
  { key: "batchId", label: "Batch", kind: "text" },
  { key: "parentId", label: "Submitted by task", kind: "text" },
  { key: "idPrefix", label: "Id begins with", kind: "text" },
  { key: "createdFrom", label: "Submitted from", kind: "time" },
  { key: "createdUntil", label: "Submitted before", kind: "time" },
  { key: "endedFrom", label: "Ended from", kind: "time" },
  { key: "endedUntil", label: "Ended before", kind: "time" },
];

/** Filters by their keys, as they stand in the address. */
export type Query = Readonly<Record<string, string>>;

/** The states of a query; none means all. */
export function statesOf(query: Query): readonly TaskState[] {
  return STATES.filter((state) => query.state?.split(",").includes(state));
}

/** Whether a query has a filter beside the states. */
export function isNarrowed(query: Query): boolean {
  return Boolean(query.state) || FIELDS.some(({ key }) => query[key]);
}

/** The filter of a query for the server. */
export function messageOf(query: Query): Partial<Omit<TaskFilter, "$typeName" | "$unknown">> {
  const pairs = FIELDS.filter(({ key }) => query[key]).map(({ key, kind }) => [
    key,
    kind === "time" ? timestampFrom(new Date(query[key]!)) : query[key],
  ]);
  return { ...Object.fromEntries(pairs), ...(query.state && { state: query.state }) };
}

/** The part of a query that a watch knows. */
export function watchOf({ agentId, batchId, target }: Query) {
  return { ...(agentId && { agentId }), ...(batchId && { batchId }), ...(target && { target }) };
}

/** Whether a task matches what a query asks beside its states. Throws SyntaxError for malformed labels. */
export function matcherOf(query: Query): (task: Task) => boolean {
  const checks: ((task: Task) => boolean)[] = [];
  const add = (key: string, check: (task: Task, wanted: string) => boolean) => {
    const wanted = query[key];
    if (wanted) checks.push((task) => check(task, wanted));
  };
  add("agentId", (task, wanted) => task.agentId === wanted);
  add("action", (task, wanted) => task.action === wanted);
  add("target", (task, wanted) => task.target === wanted);
  add("hostId", (task, wanted) => task.hostId === wanted);
  add("batchId", (task, wanted) => task.batchId === wanted);
  add("parentId", (task, wanted) => task.parentId === wanted);
  add("idPrefix", (task, wanted) => task.id.startsWith(wanted));
  add("concurrencyKey", (task, wanted) => task.concurrencyKeys?.includes(wanted) ?? false);
  const error = query.error?.toLowerCase();
  if (error) checks.push((task) => task.error?.toLowerCase().includes(error) ?? false);
  if (query.labels) {
    const selects = selectorOf(query.labels);
    checks.push((task) => selects(task.labels ?? {}));
  }
  const timed = (key: string, check: (task: Task, ms: number) => boolean) => {
    const ms = Date.parse(query[key] ?? "");
    if (!Number.isNaN(ms)) checks.push((task) => check(task, ms));
  };
  timed("createdFrom", (task, ms) => task.createdAt.getTime() >= ms);
  timed("createdUntil", (task, ms) => task.createdAt.getTime() < ms);
  timed("endedFrom", ({ completedAt }, ms) => completedAt !== undefined && completedAt.getTime() >= ms);
  timed("endedUntil", ({ completedAt }, ms) => completedAt !== undefined && completedAt.getTime() < ms);
  return (task) => checks.every((check) => check(task));
}
