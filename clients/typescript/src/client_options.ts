/** The options of clients and of their calls. */
import type { CallOptions } from "./calls.js";
import type { Credentials } from "./credentials.js";
import type { Logger } from "./logger.js";
import type { Hash } from "./sha256.js";
import type { TaskState } from "./tasks.js";

/** The options of every client, whatever its transport. */
export interface ClientOptions extends CallOptions {
  /** The agent of tasks that name no other. Default none: then each task must name one. */
  agentId?: string;
  /** @deprecated Use `agentId`. */
  agent?: string;
  /** Where the client tells of outages, when the first call fails. Default: warnings and errors to the console. */
  logger?: Logger;
}

/** The options of every call. */
export interface GiveUp {
  /**
   * Ends the call as `cancelled` when it aborts. The server may have done what was requested. One signal may be given to
   * any number of calls. Default none.
   */
  signal?: AbortSignal;
}

/** The options of calls that cancel, pause or resolve tasks. */
export interface EndOptions extends GiveUp {
  /** Why, for people, up to 1,000 characters: tasks show it, and the host of one that is stopped is told. Default none. */
  reason?: string;
}

/** The options of the submission of one task. */
export interface SubmitOptions extends GiveUp {
  /**
   * What a full queue means: `wait` submits the task again, after the time that the server names and then in growing steps
   * of up to 10 s, until the signal aborts. Default `throw`: the call throws `queue_full`.
   */
  whenFull?: "wait" | "throw";
}

/** The options of a task that is submitted and awaited. */
export interface RunOptions extends SubmitOptions {
  /** Whether the task is cancelled when the signal aborts before it has ended. Default true. */
  cancelOnExit?: boolean;
}

/** The properties of a transport. */
export interface Wire {
  /** Called when the client is closed. Default none. */
  disconnect?: () => void;
  /** What calls show of their caller. Default: the token of the options. */
  credentials?: Credentials;
  /** Whether tasks that are submitted at the same time share a stream, which gRPC-Web cannot do. Default false. */
  sharesSubmits?: boolean;
  /** The addresses of the server, for people. Default none. */
  server?: string;
  /** Begins a hash of SHA-256, as `createHash` of Node does. Default: one in JavaScript. */
  newHash?: () => Hash;
  /** The task whose handler submits, for tasks that name no parent. Default none. */
  parentId?: () => string | undefined;
}

/** Which tasks to list: those that match all given filters. An absent filter matches all. */
export interface ListOptions extends GiveUp {
  /** Tasks of this agent. */
  agentId?: string;
  /** @deprecated Use `agentId`. */
  agent?: string;
  /** Tasks in one of these states. "live" means all that have not ended. */
  states?: (TaskState | "live")[];
  /** Tasks of this batch. */
  batchId?: string;
  /** Tasks of this target. */
  target?: string;
  /** Tasks that the work of this task has submitted. */
  parentId?: string;
  /** Whether to list all tasks that the server keeps, for days, except rejected ones. Default false. */
  history?: boolean;
  /** Whether the youngest task comes first. Default false. */
  newestFirst?: boolean;
  /** Tasks submitted at this time or later. */
  createdFrom?: Date;
  /** Tasks submitted before this time. */
  createdUntil?: Date;
  /**
   * Tasks that have all of these labels; or whose labels match a text of requirements separated by commas, such as
   * `site=shop,env!=dev,team in (a,b),!old`.
   */
  labels?: string | Record<string, string>;
  /** Tasks with this action. */
  action?: string;
  /** Tasks that this host holds, or held last. */
  hostId?: string;
  /** Tasks with this concurrency key. */
  concurrencyKey?: string;
  /** Tasks that ended at this time or later. */
  endedFrom?: Date;
  /** Tasks that ended before this time. */
  endedUntil?: Date;
  /** Tasks whose error holds this text, whatever its case. */
  error?: string;
  /** Tasks whose id begins with this text, 4 to 64 characters. */
  idPrefix?: string;
  /** The number of tasks in one answer of the server, at most 1,000. Default 1,000. */
  pageSize?: number;
}

/** The options of an event that is sent. */
export interface SendEventOptions extends GiveUp {
  /** For how long those get it, too, that begin to wait later, in milliseconds, at most a day. Default a minute. */
  lifeMs?: number;
  /** Its id: within its life the same id of the same name is the same event. Default one is made. */
  eventId?: string;
}

/** Which open questions to list. */
export interface QuestionsOptions extends GiveUp {
  /** Questions of tasks of this agent. Default all. */
  agentId?: string;
  /** The number of tasks in one answer of the server whose questions are listed, at most 1,000. Default 1,000. */
  pageSize?: number;
}
