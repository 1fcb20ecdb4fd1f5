/** Grants in words, and the grants that a form describes (docs/operate/security.md, Grants). */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Role } from "@v1/access_pb";
import type { Grant, GrantSchema } from "@v1/token_pb";

/** The roles, and what each may do, in words. */
export const ROLES = [
  { name: "viewer", role: Role.viewer, words: "reads everything in its namespaces" },
  { name: "agent", role: Role.agent, words: "submits as certain agents, and steers their tasks" },
  { name: "host", role: Role.host, words: "claims and reports as certain hosts" },
  { name: "operator", role: Role.operator, words: "steers everything in its namespaces" },
  { name: "admin", role: Role.admin, words: "may do everything, everywhere" },
] as const;

export type RoleName = (typeof ROLES)[number]["name"];

/** One grant as a form holds it: lists are names separated by commas. */
export interface GrantDraft {
  role: RoleName;
  namespaces: string;
  agents: string;
  hosts: string;
  projects: string;
  actions: string;
  payloads: boolean;
}

export function newGrant(namespace: string): GrantDraft {
  return { role: "viewer", namespaces: namespace, agents: "", hosts: "", projects: "", actions: "", payloads: false };
}

export function roleName(role: Role): string {
  return ROLES.find((each) => each.role === role)?.name ?? "none";
}

/** What a grant is for: `operator in default`. */
export function grantText(grant: Grant): string {
  const parts = [
    grant.namespaces.length ? `in ${grant.namespaces.join(", ")}` : "",
    grant.agents.length ? `as ${grant.agents.join(", ")}` : "",
    grant.hosts.length ? `as ${grant.hosts.join(", ")}` : "",
    limited("projects", grant.projects),
    limited("actions", grant.actions),
    grant.payloads ? "with payloads" : "",
  ];
  return [roleName(grant.role), ...parts.filter(Boolean)].join(" ");
}

/** The grant of a draft. */
export function grantOf(draft: GrantDraft): MessageInitShape<typeof GrantSchema> {
  const isHost = draft.role === "host";
  return {
    role: ROLES.find((each) => each.name === draft.role)?.role ?? Role.unspecified,
    namespaces: draft.role === "admin" ? [] : names(draft.namespaces),
    agents: draft.role === "agent" ? names(draft.agents) : [],
    hosts: isHost ? names(draft.hosts) : [],
    projects: isHost ? names(draft.projects) : [],
    actions: isHost ? names(draft.actions) : [],
    payloads: draft.role === "viewer" && draft.payloads,
  };
}

function limited(word: string, patterns: string[]): string {
  return patterns.length && !(patterns.length === 1 && patterns[0] === "*") ? `${word} ${patterns.join(", ")}` : "";
}

function names(text: string): string[] {
  return text
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
}
