/** The profiles of `~/.config/taskyard/config.toml`, which name servers and who calls them. */
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { parse, TomlError } from "smol-toml";

const PATHS = ["token_file", "ca", "cert", "key"] as const;
const TEXTS = ["address", "namespace", "token", ...PATHS] as const;

/** One table `[profiles.NAME]`. Its paths are absolute. */
export type Profile = { name: string } & { [text in (typeof TEXTS)[number]]?: string };

/**
 * The profile of a name. Without a name it is the default profile, but only for its own address, or where none is given:
 * its token is not for other servers, which a program names itself. Undefined if no profile applies.
 *
 * Throws TypeError for a name without a profile and for a file that is not as it should be.
 */
export function findProfile(name: string | undefined, address: string | undefined): Profile | undefined {
  const path = configFile();
  const missing = (wanted: string, why: string) => new TypeError(`profile: '${wanted}' is unknown: ${why}`);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const isAbsent = (error as NodeJS.ErrnoException).code === "ENOENT";
    if (!isAbsent) throw new TypeError(`profile: ${(error as Error).message}`);
    if (name) throw missing(name, `${path} does not exist`);
    return undefined;
  }
  const config = parsed(path, text);
  const wanted = name || config.default_profile;
  if (wanted === undefined || wanted === "") return undefined;
  if (typeof wanted !== "string") throw new TypeError(`profile: default_profile of ${path} must be a text`);
  const profiles = tableOf(config.profiles);
  const table = profiles && Object.hasOwn(profiles, wanted) ? tableOf(profiles[wanted]) : undefined;
  if (!table) {
    if (name || address === undefined) throw missing(wanted, `${path} has no table [profiles.${wanted}]`);
    return undefined;
  }
  if (!name && address !== undefined && address !== table.address) return undefined;
  const found: Profile = { name: wanted };
  for (const each of TEXTS) {
    const value = table[each];
    if (value === undefined) continue;
    if (typeof value !== "string") throw new TypeError(`profile: ${each} of profile ${wanted} must be a text`);
    found[each] = value;
  }
  for (const each of PATHS) {
    if (found[each]) found[each] = besideConfig(path, found[each]);
  }
  return found;
}

/** The path of config.toml. The rules of XDG have a relative XDG_CONFIG_HOME ignored. */
function configFile(): string {
  const folder = process.env.XDG_CONFIG_HOME ?? "";
  return join(isAbsolute(folder) ? folder : join(homedir(), ".config"), "taskyard", "config.toml");
}

/** A path of config.toml: relative ones begin at the folder of the file, and `~/` is the home folder. */
function besideConfig(config: string, path: string): string {
  if (path.startsWith("~/")) return join(homedir(), path.slice(2));
  return isAbsolute(path) ? path : join(dirname(config), path);
}

function parsed(path: string, text: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch (error) {
    // The text of the parser quotes the line, which may hold a token.
    const where = error instanceof TomlError ? ` in line ${error.line}` : "";
    throw new TypeError(`profile: ${path} is not as it should be${where}`);
  }
}

function tableOf(value: unknown): Record<string, unknown> | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}
