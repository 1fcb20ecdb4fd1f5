/** The settings in force as rows, with the source of each, and which of them match a search. */
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** One setting. */
export interface SettingRow {
  /** Its dotted key, such as `scheduler.maxInflight`. */
  key: string;
  /** Its value as JSON. */
  text: string;
  source: string;
}

/** The settings by their keys. Those that are no default come first within their section, since somebody chose them. */
export function settingRows(config: JsonObject, sources: { [key: string]: string }): SettingRow[] {
  return Object.entries(sources)
    .map(([key, source]) => ({ key, source, text: textOf(valueAt(config, key)) }))
    .sort((a, b) => (sectionOf(a.key) === sectionOf(b.key) ? rank(a) - rank(b) : 0) || compare(a.key, b.key));
}

/** Those that match every word of a search, in key, value or source. */
export function matching(rows: SettingRow[], search: string): SettingRow[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    const text = `${row.key} ${row.text} ${row.source}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** The section of a key; empty for keys of no section. */
export function sectionOf(key: string): string {
  const dot = key.indexOf(".");
  return dot < 0 ? "" : key.slice(0, dot);
}

function rank(row: SettingRow): number {
  return row.source === "default" ? 1 : 0;
}

function compare(a: string, b: string): number {
  return sectionOf(a).localeCompare(sectionOf(b)) || a.localeCompare(b);
}

function valueAt(config: JsonObject, key: string): JsonValue | undefined {
  let value: JsonValue | undefined = config;
  for (const part of key.split(".")) {
    if (!value || typeof value !== "object" || Array.isArray(value)) return undefined;
    value = value[part];
  }
  return value;
}

function textOf(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
