/** Signing in: by an issuer that people know, or with a token. */
import { useEffect, useState } from "preact/hooks";
import type { SignInIssuer } from "@v1/sign_in_pb";
import { errorFrom } from "@client/errors";
import { refusal } from "../credential";
import { Button } from "../parts/button";
import { TextField } from "../parts/fields";
import { Icon } from "../parts/icon";
import { useRead } from "../reading";
import { signIn } from "../session";
import { arrive, begin, canTravel } from "./sign_in/code_flow";
import { isRenewing, signInByCode, waysIn } from "./sign_in/exchange";

export function SignIn() {
  const ways = useRead((signal) => waysIn(signal));
  const [arrival] = useState(takeArrival);
  const [isArriving, setArriving] = useState(Boolean(arrival && "code" in arrival));
  const [error, setError] = useState(arrival && "error" in arrival ? arrival.error : "");
  useEffect(() => {
    if (!arrival || !("code" in arrival)) return;
    signInByCode(arrival.code, arrival.journey)
      .catch((thrown) => setError(errorFrom(thrown).reason))
      .finally(() => setArriving(false));
  }, []);
  const issuers = ways.value?.issuers ?? [];
  const isBusy = isArriving || isRenewing.value;
  const told = error || refusal.value;
  return (
    <main class="sign-in">
      <div class="card">
        <header class="sign-in-head">
          <Icon name="pulse" size={28} />
          <h1>Taskyard</h1>
        </header>
        {isBusy ? (
          <p class="row" role="status">
            <span class="spinner" /> {isArriving ? "Signing you in" : "Renewing your session"}
          </p>
        ) : (
          <>
            {told && (
              <p role="alert" class="form-error">
                {told}
              </p>
            )}
            {issuers.length > 0 && <Issuers issuers={issuers} onError={setError} />}
            {issuers.length > 0 && <p class="or">or</p>}
            <TokenForm isFirst={issuers.length === 0} onError={setError} />
          </>
        )}
      </div>
    </main>
  );
}

/** What an issuer sent the browser back with. Its code leaves the address at once, and the view from before is back. */
function takeArrival() {
  const arrival = arrive(new URL(location.href), sessionStorage);
  if (!arrival) return undefined;
  history.replaceState(null, "", location.pathname + location.hash);
  if ("journey" in arrival && arrival.journey.returnTo) location.hash = arrival.journey.returnTo;
  return arrival;
}

function Issuers({ issuers, onError }: { issuers: SignInIssuer[]; onError: (reason: string) => void }) {
  if (!canTravel())
    return <p class="dim">Browsers allow signing in by {issuers[0]?.name} on https and on this machine only.</p>;
  const go = async (issuer: SignInIssuer) => {
    try {
      location.assign(await begin(issuer, new URL(location.href), sessionStorage));
    } catch (thrown) {
      onError(thrown instanceof Error ? thrown.message : String(thrown));
    }
  };
  return (
    <div class="issuers">
      {issuers.map((issuer) => (
        <Button key={issuer.issuer + issuer.clientId} kind="primary" onPress={() => go(issuer)}>
          Sign in with {issuer.name || issuer.issuer}
        </Button>
      ))}
    </div>
  );
}

function TokenForm({ isFirst, onError }: { isFirst: boolean; onError: (reason: string) => void }) {
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    onError("");
    try {
      await signIn({ token: token.trim() });
    } catch (thrown) {
      onError(errorFrom(thrown).reason);
      setBusy(false);
    }
  };
  return (
    <form class="form" onSubmit={submit}>
      <TextField
        label="Token"
        type="password"
        value={token}
        onChange={setToken}
        placeholder="tyd_…"
        hint="It is kept until this tab is closed."
        required
        autofocus={isFirst}
      />
      <Button type="submit" kind={isFirst ? "primary" : "plain"} disabled={isBusy || !token.trim()}>
        Sign in with a token
      </Button>
    </form>
  );
}
