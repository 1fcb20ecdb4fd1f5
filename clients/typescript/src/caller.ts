/**
 * Who calls which server, in Node: found in options, the environment and a profile.
 *
 * Token and token file come from one place together, and so do certificate and key.
 */
import { readFileSync } from "node:fs";
import type { SecureContextOptions } from "node:tls";
import { areUnix, type Server, serversOf } from "./addresses.js";
import { checkHeader, checkSecrecy, type Credentials, fixedToken } from "./credentials.js";
import { findProfile, type Profile } from "./profile.js";
import { TokenFile } from "./token_file.js";

const DEFAULT_ADDRESS = "127.0.0.1:50051";
const REMEDY = "set ca or an https:// address";

/** Options of Node's `tls`. */
export type TlsOptions = SecureContextOptions & { servername?: string; rejectUnauthorized?: boolean };

/** Where the server is, how the connection is secured, and what it is shown. */
export interface Address {
  /**
   * `HOST:PORT`, `https://HOST:PORT` for TLS, `dns:///HOST:PORT` or `unix:PATH`. Several replicas have several addresses, in
   * a list or with commas in between: one that works is chosen at random, and kept while it does. The same holds for a name
   * with several addresses. Default: TASKYARD_ADDRESS, or that of the profile, or `127.0.0.1:50051`.
   */
  address?: string | string[];
  /**
   * True for TLS. An object with `ca`, `cert`, `key` and so on, as Node's `tls` takes them (texts, not paths), goes before
   * the options below. Default: TLS if there is a `ca` or a `cert`, or if the address begins with `https://`.
   */
  tls?: boolean | TlsOptions;
  /**
   * A token, sent with every call; an empty one means none at all. Default: the variable TASKYARD_TOKEN, or the `token` of
   * the profile, or none.
   */
  token?: string;
  /**
   * The path of a file with the token. It is read anew when it changes, and before a watch or a host goes on whose token
   * was refused. Default: TASKYARD_TOKEN_FILE, or the `token_file` of the profile, or none.
   */
  tokenFile?: string;
  /**
   * The path of a PEM file with the certificate authorities to trust, read anew for each connection. Default: TASKYARD_CA,
   * or the `ca` of the profile, or Node's authorities.
   */
  ca?: string;
  /**
   * The path of a PEM file with the certificate to show the server, read anew for each connection. Default: TASKYARD_CERT,
   * or the `cert` of the profile, or none.
   */
  cert?: string;
  /** The path of a PEM file with the private key of `cert`. Default: TASKYARD_KEY, or the `key` of the profile. */
  key?: string;
  /**
   * The table `[profiles.NAME]` of `~/.config/taskyard/config.toml`, for what the other options do not say. It goes before
   * the environment. Default: TASKYARD_PROFILE, which goes after it, or the `default_profile` of that file, which counts
   * only where neither option nor variable give an address.
   */
  profile?: string;
  /** Permits a token without encryption to another machine, where everybody on the way can read it. Default false. */
  insecure?: boolean;
  /** The namespace of all calls, printable ASCII. Default: TASKYARD_NAMESPACE, or that of the profile, or `default`. */
  namespace?: string;
}

/** Servers, any of which does, and who calls them. */
export interface Caller {
  servers: Server[];
  /** Their addresses, for people. */
  server: string;
  namespace: string;
  credentials: Credentials;
  /** The options of the next connection. */
  tlsOptions: () => TlsOptions;
  /** The paths of the files of certificates, for errors. */
  files: { ca?: string | undefined; cert?: string | undefined };
}

/** What one place says: the options, the environment, or a profile. `where` names a part of it for people. */
interface Place {
  address?: string | string[] | undefined;
  namespace?: string | undefined;
  token?: string | undefined;
  tokenFile?: string | undefined;
  ca?: string | undefined;
  cert?: string | undefined;
  key?: string | undefined;
  where: (option: string) => string;
}

