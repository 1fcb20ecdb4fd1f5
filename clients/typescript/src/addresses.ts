/** Addresses of servers in Node: how they are written, and which ask for TLS. */

/** A server to connect to. */
export interface Server {
  /** `http://HOST:PORT`, or `https://HOST:PORT` for TLS. */
  url: URL;
  /** The path of a unix socket; the host of the URL is of no account then. */
  path?: string | undefined;
}

/** An address as it was written. */
interface Written {
  /** `HOST:PORT`. */
  host: string;
  path?: string;
}

const REFUSAL = "must be HOST:PORT, https://HOST:PORT, dns:///HOST:PORT or unix:PATH, or several of them";

/**
 * The servers of a list of addresses, or of a text with commas in between.
 *
 * Throws TypeError for anything that is no address.
 */
export function serversOf(address: string | string[]): { addresses: Written[]; isHttps: boolean } {
  const parts = typeof address === "string" ? address.split(",") : address;
  if (!parts.length) throw new TypeError(`address: ${REFUSAL}, is empty`);
  const found = parts.map((part) => serverOf(part.trim()));
  return { addresses: found, isHttps: found.some(({ isHttps }) => isHttps) };
}

/** Whether all addresses are unix sockets, which need no encryption. */
export function areUnix(addresses: Written[]): boolean {
  return addresses.every(({ path }) => path);
}

function serverOf(address: string): Written & { isHttps: boolean } {
  const [, path] = /^unix:(?:\/\/(?=\/))?([^/].*|\/[^/].*)$/.exec(address) ?? [];
  if (path) return { host: "localhost", path, isHttps: false };
  const isHttps = address.startsWith("https://");
  const rest = isHttps ? address.slice("https://".length).replace(/\/$/, "") : address.replace(/^dns:(\/\/\/)?/, "");
  const host = isHttps && !/:\d+$/.test(rest) ? `${rest}:443` : rest;
  if (/^([^\s:/?#@[\]]+|\[[^\s[\]]+\]):\d+$/.test(host) && URL.canParse(`http://${host}`)) return { host, isHttps };
  throw new TypeError(`address: ${REFUSAL}, is '${address}'`);
}
