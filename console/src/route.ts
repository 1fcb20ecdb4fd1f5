/**
 * Where the page is: `#/NAMESPACE/VIEW/...?filters`, so that an address can be sent to others and kept.
 *
 * Views read `route.value` and make addresses with `href`; nothing else keeps a place.
 */
import { computed, signal } from "@preact/signals";

export interface Route {
  readonly namespace: string;
  /** The first word, such as `tasks`. */
  readonly view: string;
  /** What follows the view, such as the id of a task. */
  readonly rest: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

const KEPT_NAMESPACE = "taskyard.namespace";
/** What a namespace may be called. An address may say anything, which must not be where the next visit begins. */
const NAME = /^[\w.-]{1,63}$/;

function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [namespace, view, ...rest] = path.split("/").filter(Boolean).map(decoded);
  return {
    namespace: namespace || localStorage.getItem(KEPT_NAMESPACE) || "default",
    view: view || "now",
    rest,
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = signal<Route>(parse(location.hash));
/** Whether the address is a link to one question. Who follows it need not have signed in. */
export const isByLink = computed(() => route.value.view === "answer");
/** The namespace of all calls. */
export const namespace = computed(() => route.value.namespace);

addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});
namespace.subscribe((name) => {
  if (NAME.test(name)) {
    localStorage.setItem(KEPT_NAMESPACE, name);
  }
});

type Query = Record<string, string | undefined>;

/** The address of a view in the present namespace: `href(["tasks", id])`. Empty filters are left out. */
export function href(path: readonly string[], query: Query = {}, inNamespace = namespace.value): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1]));
  const text = new URLSearchParams(pairs).toString();
  return `#/${[inNamespace, ...path].map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Goes to an address of `href`. */
export function go(address: string): void {
  location.hash = address;
}

/** Changes filters of the present view without a step in the browser's history. Undefined and "" remove one. */
export function setQuery(change: Query): void {
  const { view, rest, query } = route.value;
  history.replaceState(null, "", href([view, ...rest], { ...query, ...change }));
  route.value = parse(location.hash);
}
