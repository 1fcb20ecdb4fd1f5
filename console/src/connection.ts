/** Whether the server answers, as the last call saw it; and when it came back, so that views read anew. */
import type { Interceptor } from "@connectrpc/connect";
import { signal } from "@preact/signals";
import { errorFrom, isBreak } from "@client/errors";

/** Whether the server is away. */
export const isLost = signal(false);
/** Grows each time the server has come back, when the credential changes, and on request. Views then read anew. */
export const generation = signal(0);

export function readAnew(): void {
  generation.value += 1;
}

function noteAnswer(): void {
  if (!isLost.value) return;
  isLost.value = false;
  readAnew();
}

/** Notes of each call whether it was answered. `onRefused` is told why one was refused for its credential, and of that. */
export function noting(onRefused: (reason: string, credential: string | null) => void): Interceptor {
  return (next) => async (request) => {
    try {
      const answer = await next(request);
      noteAnswer();
      return answer;
    } catch (thrown) {
      // A view that went away has given its call up, which says nothing of the server.
      if (request.signal.aborted) throw thrown;
      const error = errorFrom(thrown);
      if (isBreak(error)) isLost.value = true;
      else if (error.code !== "cancelled") noteAnswer();
      if (error.code === "unauthenticated") onRefused(error.reason, request.header.get("authorization"));
      throw thrown;
    }
  };
}