/** Decides who calls which server. Throws TypeError for options that no call can be made with. */
export function callerOf(options: Address): Caller {
  const places = placesOf(options);
  const { addresses, isHttps } = serversOf(first(places, "address") ?? DEFAULT_ADDRESS);
  const namespace = first(places, "namespace") ?? "default";
  if (namespace) checkHeader("namespace", namespace);
  checkPaths(places);
  const token = tokenOf(places.find((each) => each.token || each.tokenFile || isAnonymous(each)));
  const { cert, key } = pairOf(places);
  const ca = places.find((each) => each.ca)?.ca;
  const isAsked = options.tls || options.ca || options.cert;
  const isEncrypted =
    isHttps || Boolean(isAsked) || (options.tls !== false && Boolean(ca || cert) && !areUnix(addresses));
  if (isEncrypted && addresses.some(({ path }) => path)) throw new TypeError("address: a unix socket is not encrypted");
  const servers = addresses.map(({ host, path }) => {
    const url = new URL(`${isEncrypted ? "https" : "http"}://${host}`);
    if (!path) checkSecrecy(url, token !== undefined, options.insecure, REMEDY);
    return { url, path };
  });
  const tlsOptions = () => ({
    ...(ca && { ca: contents("ca", ca) }),
    ...(cert && key && { cert: contents("cert", cert), key: contents("key", key) }),
    ...(typeof options.tls === "object" && options.tls),
  });
  // What cannot be read now is an error of the options, later it is an outage.
  if (isEncrypted) tlsOptions();
  const shown = [token?.tried, isEncrypted && cert && `the client certificate ${cert}`].filter(Boolean).join(" and ");
  const credentials: Credentials = {
    token: () => token?.token(),
    tried: shown || "nothing: no token and no client certificate is set",
    renew: () => token?.renew() ?? false,
  };
  const server = addresses.map(({ host, path }) => path ?? host).join(", ");
  return { servers, server, namespace, credentials, tlsOptions, files: { ca, cert } };
}

/** What the first place says that says it. */
function first<K extends "address" | "namespace">(places: Place[], part: K): Place[K] {
  return places.find((each) => each[part] !== undefined)?.[part];
}

function placeOf({ name, token_file: tokenFile, ...texts }: Profile): Place {
  const where = (option: string) => `${option.replace("File", "_file")} of profile ${name}`;
  return { ...texts, tokenFile, where };
}

/**
 * Where to look, in this order: the options, a profile that they name, the environment, a profile that it names, and the
 * default profile. No token reaches another server than its own: the default profile counts only where neither options nor
 * environment give an address, and the environment does not say who calls beside a profile that the options name and that
 * does.
 */
function placesOf(options: Address): Place[] {
  const { env } = process;
  const given: Place = { ...options, where: (option) => option };
  const where = (option: string) => `TASKYARD_${option.replace("File", "_FILE").toUpperCase()}`;
  const rest: Place = {
    address: env.TASKYARD_ADDRESS || undefined,
    namespace: env.TASKYARD_NAMESPACE || undefined,
    ca: env.TASKYARD_CA,
    where,
  };
  const caller = {
    token: env.TASKYARD_TOKEN || undefined,
    tokenFile: env.TASKYARD_TOKEN_FILE,
    cert: env.TASKYARD_CERT,
    key: env.TASKYARD_KEY,
  };
  const environment: Place = { ...rest, ...caller };
  if (options.profile) {
    const profile = findProfile(options.profile);
    const named: Place = profile ? placeOf(profile) : { where };
    const showsCaller = named.token || named.tokenFile || named.cert || named.key;
    return [given, named, showsCaller ? rest : environment];
  }
  const isWanted = env.TASKYARD_PROFILE || (given.address ?? environment.address) === undefined;
  const profile = isWanted ? findProfile(env.TASKYARD_PROFILE) : undefined;
  return [given, environment, ...(profile ? [placeOf(profile)] : [])];
}

/** Whether a place asks for no token at all, by an empty one. */
function isAnonymous({ token, tokenFile }: Place): boolean {
  return token === "" && !tokenFile;
}

function tokenOf(place: Place | undefined): Credentials | undefined {
  if (!place) return undefined;
  const { token, tokenFile, where } = place;
  if (token && tokenFile) throw new TypeError(`${where("token")} and ${where("tokenFile")}: set only one of them`);
  if (token) return fixedToken(token, where("token"));
  return tokenFile ? new TokenFile(tokenFile, where("tokenFile")) : undefined;
}

function pairOf(places: Place[]): { cert?: string | undefined; key?: string | undefined } {
  const place = places.find(({ cert, key }) => cert || key);
  if (place && !(place.cert && place.key)) {
    throw new TypeError(`${place.where("cert")} and ${place.where("key")}: one needs the other`);
  }
  return place ?? {};
}

/** Paths stand in errors, where a private key must not. */
function checkPaths(places: Place[]): void {
  for (const place of places) {
    for (const option of ["ca", "cert", "key"] as const) {
      if (place[option]?.includes("-----BEGIN")) {
        throw new TypeError(`${place.where(option)}: must be the path of a file, is a text in PEM`);
      }
    }
  }
}

function contents(option: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new TypeError(`${option}: ${(error as Error).message}`);
  }
}
