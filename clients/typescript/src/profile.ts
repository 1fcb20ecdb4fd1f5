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
 * The profile of a name, without a name that of `default_profile`. Undefined if there is none.
 *
 * Throws TypeError for a name without a profile and for a file that is not as it should be.
 */
export function findProfile(name: string | undefined): Profile | undefined {
  const path = configFile();
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    // Services run without a readable home: they fail only if they ask for a profile.
    if (!name) return undefined;
    throw new TypeError(`profile: '${name}' is unknown: ${(error as Error).message}`);
  }
  const config = parsed(path, text);
  const wanted = name || config.default_profile;
  if (wanted === undefined) return undefined;
  if (typeof wanted !== "string") throw new TypeError(`profile: default_profile of ${path} must be a text`);
  const profiles = tableOf(config.profiles);
  const table = profiles && Object.hasOwn(profiles, wanted) ? tableOf(profiles[wanted]) : undefined;
  if (!table) throw new TypeError(`profile: '${wanted}' is unknown: ${path} has no table [profiles.${wanted}]`);
  const found: Profile = { name: wanted };
  for (const [key, value] of Object.entries(table)) {
    const refuse = (why: string) => new TypeError(`profile: ${path}: profiles.${wanted}.${key}: ${why}`);
    const known = TEXTS.find((each) => each === key);
    if (!known) throw refuse("unknown key");
    if (typeof value !== "string" || !value) throw refuse("must be a text");
    found[known] = PATHS.some((each) => each === key) ? besideConfig(path, value) : value;
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
