/** The relatives of a task: its ancestors, and what descends from it, of which no more is read than may have changed. */
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { errorFrom } from "@client/errors";
import { hasEnded, type Task, taskFrom } from "@client/tasks";
import { api } from "../../api";

/** So many tasks are shown at most, the one itself among them. */
export const MOST = 200;
const MOST_ANCESTORS = 30;
/** So many children of one task are counted. */
const MOST_CHILDREN = 1_000;
/** So many lists are read at once, and in one reading of what is known already. */
const AT_ONCE = 4;
const LOOKS = 32;
/** Each so many readings all children are counted, not only those that can be shown. */
const COUNT_EACH = 12;

/** A task of the tree, so many levels below the top. */
export interface Row {
  readonly task: Task;
  readonly depth: number;
  /** How many of its children are not shown. */
  readonly leftOut: number;
}

export interface Found {
  /** The highest first. */
  readonly ancestors: readonly Task[];
  /** The ancestor above them, where the server does not know it, or shows it to others alone. */
  readonly unknown: string | undefined;
  /** The task and what descends from it, each before its children. */
  readonly rows: readonly Row[];
  readonly leftOut: number;
  /** Whether there may be more than `leftOut`. */
  readonly mayBeMore: boolean;
  /** Whether some children of the task are in the history alone. */
  readonly isFromHistory: boolean;
}

/** The children of one task as they were read. */
interface Brood {
  readonly tasks: readonly Task[];
  /** The parent's state at that time. */
  readonly state: Task["state"];
  readonly hasMore: boolean;
  readonly isFromHistory: boolean;
}

interface Node {
  readonly task: Task;
  children: Node[];
  leftOut: number;
}

export class Relatives {
  /** Whether nothing of what was read last can change by itself. */
  isOver = false;
  readonly #broods = new Map<string, Brood>();
  /** Ancestors, of which only the names are shown: each is read once. */
  readonly #above = new Map<string, Task | undefined>();
  #readings = 0;
  #size = 1;
  #hasHistory = true;

