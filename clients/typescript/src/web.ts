/**
 * Taskyard for browsers: the client over gRPC-Web, through the gateway. Hosts need Node.
 *
 * Types and errors are those of the main entry; `connect` takes the URL of the gateway.
 */
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client } from "./client.js";
import type { ClientOptions } from "./client_options.js";
import { checkSecrecy } from "./credentials.js";

/** Where the gateway is, and what every call carries. */
export interface ConnectOptions extends ClientOptions {
  /** The URL of the gateway, such as `https://taskyard.example.com`. Default: the origin of the page. */
  baseUrl?: string;
  /** Permits a token without encryption to another machine, where everybody on the way can read it. Default false. */
  insecure?: boolean;
}

/**
 * Creates a client for browsers. The gateway must allow the origin of the page.
 *
 * @param options Default: the gateway at the origin of the page, without a token or an agent.
 * @throws TypeError or RangeError for options that no call can be made with, and for a token that would leave this machine
 *   without encryption.
 */
export function connect(options: ConnectOptions = {}): Client {
  const baseUrl = options.baseUrl ?? globalThis.location.origin;
  checkSecrecy(new URL(baseUrl), Boolean(options.token), options.insecure, "set an https:// URL");
  return new Client(createGrpcWebTransport({ baseUrl }), options, { server: baseUrl });
}

export * from "./exports.js";
