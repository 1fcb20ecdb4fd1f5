/**
 * What a client shows of its caller: in browsers a token, in Node also what files and profiles give (`caller.ts`).
 *
 * Errors name the credentials by where they come from, and hold nothing of what they are.
 */
import { TaskyardError } from "./errors.js";

/** What the calls of a client show of their caller. */
export interface Credentials {
  /** The token to send now, undefined for none. */
  token(): string | undefined;
  /** The credentials by name, for people. */
  readonly tried: string;
  /** Reads the token anew after a refusal. Returns whether there may be another one. */
  renew(): boolean;
}

/** A token that never changes, or none. `where` names the place that it comes from. */
export function fixedToken(token: string | undefined, where = "token"): Credentials {
  if (token) checkHeader(where, token);
  const from = where.startsWith("token of ") ? where : `token from ${sourceOf(where)}`;
  const tried = token ? `the ${from}` : "nothing: no token is set";
  return { token: () => token || undefined, tried, renew: () => false };
}

/** The place of a token, for people. Options are named by their own names alone. */
export function sourceOf(where: string): string {
  return /^[a-zA-Z]+$/.test(where) ? `the option ${where}` : where;
}

/** Throws TypeError for a text that no header can hold. */
export function checkHeader(name: string, text: string): void {
  if (!/^[\x20-\x7e]+$/.test(text)) throw new TypeError(`${name}: must be of printable ASCII characters`);
}

/** The error of a call that was refused for its credentials, with what was tried. Other errors are left as they are. */
export function explained(error: TaskyardError, credentials: Credentials): TaskyardError {
  if (error.code !== "unauthenticated" || error.reason.includes("(tried: ")) return error;
  const token = credentials.token();
  // The server may have quoted it. A token of a few letters is part of other words.
  const reason = token && token.length >= 8 ? error.reason.replaceAll(token, "...") : error.reason;
  const { details, retryable, retryAfterMs } = error;
  return new TaskyardError(error.code, `${reason} (tried: ${credentials.tried})`, {
    details,
    retryable,
    retryAfterMs,
    ...(error.status && { status: error.status }),
  });
}

/** Throws TypeError where a token would leave this machine unencrypted. */
export function checkSecrecy(url: URL, hasToken: boolean, insecure: boolean | undefined, remedy: string): void {
  if (!hasToken || insecure || url.protocol === "https:" || isLoopback(url.hostname)) return;
  throw new TypeError(
    `token: without encryption everybody on the way to ${url.host} could read it; ${remedy}, or else insecure: true`,
  );
}

/** Whether a host name, as `URL` spells it, is this machine. */
function isLoopback(hostname: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]|\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\])$/.test(hostname);
}
