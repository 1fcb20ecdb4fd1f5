/** Signing in with a token. */
import { useState } from "preact/hooks";
import { errorFrom } from "@client/errors";
import { refusal } from "../credential";
import { Button } from "../parts/button";
import { TextField } from "../parts/fields";
import { signIn } from "../session";

export function SignIn() {
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await signIn({ token: token.trim() });
    } catch (thrown) {
      setError(errorFrom(thrown).reason);
    }
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit}>
        <h1>Taskyard</h1>
        <TextField label="Token" type="password" value={token} onChange={setToken} required autofocus />
        {(error || refusal.value) && (
          <p role="alert" class="bad-text">
            {error || refusal.value}
          </p>
        )}
        <Button type="submit" kind="primary">
          Sign in
        </Button>
      </form>
    </main>
  );
}
