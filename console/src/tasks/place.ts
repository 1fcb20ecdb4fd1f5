/** The list of tasks as it was last seen: its filters, and how far it was scrolled. */
import { href, namespace, type Route } from "../route";

interface Place {
  readonly address: string;
  readonly namespace: string;
  top: number;
}

let last: Place | undefined;

/** Notes that a list is seen. Returns how far it was scrolled before, in pixels. */
export function enter({ namespace, query }: Route): number {
  const address = href(["tasks"], query);
  if (last?.address !== address) last = { address, namespace, top: 0 };
  return last.top;
}

/** Notes how far the list is scrolled. */
export function scrolledTo(top: number): void {
  if (last) last.top = top;
}

/** The list from which a task was opened, or all tasks. */
export function listAddress(): string {
  return last?.namespace === namespace.value ? last.address : href(["tasks"]);
}
