/**
 * Who uses the page, and what they may do.
 *
 * What a call requires stands with it in the protos, and the page reads it there: `may(TaskService.method.cancelTask)`.
 */
import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { computed, effect, signal } from "@preact/signals";
import { errorFrom, type TaskyardError } from "@client/errors";
import { requires, Role } from "@v1/access_pb";
import type { Grant, WhoAmIResponse } from "@v1/token_pb";
import { api } from "./api";
import { generation, readAnew } from "./connection";
import { type Credential, credential, refusal } from "./credential";
import { isByLink, namespace } from "./route";

/** The caller. Undefined until the server has said it, and while nobody is signed in. */
export const who = signal<WhoAmIResponse | undefined>();
/** Why the server did not say who the caller is, when it was last asked: an address may name what is no namespace. */
export const whyUnknown = signal<TaskyardError | undefined>();
/** Whether the server wants a credential that the page does not have. */
export const mustSignIn = signal(false);

effect(() => {
  generation.value;
  credential.value;
  if (!isByLink.value) void askWho();
});

/** Asks the server who the caller is. Never throws. */
export async function askWho(): Promise<void> {
  try {
    who.value = await api().tokens.whoAmI({});
    mustSignIn.value = false;
    whyUnknown.value = undefined;
  } catch (thrown) {
    whyUnknown.value = errorFrom(thrown);
    if (whyUnknown.value.code !== "unauthenticated") return;
    who.value = undefined;
    mustSignIn.value = true;
  }
}

/** Uses a token from now on. Throws a `TaskyardError` if the server does not take it. */
export async function signIn(offered: Credential): Promise<void> {
  const [before, known] = [credential.value, who.value];
  credential.value = offered;
  try {
    who.value = await api().tokens.whoAmI({});
  } catch (thrown) {
    // Another call may have been answered meanwhile: the token is good, whatever became of this one.
    if (who.value === known) credential.value = before;
    throw errorFrom(thrown);
  }
  refusal.value = "";
  mustSignIn.value = false;
  readAnew();
}

export function signOut(): void {
  refusal.value = "";
  who.value = undefined;
  credential.value = undefined;
}

/** The grants that count in the present namespace. */
const grantsHere = computed<Grant[]>(() => {
  const isHere = (grant: Grant) =>
    grant.role === Role.admin || grant.namespaces.some((name) => fits(name, namespace.value));
  return who.value?.grants.filter(isHere) ?? [];
});

/** Whether the caller may make this call here; for an agent of this name, if it is given. */
export function may(method: DescMethod, agentId?: string): boolean {
  if (!who.value) return false;
  const needed = getOption(method, requires);
  if (needed.anyone || needed.anyPrincipal) return true;
  return grantsHere.value.some((grant) => {
    if (grant.role === Role.admin) return true;
    if (grant.role === Role.operator) return needed.roles.some((role) => role !== Role.admin);
    if (!needed.roles.includes(grant.role)) return false;
    return grant.role !== Role.agent || agentId === undefined || grant.agents.some((name) => fits(name, agentId));
  });
}

/** The one agent in whose name the caller may submit, if it is one. */
export const ownAgent = computed(() => {
  const agents = grantsHere.value.filter((grant) => grant.role === Role.agent).flatMap((grant) => grant.agents);
  return agents.length === 1 && !agents[0]!.endsWith("*") ? agents[0] : undefined;
});

/** Whether a name fits a pattern: `*` at its end is any rest. */
function fits(pattern: string, name: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : pattern === name;
}
