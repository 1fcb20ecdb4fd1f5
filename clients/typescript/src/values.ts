/** JSON values and points in time, converted between TypeScript and the wire. */
import { fromJson, type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate, timestampFromMs, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";

/** The largest number of nested lists and objects that the server takes. */
const MAX_DEPTH = 30;
const TOO_DEEP = `it nests deeper than ${MAX_DEPTH} levels`;
/** The largest number that a `uint32` field holds. */
const UINT32_MAX = 0xffffffff;

/** Begins the texts that stand for integers which no `number` holds, while a value is between JSON and TypeScript. */
const TAG = `bigint-${randomKey()}:`;
const TAGGED = new RegExp(`"${TAG}(-?\\d+)"`, "g");

/** A JSON value whose integers are `bigint` where no `number` holds them. */
export type ExactJson = null | boolean | number | bigint | string | ExactJson[] | { [key: string]: ExactJson };

/**
 * A value as JSON, as `JSON.stringify` converts it: fields that are undefined are left out, dates become text. A `bigint`
 * is a number.
 *
 * Throws TypeError for what is not JSON, contains itself, or nests too deep, and for a `bigint` that no `number` holds:
 * then its field is named, within the one that is given.
 */
export function plainJson(value: unknown, field = "value"): JsonValue {
  const text = exactText(value);
  const plain = JSON.parse(text) as JsonValue;
  if (isTooDeep(plain)) throw new TypeError(`${field}: ${TOO_DEEP}`);
  if (text.includes(TAG)) throw new TypeError(`${inexactIn(plain, field)}: an integer beyond 2^53 would lose digits`);
  return plain;
}

/** Like `plainJson`, for a value that must be an object. */
export function plainObject(value: object, field: string): JsonObject {
  const plain = plainJson(value, field);
  if (typeof plain !== "object" || plain === null || Array.isArray(plain)) {
    throw new TypeError(`${field}: it is no JSON object`);
  }
  return plain;
}

/** A value as the text of JSON, in which tagged texts stand for each `bigint` that no `number` holds. */
export function exactText(value: unknown): string {
  const text = encoded(value);
  if (text === undefined) throw new TypeError(`a ${typeof value} is not JSON`);
  return text;
}

/** The text with its integers in the place of the tagged texts. */
export function withoutTags(text: string): string {
  return text.includes(TAG) ? text.replace(TAGGED, "$1") : text;
}

/** The value of a text of JSON. Integers that no `number` holds are `bigint`. */
export function parseExactly(text: string): ExactJson {
  if (!/\d{16}/.test(text)) return JSON.parse(text) as ExactJson;
  const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  const isInexact = (found: string) => /^-?\d{16,}$/.test(found) && String(Number(found)) !== found;
  const tagged = text.replace(token, (found) => (isInexact(found) ? `"${TAG}${found}"` : found));
  return JSON.parse(tagged, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(TAG) ? BigInt(value.slice(TAG.length)) : value,
  ) as ExactJson;
}

/** Whether a value has more nested lists and objects than the server takes. */
export function isTooDeep(plain: JsonValue): boolean {
  return isDeeper(plain, MAX_DEPTH);
}

/** A JSON value as a message. Throws TypeError as `plainJson` does. */
export function valueFrom(value: unknown, field = "result"): Value {
  return fromJson(ValueSchema, plainJson(value, field));
}

/** The JSON value of a message, undefined if there is no message. */
export function jsonOf(value: Value | undefined): JsonValue | undefined {
  return value && toJson(ValueSchema, value);
}

/** A point in time, given as a date or as milliseconds from now. */
export function timestampFrom(time: Date | number | undefined): Timestamp | undefined {
  if (time === undefined) return undefined;
  return timestampFromMs(typeof time === "number" ? Date.now() + Math.round(time) : time.getTime());
}

/** A point in time with millisecond precision, undefined if there is none. */
export function dateOf(time: Timestamp | undefined): Date | undefined {
  return time && timestampDate(time);
}

/** Throws RangeError unless the number is one that a `uint32` field holds. `name` names the option. */
export function checkCount(name: string, count: number): void {
  if (Number.isInteger(count) && count >= 0 && count <= UINT32_MAX) return;
  throw new RangeError(`${name}: must be a whole number from 0 to ${UINT32_MAX}, is ${count}`);
}

/** A unique random key. Not `crypto.randomUUID`: browsers have that over https only. */
export function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function encoded(value: unknown): string | undefined {
  try {
    return JSON.stringify(value, replaced);
  } catch (error) {
    // Thousands of levels exhaust the stack.
    throw error instanceof RangeError ? new TypeError(TOO_DEEP, { cause: error }) : error;
  }
}

function replaced(_key: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${value} is not JSON`);
  if (typeof value !== "bigint") return value;
  return BigInt(Number(value)) === value && Math.abs(Number(value)) <= 2 ** 53 ? Number(value) : `${TAG}${value}`;
}

/** The path and the digits of the first tagged text in a value. */
function inexactIn(plain: JsonValue | undefined, path: string): string | undefined {
  if (typeof plain === "string") return plain.startsWith(TAG) ? `${path}: ${plain.slice(TAG.length)}` : undefined;
  if (typeof plain !== "object" || plain === null) return undefined;
  for (const [key, item] of Object.entries(plain)) {
    const found = inexactIn(item, Array.isArray(plain) ? `${path}[${key}]` : `${path}.${key}`);
    if (found) return found;
  }
  return undefined;
}

function isDeeper(plain: JsonValue, levels: number): boolean {
  if (typeof plain !== "object" || plain === null) return false;
  return levels === 0 || Object.values(plain).some((item) => isDeeper(item, levels - 1));
}
