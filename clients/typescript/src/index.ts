/**
 * Taskyard for Node: `connect` creates a client, which submits tasks and follows them. `Host` takes tasks and runs them.
 *
 * Calls fail with a `TaskyardError`, whose `code` says why.
 */
import { createHash } from "node:crypto";
import { Client } from "./client.js";
import type { ClientOptions } from "./client_options.js";
import { type Address, callerOf } from "./caller.js";
import { openConnection } from "./connection.js";
import { currentTask } from "./current_task.js";

/** Where the server is, and what every call carries. */
export interface ConnectOptions extends Address, Omit<ClientOptions, keyof Address> {}

/**
 * Creates a client for Node. It connects with its first call; close it when done.
 *
 * @param options Default: what the environment and the profile say, else the server at `127.0.0.1:50051`, without TLS, a
 *   token or an agent.
 * @throws TypeError or RangeError for options that no call can be made with, and for a token that would leave this machine
 *   without encryption.
 */
export function connect(options: ConnectOptions = {}): Client {
  const caller = callerOf(options);
  const [transport, connection] = openConnection(caller);
  const wire = {
    disconnect: () => connection.close(),
    sharesSubmits: true,
    newHash: () => createHash("sha256"),
    credentials: caller.credentials,
    server: caller.server,
    parentId: () => currentTask()?.id,
  };
  return new Client(transport, { ...options, namespace: caller.namespace }, wire);
}

export * from "./exports.js";
export { type Child, ChildFailed, type NewChild } from "./children.js";
export { currentTask } from "./current_task.js";
export { ActionFailed, NotRetryable, Retry } from "./failures.js";
export { Host, type HostOptions } from "./host.js";
export type { TaskInput } from "./inputs.js";
export type { AskOptions, EventOptions, JoinOptions } from "./new_waits.js";
export { Parked } from "./parked.js";
export { Output } from "./payloads.js";
export { saveArtifact } from "./saving.js";
export type { Address, TlsOptions } from "./caller.js";
export { type Handler, type RunningTask, TaskStopped } from "./running_task.js";
