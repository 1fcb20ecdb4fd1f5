/**
 * The authorization code flow of OpenID Connect with PKCE, as far as a browser has a part in it (docs/operate/security.md, Signing
 * in): the way to the issuer, and what it sends the browser back with. The server exchanges the code.
 */
import type { SignInIssuer } from "@v1/sign_in_pb";

/** What is remembered while the browser is at the issuer. */
export interface Journey {
  issuer: string;
  verifier: string;
  state: string;
  nonce: string;
  redirectUri: string;
  /** The hash of the view to go back to. */
  returnTo: string;
  /** Milliseconds since 1970. */
  begunAt: number;
}

/** What the issuer sent the browser back with. */
export type Arrival = { code: string; journey: Journey } | { error: string };

const KEY = "taskyard.journey";
const PATIENCE_MS = 10 * 60_000;

/** Whether this page can sign in by an issuer: browsers have the digest on https and on loopback only. */
export const canTravel = () => Boolean(globalThis.crypto?.subtle);

/**
 * Begins a journey.
 *
 * @returns The address at the issuer to go to.
 * @throws TypeError where the issuer has an address that is not http or https.
 */
export async function begin(issuer: SignInIssuer, page: URL, storage: Storage): Promise<string> {
  const journey: Journey = {
    issuer: issuer.issuer,
    verifier: random(32),
    state: random(16),
    nonce: random(16),
    redirectUri: page.origin + page.pathname,
    returnTo: page.hash,
    begunAt: Date.now(),
  };
  const url = new URL(issuer.authorizationUrl);
  if (url.protocol !== "https:" && url.protocol !== "http:") throw new TypeError("the issuer has no web address");
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(journey.verifier));
  const asked = {
    response_type: "code",
    client_id: issuer.clientId,
    redirect_uri: journey.redirectUri,
    scope: issuer.scopes,
    state: journey.state,
    nonce: journey.nonce,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  storage.setItem(KEY, JSON.stringify(journey));
  return url.href;
}

/** What the browser came back with, undefined if it comes from nowhere. A journey ends with the first look at it. */
export function arrive(page: URL, storage: Storage): Arrival | undefined {
  const { searchParams } = page;
  if (!searchParams.has("code") && !searchParams.has("error")) return undefined;
  const journey = remembered(storage);
  storage.removeItem(KEY);
  if (!journey || searchParams.get("state") !== journey.state)
    return { error: "This sign-in was not begun here, or not in this tab. Begin again." };
  const error = searchParams.get("error");
  if (error) return { error: `The issuer says: ${searchParams.get("error_description") ?? error}` };
  if (Date.now() - journey.begunAt > PATIENCE_MS) return { error: "This sign-in was begun too long ago. Begin again." };
  return { code: searchParams.get("code") ?? "", journey };
}

function remembered(storage: Storage): Journey | undefined {
  try {
    return JSON.parse(storage.getItem(KEY) ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}

function random(bytes: number): string {
  return base64url(crypto.getRandomValues(new Uint8Array(bytes)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}
