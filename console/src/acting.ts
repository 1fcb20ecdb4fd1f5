/** What the user does: the outcome is told as a notice, and a failure with the server's reason. */
import { signal } from "@preact/signals";
import { errorFrom } from "@client/errors";

export interface Notice {
  readonly id: number;
  readonly kind: "good" | "bad";
  readonly text: string;
}

export const notices = signal<readonly Notice[]>([]);
let lastId = 0;

/** Tells the user something. Good news goes away by itself after 5 s, bad news when it is dismissed or after 20 s. */
export function notify(text: string, kind: Notice["kind"] = "good"): void {
  lastId += 1;
  const notice = { id: lastId, kind, text };
  notices.value = [...notices.value.slice(-4), notice];
  setTimeout(() => dismiss(notice.id), kind === "good" ? 5_000 : 20_000);
}

export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

/** Does something, and says `done` then, if that says anything, or why not. Returns whether it succeeded. */
export async function act(done: string, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    if (done) notify(done);
    return true;
  } catch (thrown) {
    notify(errorFrom(thrown).reason, "bad");
    return false;
  }
}
