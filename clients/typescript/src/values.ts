/** JSON values and points in time, converted between TypeScript and the wire. */
import { fromJson, type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate, timestampFromMs, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";

/** The largest number of nested lists and objects that the server takes. */
const MAX_DEPTH = 30;
const TOO_DEEP = `it nests deeper than ${MAX_DEPTH} levels`;
/** The largest number that a `uint32` field holds. */
const UINT32_MAX = 0xffffffff;

/**
 * A value as JSON, as `JSON.stringify` converts it: fields that are undefined are left out, dates become text.
 *
 * Throws TypeError for what is not JSON, contains itself, or nests too deep.
 */
export function plainJson(value: unknown): JsonValue {
  const text = encoded(value);
  if (text === undefined) throw new TypeError(`a ${typeof value} is not JSON`);
  const plain = JSON.parse(text) as JsonValue;
  if (isDeeper(plain, MAX_DEPTH)) throw new TypeError(TOO_DEEP);
  return plain;
}

/** Like `plainJson`, for a value that must be an object. */
export function plainObject(value: object): JsonObject {
  const plain = plainJson(value);
  if (typeof plain !== "object" || plain === null || Array.isArray(plain)) throw new TypeError("it is no JSON object");
  return plain;
}

/** A JSON value as a message. Throws TypeError as `plainJson` does. */
export function valueFrom(value: unknown): Value {
  return fromJson(ValueSchema, plainJson(value));
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
    return JSON.stringify(value, refuseNonFinite);
  } catch (error) {
    // Thousands of levels exhaust the stack.
    throw error instanceof RangeError ? new TypeError(TOO_DEEP, { cause: error }) : error;
  }
}

function refuseNonFinite(_key: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${value} is not JSON`);
  return value;
}

function isDeeper(plain: JsonValue, levels: number): boolean {
  if (typeof plain !== "object" || plain === null) return false;
  return levels === 0 || Object.values(plain).some((item) => isDeeper(item, levels - 1));
}
