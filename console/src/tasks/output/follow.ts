/** The output of one task as it grows: over outages, from where it was. Nothing is held while the page is hidden. */
import { errorFrom, isBreak, type TaskyardError } from "@client/errors";
import { Outage } from "@client/retrying";
import type { ReadOutputResponse } from "@v1/output_pb";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api } from "../../api";
import { generation } from "../../connection";
import { isShown } from "../../reading";
import { namespace } from "../../route";
import { OutputLines } from "./lines";

/** How often it is drawn at most. */
const DRAW_EVERY_MS = 100;
/** A stream that says nothing for so long is dead: the server says something every 15 s. */
const SILENCE_LIMIT_MS = 45_000;
/** From so many chunks on, what else waits has its turn before the next message. */
const LONG_MESSAGE = 2_000;

export interface Followed {
  readonly output: OutputLines;
  /** Whether the server has said what there is. */
  readonly isKnown: boolean;
  /** How many chunks, and bytes, the server has dropped to make room. */
  readonly droppedChunks: number;
  readonly droppedBytes: number;
  /** Why the server does not show it. */
  readonly error: TaskyardError | undefined;
}

const NOTHING = { isKnown: false, droppedChunks: 0, droppedBytes: 0, error: undefined };

/** Follows a task until it has ended. `hasEnded` says whether it had when the page last read it: it may be resumed. */
export function useOutput(taskId: string, hasEnded: boolean): Followed {
  const output = useMemo(() => new OutputLines(), [taskId, namespace.value]);
  const [state, setState] = useState<Omit<Followed, "output"> & { of?: OutputLines }>(NOTHING);
  useEffect(() => {
    if (!isShown.value) return;
    const end = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let about = { droppedChunks: 0, droppedBytes: 0 };
    const draw = (error?: TaskyardError) => {
      clearTimeout(timer);
      timer = undefined;
      if (!end.signal.aborted) setState({ of: output, isKnown: true, error, ...about });
    };
    const take = (message: ReadOutputResponse) => {
      about = { droppedChunks: (message.firstSequence ?? 1) - 1, droppedBytes: message.droppedBytes ?? 0 };
      output.add(message.chunks);
      timer ??= setTimeout(draw, DRAW_EVERY_MS);
    };
    follow(taskId, output, end.signal, take).catch((thrown: unknown) => draw(errorFrom(thrown)));
    return () => {
      end.abort();
      clearTimeout(timer);
    };
  }, [taskId, output, hasEnded, generation.value, isShown.value]);
  return { ...(state.of === output ? state : NOTHING), output };
}

/** Reads until the task has ended and all is read. Throws what the server refuses it with. */
async function follow(
  taskId: string,
  output: OutputLines,
  signal: AbortSignal,
  take: (message: ReadOutputResponse) => void,
): Promise<void> {
  const outage = new Outage(Number.POSITIVE_INFINITY, undefined, true);
  while (!signal.aborted) {
    const stream = new AbortController();
    const stop = () => stream.abort();
    signal.addEventListener("abort", stop);
    let silence: ReturnType<typeof setTimeout> | undefined;
    const listen = () => {
      clearTimeout(silence);
      silence = setTimeout(stop, SILENCE_LIMIT_MS);
    };
    try {
      listen();
      const request = { taskId, after: output.last, follow: true };
      for await (const message of api().outputs.readOutput(request, { signal: stream.signal })) {
        if (signal.aborted) return;
        listen();
        take(message);
        outage.reset();
        // What there is comes at once, and the page has more to do.
        if (message.chunks.length >= LONG_MESSAGE) await new Promise((done) => setTimeout(done));
      }
      return;
    } catch (thrown) {
      const error = errorFrom(thrown);
      if (signal.aborted || !isBreak(error)) throw error;
      await outage.backOff(error, signal);
    } finally {
      clearTimeout(silence);
      signal.removeEventListener("abort", stop);
    }
  }
}
