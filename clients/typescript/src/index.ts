/**
 * Taskyard for Node: `connect` creates a client, which submits tasks and follows them. `Host` takes tasks and runs them.
 *
 * Calls fail with a `TaskyardError`, whose `code` says why.
 */
import { Client, type ClientOptions } from "./client.js";
import { type Address, openConnection } from "./connection.js";

/** Where the server is, and what every call carries. */
export interface ConnectOptions extends Address, ClientOptions {}

/**
 * Creates a client for Node. It connects with its first call; close it when done.
 *
 * @param options Default: the server at `127.0.0.1:50051`, without TLS, a token or an agent.
 * @throws TypeError or RangeError for options that no call can be made with.
 */
export function connect(options: ConnectOptions = {}): Client {
  const [transport, connection] = openConnection(options);
  return new Client(transport, options, { disconnect: () => connection.close(), sharesSubmits: true });
}

export * from "./exports.js";
export { Host, type HostOptions, type Logger } from "./host.js";
export type { Address } from "./connection.js";
export { ActionFailed, type Handler, type RunningTask } from "./running_task.js";
