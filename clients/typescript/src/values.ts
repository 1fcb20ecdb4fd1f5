/** JSON values and points in time, between their shapes in TypeScript and on the wire. */
import { fromJson, type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate, timestampFromMs, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";

/** Levels of lists and objects that the server takes. */
const MAX_DEPTH = 30;

/**
 * What JSON holds of a value, as `JSON.stringify` has it: fields that are undefined are left out, dates are text.
 *
 * Throws TypeError for what JSON cannot hold.
 */
export function plainJson(value: unknown): JsonValue {
  const text = JSON.stringify(value, refuseNoNumber);
  if (text === undefined) throw new TypeError(`a ${typeof value} is not JSON`);
  const plain = JSON.parse(text) as JsonValue;
  if (isDeeper(plain, MAX_DEPTH)) throw new TypeError(`it nests deeper than ${MAX_DEPTH} levels`);
  return plain;
}

/** The same for what must be an object. */
export function plainObject(value: object): JsonObject {
  const plain = plainJson(value);
  if (typeof plain !== "object" || plain === null || Array.isArray(plain)) throw new TypeError("it is no JSON object");
  return plain;
}

/** A JSON value as a message. Throws TypeError for what JSON cannot hold. */
export function valueFrom(value: unknown): Value {
  return fromJson(ValueSchema, plainJson(value));
}

/** The JSON value of a message, undefined if there is none. */
export function jsonOf(value: Value | undefined): JsonValue | undefined {
  return value && toJson(ValueSchema, value);
}

/** A point in time, or a span in milliseconds that counts from now. */
export function timestampFrom(time: Date | number | undefined): Timestamp | undefined {
  if (time === undefined) return undefined;
  return timestampFromMs(typeof time === "number" ? Date.now() + Math.round(time) : time.getTime());
}

/** A point in time to the millisecond, undefined if there is none. */
export function dateOf(time: Timestamp | undefined): Date | undefined {
  return time && timestampDate(time);
}

/** A word that nobody else has chosen. `crypto.randomUUID` would do, but browsers have it over https only. */
export function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function refuseNoNumber(_key: string, value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${value} is not JSON`);
  return value;
}

function isDeeper(plain: JsonValue, levels: number): boolean {
  if (typeof plain !== "object" || plain === null) return false;
  return levels === 0 || Object.values(plain).some((item) => isDeeper(item, levels - 1));
}