  async read(top: Task, signal: AbortSignal): Promise<Found> {
    const above = await this.#ancestors(top, signal);
    const root: Node = { task: top, children: [], leftOut: 0 };
    const seen = new Set([top.id]);
    let mayBeMore = false;
    let isOver = hasEnded(top.state);
    let place = 0;
    let level = [root];
    while (level.length) {
      const below: Node[] = [];
      for (let from = 0; from < level.length; from += AT_ONCE) {
        if (seen.size >= MOST) {
          mayBeMore = true;
          break;
        }
        const some = level.slice(from, from + AT_ONCE);
        const broods = await Promise.all(some.map(({ task }) => this.#brood(task, place++, signal)));
        for (const [at, node] of some.entries()) {
          // Parents are names, so they may form a circle.
          const children = broods[at]!.tasks.filter(({ id }) => !seen.has(id));
          const shown = children.slice(0, MOST - seen.size);
          for (const { id, state } of shown) {
            seen.add(id);
            isOver &&= hasEnded(state);
          }
          node.children = shown.map((task) => ({ task, children: [], leftOut: 0 }));
          node.leftOut = children.length - shown.length;
          mayBeMore ||= broods[at]!.hasMore;
          below.push(...node.children);
        }
      }
      level = below;
    }
    this.isOver = isOver;
    this.#size = seen.size;
    this.#readings++;
    const rows = depthFirst(root);
    const leftOut = rows.reduce((sum, row) => sum + row.leftOut, 0);
    return { ...above, rows, leftOut, mayBeMore, isFromHistory: this.#broods.get(top.id)!.isFromHistory };
  }

  async #ancestors({ id, parentId }: Task, signal: AbortSignal): Promise<Pick<Found, "ancestors" | "unknown">> {
    const ancestors: Task[] = [];
    const seen = new Set([id]);
    let next = parentId;
    while (next && !seen.has(next) && ancestors.length < MOST_ANCESTORS) {
      seen.add(next);
      if (!this.#above.has(next)) this.#above.set(next, await known(next, signal));
      const task = this.#above.get(next);
      if (!task) break;
      ancestors.unshift(task);
      next = task.parentId;
    }
    return { ancestors, unknown: next && !this.#above.get(next) ? next : undefined };
  }

  /** The children of the task that has this place in the tree: those that are known, unless they are to be read now. */
  async #brood(task: Task, place: number, signal: AbortSignal): Promise<Brood> {
    const before = this.#broods.get(task.id);
    if (before && !this.#isDue(task, before, place)) return before;
    const isCount = !before || this.#readings % COUNT_EACH === 0;
    const request = { parentId: task.id, pageSize: isCount ? MOST_CHILDREN : MOST };
    const page = await api().tasks.listTasks(request, { signal });
    const live = page.tasks.map(taskFrom);
    const isWhole = !page.nextPageToken;
    const ids = new Set(live.map(({ id }) => id));
    const missing = before?.tasks.filter(({ id }) => !ids.has(id)) ?? [];
    // One that has not ended stays in the list: it has ended since, and is in the history, if there is one.
    const isLost = isWhole && missing.some(({ state }) => !hasEnded(state));
    const old = (!before || isLost) && task.startedAt ? await this.#old(task, signal) : [];
    const kept = [...missing.filter(({ state }) => !isWhole || hasEnded(state)), ...old];
    const tasks = [...new Map([...kept, ...live].map((each) => [each.id, each])).values()];
    tasks.sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime() || (a.id < b.id ? -1 : 1));
    const hasMore = isCount ? !isWhole : before.hasMore;
    const brood = { tasks, state: task.state, hasMore, isFromHistory: isWhole && tasks.length > live.length };
    this.#broods.set(task.id, brood);
    return brood;
  }

  /** In a large tree each has its turn, so that a page asks no more of the server for it than for a small one. */
  #isDue(task: Task, { tasks, state }: Brood, place: number): boolean {
    if (place === 0 || state !== task.state) return true;
    // What has ended submits no more, and neither does what has not begun.
    if (hasEnded(state) ? tasks.every((each) => hasEnded(each.state)) : !task.startedAt && !tasks.length) return false;
    return (this.#readings + place) % Math.ceil(this.#size / LOOKS) === 0;
  }

  /** The children in the history: what a task has submitted, it has submitted before its end. */
  async #old({ id, completedAt }: Task, signal: AbortSignal): Promise<Task[]> {
    const found: Task[] = [];
    if (!this.#hasHistory) return found;
    const until = completedAt && { createdUntil: timestampFromDate(new Date(completedAt.getTime() + 1_000)) };
    let pageToken = "";
    try {
      do {
        const request = { parentId: id, history: true, pageSize: MOST_CHILDREN, pageToken, ...until };
        const page = await api().tasks.listTasks(request, { signal });
        found.push(...page.tasks.map(taskFrom));
        pageToken = page.nextPageToken ?? "";
      } while (pageToken && found.length < MOST_CHILDREN);
    } catch (thrown) {
      if (errorFrom(thrown).code !== "bad_request") throw thrown;
      this.#hasHistory = false;
    }
    return found;
  }
}

async function known(taskId: string, signal: AbortSignal): Promise<Task | undefined> {
  try {
    return taskFrom(await api().tasks.getTask({ taskId }, { signal }));
  } catch (thrown) {
    if (errorFrom(thrown).code === "not_found") return undefined;
    throw thrown;
  }
}

function depthFirst(root: Node): Row[] {
  const rows: Row[] = [];
  const stack: [Node, number][] = [[root, 0]];
  for (let next = stack.pop(); next; next = stack.pop()) {
    const [{ task, children, leftOut }, depth] = next;
    rows.push({ task, depth, leftOut });
    stack.push(...children.map((child): [Node, number] => [child, depth + 1]).reverse());
  }
  return rows;
}
