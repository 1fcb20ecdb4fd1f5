/**
 * Taskyard for browsers: the client over gRPC-Web, through the gateway. Hosts need Node.
 *
 * The same types and errors as the main entry has; `connect` takes the gateway's URL.
 */
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client, type ClientOptions } from "./client.js";

/** How to reach the gateway, and what every call carries. */
export interface ConnectOptions extends ClientOptions {
  /** The gateway's address, such as `https://taskyard.example.com`. Default: where the page comes from. */
  baseUrl?: string;
}

/** A client for a browser. The gateway must allow the page's origin. */
export function connect(options: ConnectOptions = {}): Client {
  const baseUrl = options.baseUrl ?? globalThis.location.origin;
  return new Client(createGrpcWebTransport({ baseUrl }), options);
}

export * from "./exports.js";
