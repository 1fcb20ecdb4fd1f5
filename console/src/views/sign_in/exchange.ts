/**
 * Exchanges of codes, and of what renews a token before it ends.
 *
 * These calls carry no token: the one that the page has may have ended, which is no fault of theirs.
 */
import { createClient } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { effect, signal } from "@preact/signals";
import { errorFrom } from "@client/errors";
import { type ExchangeCodeResponse, type GetSignInResponse, SignInService } from "@v1/sign_in_pb";
import { type Credential, credential, refusal } from "../../credential";
import { signIn } from "../../session";
import type { Journey } from "./code_flow";

const service = createClient(SignInService, createGrpcWebTransport({ baseUrl: location.origin }));

/** The ways to sign in. */
export function waysIn(signal: AbortSignal): Promise<GetSignInResponse> {
  return service.getSignIn({}, { signal });
}

/** Signs in with the code of a journey. Throws a `TaskyardError` where the issuer or the server refuses it. */
export async function signInByCode(code: string, journey: Journey): Promise<void> {
  const { issuer, verifier: codeVerifier, redirectUri, nonce } = journey;
  await use(issuer, () => service.exchangeCode({ issuer, code, codeVerifier, redirectUri, nonce }));
}

async function use(issuer: string, exchange: () => Promise<ExchangeCodeResponse>, before?: string): Promise<void> {
  let answer: ExchangeCodeResponse;
  try {
    answer = await exchange();
  } catch (thrown) {
    throw errorFrom(thrown);
  }
  const refresh = answer.refreshToken ?? before;
  await signIn({
    token: answer.token,
    expiresAt: answer.expiresAt && timestampMs(answer.expiresAt),
    refresh: refresh ? { issuer, token: refresh } : undefined,
  });
}

/** Whether a token is being renewed. */
export const isRenewing = signal(false);

/** The longest that a timer can wait, and how often a renewal that nobody answers is tried again. */
const MOST_MS = 2 ** 31 - 1;
const AGAIN_MS = 5_000;

let timer: ReturnType<typeof setTimeout> | undefined;

/**
 * Renews tokens a minute before they end, or after nine tenths of what is left where that is later. A page that slept
 * meanwhile is told that its token has ended, and renews it then.
 */
export function keepRenewing(): void {
  let held: Credential | undefined;
  effect(() => {
    const before = held;
    held = credential.value;
    clearTimeout(timer);
    if (held) arm(held);
    // Who signs out leaves no refusal behind.
    else if (before?.refresh && refusal.peek() && !isRenewing.peek()) void renew(before);
  });
}

function arm(held: Credential): void {
  if (!held.refresh || !held.expiresAt) return;
  const left = held.expiresAt - Date.now();
  const wait = Math.max(left - 60_000, left * 0.9, 0);
  timer = setTimeout(() => (wait > MOST_MS ? arm(held) : renew(held)), Math.min(wait, MOST_MS));
}

async function renew(old: Credential): Promise<void> {
  const { refresh, expiresAt = 0 } = old;
  if (!refresh) return;
  isRenewing.value = true;
  try {
    const { issuer, token } = refresh;
    await use(issuer, () => service.exchangeCode({ issuer, refreshToken: token }), token);
  } catch (thrown) {
    // An issuer that refuses ends the session at the token's own end; one that does not answer is asked again.
    if (errorFrom(thrown).retryable && expiresAt > Date.now()) timer = setTimeout(renew, AGAIN_MS, old);
  }
  isRenewing.value = false;
}
