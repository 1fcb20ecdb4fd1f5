/** Tasks of long ago, page by page as the list is scrolled: what the server keeps beyond what is live. */
import { errorFrom } from "@client/errors";
import { type Task, taskFrom } from "@client/tasks";
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api";
import { generation } from "../connection";
import { namespace } from "../route";
import { messageOf, type Query } from "./filter";

const PAGE = 200;

export interface History {
  readonly tasks: readonly Task[];
  readonly isReading: boolean;
  readonly error: string | undefined;
  /** Reads the next page, if there is one. */
  readonly more: () => void;
}

const NONE = { tasks: [] as readonly Task[], isReading: true, error: undefined as string | undefined };

export function useHistory(query: Query): History {
  const [state, setState] = useState(NONE);
  const more = useRef(() => {});
  useEffect(() => {
    const end = new AbortController();
    let next: string | undefined = "";
    let isReading = false;
    more.current = async () => {
      if (isReading || next === undefined) return;
      isReading = true;
      setState((before) => ({ ...before, isReading: true }));
      try {
        const request = { ...messageOf(query), history: true, newestFirst: query.order !== "oldest", pageSize: PAGE };
        const page = await api().tasks.listTasks({ ...request, pageToken: next }, { signal: end.signal });
        next = page.nextPageToken || undefined;
        const tasks = page.tasks.map(taskFrom);
        setState((before) => ({ tasks: [...before.tasks, ...tasks], isReading: false, error: undefined }));
      } catch (thrown) {
        if (end.signal.aborted) return;
        const error = errorFrom(thrown).reason;
        setState((before) => ({ ...before, isReading: false, error }));
      }
      isReading = false;
    };
    setState(NONE);
    more.current();
    return () => end.abort();
  }, [JSON.stringify(query), namespace.value, generation.value]);
  return { ...state, more: () => more.current() };
}
