/** The token of the page. It is kept for this tab only, and gone when the tab is closed. */
import { signal } from "@preact/signals";

export interface Credential {
  readonly token: string;
  /** When it ends, in milliseconds since 1970. Undefined if that is unknown. */
  readonly expiresAt?: number | undefined;
  /** What renews it, of an issuer. */
  readonly refresh?: { readonly issuer: string; readonly token: string } | undefined;
}

const KEY = "taskyard.credential";

function kept(): Credential | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}

export const credential = signal<Credential | undefined>(kept());
/** Why the page has to sign in again, for people. Empty at first and after a sign-out. */
export const refusal = signal("");

credential.subscribe((value) => {
  if (value) sessionStorage.setItem(KEY, JSON.stringify(value));
  else sessionStorage.removeItem(KEY);
});
