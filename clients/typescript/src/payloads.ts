/**
 * Inputs and outputs that travel exactly: as `params` and `result` where these hold the value, else as a payload
 * (docs/rules.md, Payloads).
 */
import { create, fromJson, type JsonObject, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { type Payload as PayloadMessage, PayloadSchema } from "./gen/taskyard/v1/task_pb.js";
import { type ExactJson, exactText, isTooDeep, parseExactly, withoutTags } from "./values.js";

/** A value that the server keeps as it is. Give one as `input`, or return one from a handler, to send bytes of your own. */
export class Payload {
  /** The bytes. */
  readonly data: Uint8Array;
  /** What the bytes are: JSON in UTF-8 if undefined, else the name of the codec by which both ends read them. */
  readonly encoding: string | undefined;

  /**
   * @param data The bytes.
   * @param encoding The name of the codec that made them. Default: they are JSON in UTF-8.
   */
  constructor(data: Uint8Array, encoding?: string) {
    this.data = data;
    this.encoding = encoding;
  }

  /**
   * The value of JSON. Integers that no `number` holds are `bigint`.
   *
   * @throws TypeError for bytes of a codec, which has to decode them.
   * @throws SyntaxError for bytes that are not JSON.
   */
  value(): ExactJson {
    if (this.encoding) throw new TypeError(`encoded by the codec '${this.encoding}', which has to decode its data`);
    return parseExactly(new TextDecoder("utf-8", { fatal: true }).decode(this.data));
  }
}

/**
 * A result of a handler that travels exactly: with a `bigint` in it that no `number` holds. A plain result with such a
 * `bigint` fails the task instead.
 */
export class Output {
  /** The result: any JSON value, with `bigint` for integers. */
  readonly value: unknown;

  /** @param value The result: any JSON value, with `bigint` for integers. */
  constructor(value: unknown) {
    this.value = value;
  }
}

export function payloadFrom(message: PayloadMessage | undefined): Payload | undefined {
  return message && new Payload(message.data, message.encoding);
}

/** An input as it is sent. Throws TypeError for what is not JSON. */
export function inputFields(input: unknown): { params?: JsonObject; input?: PayloadMessage } {
  if (input === undefined) return {};
  if (input instanceof Payload) return { input: messageOf(input) };
  const text = exactText(input);
  const plain = plainOf(text);
  if (isObject(plain)) return { params: plain };
  return { input: jsonPayload(text) };
}

/** An output as it is sent. Throws TypeError for what is not JSON. */
export function outputFields(output: unknown): { result?: Value; output?: PayloadMessage } {
  if (output === undefined) return {};
  if (output instanceof Payload) return { output: messageOf(output) };
  const text = exactText(output);
  const plain = plainOf(text);
  return plain === undefined ? { output: jsonPayload(text) } : { result: fromJson(ValueSchema, plain) };
}

/** How many bytes an output has as it is sent. */
export function bytesOf({
  result,
  output,
}: {
  result?: Value | undefined;
  output?: PayloadMessage | undefined;
}): number {
  const bytes = result ? toBinary(ValueSchema, result).length : 0;
  return bytes + (output ? toBinary(PayloadSchema, output).length : 0);
}

/**
 * The input of a task: its `params`, or what its payload holds in their place.
 *
 * @param task A task.
 * @returns The input. Integers that no `number` holds are `bigint`.
 * @throws TypeError for the payload of a codec.
 */
export function inputOf<I = JsonValue>(task: { params: JsonObject; input?: Payload | undefined }): I {
  return (task.input ? task.input.value() : task.params) as I;
}

/**
 * The output of a task: its `result`, or what its payload holds in its place.
 *
 * @param task A task.
 * @returns The output, undefined if there is none. Integers that no `number` holds are `bigint`.
 * @throws TypeError for the payload of a codec.
 */
export function outputOf<O = JsonValue>(task: {
  result?: JsonValue | undefined;
  output?: Payload | undefined;
}): O | undefined {
  return (task.output ? task.output.value() : task.result) as O | undefined;
}

/** The value of a text, undefined if `params` and `result` cannot hold it. */
function plainOf(text: string): JsonValue | undefined {
  if (withoutTags(text) !== text) return undefined;
  const plain = JSON.parse(text) as JsonValue;
  return isTooDeep(plain) ? undefined : plain;
}

function isObject(plain: JsonValue | undefined): plain is JsonObject {
  return typeof plain === "object" && plain !== null && !Array.isArray(plain);
}

function jsonPayload(text: string): PayloadMessage {
  return create(PayloadSchema, { data: new TextEncoder().encode(withoutTags(text)) });
}

function messageOf({ data, encoding }: Payload): PayloadMessage {
  return create(PayloadSchema, { data: data as Uint8Array<ArrayBuffer>, ...(encoding && { encoding }) });
}
