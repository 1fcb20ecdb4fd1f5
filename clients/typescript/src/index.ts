/**
 * Taskyard for Node: `connect` gives a client that submits tasks and follows them, `Host` takes tasks and runs them.
 *
 * All errors of calls are `TaskyardError`s, told apart by their `code`.
 */
import { Client, type ClientOptions } from "./client.js";
import { type Address, openConnection } from "./connection.js";

/** Where the server is, and what every call carries. */
export interface ConnectOptions extends Address, ClientOptions {}

/**
 * A client for Node. It connects with its first call; close it when done.
 *
 * Throws TypeError or RangeError for options that no call can be made with.
 */
export function connect(options: ConnectOptions = {}): Client {
  const [transport, connection] = openConnection(options);
  return new Client(transport, options, { disconnect: () => connection.close(), sharesSubmits: true });
}

export * from "./exports.js";
export { Host, type HostOptions, type Logger } from "./host.js";
export type { Address } from "./connection.js";
export { ActionFailed, type Handler, type RunningTask } from "./running_task.js";
